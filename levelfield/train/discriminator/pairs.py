"""Rows of a discriminator's training data: human texts and their negatives."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools
from levelfield.core.errors import UserError
from levelfield.io.json_input import parse_json
from levelfield.io.lines import lines
from levelfield.io.problems import Wrong, printable

SHARE = 10
"""One text in this many is held out."""
MOST_HELD_OUT = 1000

EMPTY = "a text is empty"
UNCHANGED = "the negative is the positive"
ALSO_POSITIVE = "the negative is another row's positive"


class TrainingPair(NamedTuple):
    """A human text and its worse twin."""

    positive: str
    negative: str


@dataclass(frozen=True)
class TrainingPairs:
    """What files of negatives hold.

    Attributes:
        pairs: those that can be learnt from.
        skipped: why others can't -> how many.
    """

    pairs: tuple[TrainingPair, ...]
    skipped: Mapping[str, int]

    @property
    def digest(self) -> str:
        """Names the texts."""
        digest = hashlib.sha256()
        for text in itertools.chain.from_iterable(self.pairs):
            digest.update(_sha256(text))
        return digest.hexdigest()


def read_rows(files: Sequence[Path], separator: str = "\n") -> TrainingPairs:
    """Returns the rows of JSONL files, each `{"positive", "negative"}`; other fields are ignored.

    A text is a string, or a list of turns or sentences, which `separator` joins.

    Raises:
        UserError: a file can't be read, a line is not such an object, or fewer than two different
            positives are left.
    """
    pairs = [pair for file in files for pair in _pairs(file, separator)]
    positives = {pair.positive for pair in pairs}
    skipped: Counter[str] = Counter()
    fit = []
    for pair in pairs:
        if reason := _unfit(pair, positives):
            skipped[reason] += 1
        else:
            fit.append(pair)
    return check_enough(TrainingPairs(tuple(fit), skipped))


def check_enough(rows: TrainingPairs) -> TrainingPairs:
    """Returns the rows.

    Raises:
        UserError: they have fewer than two different positives.
    """
    if len({pair.positive for pair in rows.pairs}) < 2:
        left_out = "; ".join(f"{reason}: {n}" for reason, n in rows.skipped.items())
        raise UserError(
            f"{len(rows.pairs)} rows to learn from: expected at least two with different positives "
            f"and a negative each, one to train on and one to validate on (rows left out: "
            f"{left_out or 'none'})"
        )
    return rows


def _unfit(pair: TrainingPair, positives: set[str]) -> str:
    if not (pair.positive and pair.negative):
        return EMPTY
    if pair.positive == pair.negative:
        return UNCHANGED
    return ALSO_POSITIVE if pair.negative in positives else ""


def _pairs(file: Path, separator: str) -> Iterator[TrainingPair]:
    name = printable(str(file))
    try:
        for number, line in lines(file):
            if isinstance(line, Wrong):
                raise UserError(f"{name}:{number}: {line}")
            if not line.strip():
                continue
            try:
                row = parse_json(line)
                yield TrainingPair(
                    _text(row["positive"], separator), _text(row["negative"], separator)
                )
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f'{name}:{number}: expected an object with "positive" and "negative", each a '
                    "text or a list of turns"
                ) from error
    except OSError as error:
        raise UserError(f"{name}: can't be read: {error.strerror or error}") from error


def _text(value: object, separator: str) -> str:
    if isinstance(value, list) and all(isinstance(turn, str) for turn in value):
        value = separator.join(turn.strip() for turn in value)
    if not isinstance(value, str):
        raise TypeError("neither a text nor turns")
    return value.strip()


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def held_out(positives: Sequence[str]) -> Bools:
    """Returns which pairs are held out, by their positives: of the different ones a tenth, at least
    one and at most 1,000, those whose hashes are smallest. So a text is on one side with all its
    negatives, whatever the order of the rows."""
    distinct = sorted(set(positives), key=_sha256)
    held = set(distinct[: min(MOST_HELD_OUT, max(1, len(distinct) // SHARE))])
    return np.array([text in held for text in positives], np.bool_)

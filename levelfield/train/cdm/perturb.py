"""Perturbations: human texts spoilt by rules, as negatives for a discriminator.

In the manner of UNION (Guan and Huang 2020), the self-supervised baseline of CTRLEval's section
4.3: sentences in another order, twice, of another text, or turned into their opposite. Dropping a
sentence is ours. UNION's own rates of each are not reproduced: all kinds are equally likely.

The units of a text are its lines if it has several (turns of a dialogue), else its sentences. White
space between units stays in its place, so that it does not give a negative away.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TextIO

import numpy as np

from levelfield.core.errors import UserError
from levelfield.text import segmenter
from levelfield.train.cdm.manipulate import words_of
from levelfield.train.cdm.negation import negate

Perturbation = Callable[[str, np.random.Generator], str | None]
"""A spoilt text; None where there is nothing to spoil in this way."""

LONGEST_REPEAT = 4
"""Words of the longest n-gram that is written twice."""
_LINE = re.compile(r"\S(?:[^\n]*\S)?")


class Perturbed(NamedTuple):
    """A text and its perturbed twin.

    Attributes:
        negative: differs from the positive; None where no kind could be applied.
        kinds: what was applied, in order.
    """

    id: str
    positive: str
    negative: str | None
    kinds: tuple[str, ...]


def make_perturbed(
    documents: Iterable[tuple[str, str]], kinds: Sequence[str], *, seed: int, times: int = 1
) -> Iterator[Perturbed]:
    """Yields a perturbed twin of every document, those that can't be perturbed included.

    A twin depends on the seed, the document, its place, and, for `substitute`, the document before
    it (of the first the one after it).

    Args:
        documents: ids and texts; read as they are needed.
        kinds: as for `perturb`.
        times: the most perturbations of a text; all numbers from 1 on are equally likely.

    Raises:
        UserError: a kind is unknown, or a number is out of range.
    """
    _check(kinds, times)
    if seed < 0:
        raise UserError(f"seed {seed}: expected 0 or more")
    waiting = iter(documents)
    first = list(itertools.islice(waiting, 2))
    other = first[-1][1] if first else ""
    for index, (id, text) in enumerate(itertools.chain(first, waiting)):
        rng = np.random.default_rng([seed, index])
        negative, applied = perturb(text, rng, kinds, times=times, other=other)
        yield Perturbed(id, text, negative, applied)
        other = text


class PerturbationCounts(NamedTuple):
    """Negatives that were written, texts that can't be perturbed, and kind -> times applied."""

    negatives: int
    unchanged: int
    kinds: Mapping[str, int]


def write_perturbed(
    texts: Iterable[str], kinds: Sequence[str], file: TextIO, *, seed: int, times: int = 1
) -> PerturbationCounts:
    """Writes the negatives of texts, one JSON object a line: `{"id", "positive", "negative",
    "kinds"}`. The id is the text's number. Texts that can't be perturbed are left out.

    Raises:
        UserError: as for `make_perturbed`.
    """
    negatives = unchanged = 0
    applied: Counter[str] = Counter()
    numbered = ((str(number), text) for number, text in enumerate(texts))
    for perturbed in make_perturbed(numbered, kinds, seed=seed, times=times):
        if perturbed.negative is None:
            unchanged += 1
            continue
        negatives += 1
        applied.update(perturbed.kinds)
        file.write(json.dumps(perturbed._asdict(), ensure_ascii=False) + "\n")
    return PerturbationCounts(negatives, unchanged, applied)


def perturb(
    text: str, rng: np.random.Generator, kinds: Sequence[str], *, times: int = 1, other: str = ""
) -> tuple[str | None, tuple[str, ...]]:
    """Returns the text after 1 to `times` perturbations, and their kinds; None if none applies.

    Every kind is equally likely; one that can't be applied is replaced by another. The result is
    never the text itself.

    Args:
        kinds: of `shuffle`, `drop`, `repeat`, `negate`, `substitute`.
        other: where `substitute` takes sentences from.

    Raises:
        UserError: a kind is unknown, or `times` is below 1.
    """
    _check(kinds, times)
    perturbations: Mapping[str, Perturbation] = {
        **KINDS,
        "substitute": functools.partial(substitute, other=other),
    }
    now, applied = text, []
    for _ in range(int(rng.integers(1, times + 1))):
        for kind in (kinds[i] for i in rng.permutation(len(kinds))):
            spoilt = perturbations[kind](now, rng)
            if spoilt is not None and spoilt not in (now, text):
                now = spoilt
                applied.append(kind)
                break
    return now if applied else None, tuple(applied)


def _check(kinds: Sequence[str], times: int) -> None:
    names = (*KINDS, "substitute")
    foreign = [kind for kind in kinds if kind not in names]
    if foreign or not kinds:
        unknown = f"'{foreign[0]}'" if foreign else "none"
        raise UserError(
            f"kinds of perturbation: expected some of {', '.join(names)}, got {unknown}"
        )
    if times < 1:
        raise UserError(f"times {times}: expected at least 1")


def shuffle(text: str, rng: np.random.Generator) -> str | None:
    """Returns units in another order; None with fewer than two different ones."""
    spans = _units(text)
    units = [text[begin:end] for begin, end in spans]
    if len(set(units)) < 2:
        return None
    order = [units[i] for i in rng.permutation(len(units))]
    if order == units:
        i = int(rng.integers(len(units)))
        j = next(j for j, unit in enumerate(units) if unit != units[i])
        order[i], order[j] = units[j], units[i]
    return _replaced(text, spans, order)


def drop(text: str, rng: np.random.Generator) -> str | None:
    """Returns the text without one of its inner units; None with fewer than three units.

    A text without its first or last unit may be as good as before.
    """
    spans = _units(text)
    if len(spans) < 3:
        return None
    unit = int(rng.integers(1, len(spans) - 1))
    return text[: spans[unit][0]] + text[spans[unit + 1][0] :]


def repeat(text: str, rng: np.random.Generator) -> str | None:
    """Returns a unit, or 1 to 4 words of one, once more right after itself; None of an empty
    text."""
    spans = _units(text)
    if not spans:
        return None
    index = int(rng.integers(len(spans)))
    begin, end = spans[index]
    if rng.random() < 0.5:
        near = max(0, min(index, len(spans) - 2))
        gap = text[spans[near][1] : spans[near + 1][0]] if len(spans) > 1 else " "
    else:
        words = words_of(text, begin, end)
        n = int(rng.integers(1, min(LONGEST_REPEAT, len(words)) + 1))
        first = int(rng.integers(len(words) - n + 1))
        near = max(0, min(first, len(words) - 2))
        gap = text[words[near][1] : words[near + 1][0]] if len(words) > 1 else " "
        begin, end = words[first][0], words[first + n - 1][1]
    return text[:end] + gap + text[begin:end] + text[end:]


def substitute(text: str, rng: np.random.Generator, *, other: str) -> str | None:
    """Returns the text with one unit of another text in place of one of its own.

    None with fewer than two units (nothing would be left that it does not fit), and where the
    other text has nothing else to say.
    """
    spans = _units(text)
    if len(spans) < 2:
        return None
    index = int(rng.integers(len(spans)))
    units = [text[begin:end] for begin, end in spans]
    foreign = [other[begin:end] for begin, end in _units(other)]
    foreign = [unit for unit in foreign if unit not in units]
    if not foreign:
        return None
    units[index] = foreign[int(rng.integers(len(foreign)))]
    return _replaced(text, spans, units)


def _units(text: str) -> list[tuple[int, int]]:
    """Returns where the lines of a text are; of one line, its sentences."""
    lines = [match.span() for match in _LINE.finditer(text)]
    if len(lines) != 1:
        return lines
    spans, position = [], 0
    for sentence in segmenter.sentences(text):
        begin = text.index(sentence, position)
        position = begin + len(sentence)
        spans.append((begin, position))
    return spans


def _replaced(text: str, spans: Sequence[tuple[int, int]], units: Sequence[str]) -> str:
    """Returns the text with other units in the places of its own."""
    whole, position = "", 0
    for (begin, end), unit in zip(spans, units, strict=True):
        whole += text[position:begin] + unit
        position = end
    return whole + text[position:]


KINDS: Mapping[str, Perturbation] = {
    "shuffle": shuffle,
    "drop": drop,
    "repeat": repeat,
    "negate": negate,
}
"""The perturbations that need nothing but the text."""

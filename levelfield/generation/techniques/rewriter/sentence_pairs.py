"""Pairs of sentences that say the same in two styles."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample, single_value
from levelfield.generation.techniques.rewriter.rewriter_options import PairOptions
from levelfield.io import open_samples
from levelfield.io.problems import shown
from levelfield.io.reading import ReadingOptions


@dataclass(frozen=True)
class RewritingPair:
    """A source, and a text that says the same in a style.

    Attributes:
        label: the style of `text`.
        source, text: both not empty.
    """

    label: str
    source: str
    text: str

    def reversed(self, label: str) -> RewritingPair:
        """Returns the other way round, where `label` is the style of `source`."""
        return RewritingPair(label, self.text, self.source)


@dataclass(frozen=True)
class RewritingPairs:
    """Pairs to learn from and pairs held out.

    Attributes:
        attribute: whose values the labels are.
        labels: all styles that are written in, sorted.
        train, test: pairs; none of `test` has a sentence of `train`.
    """

    attribute: str
    labels: tuple[str, ...]
    train: tuple[RewritingPair, ...]
    test: tuple[RewritingPair, ...]

    @property
    def digest(self) -> str:
        """Names all of it."""
        return hashlib.sha256(repr(self).encode("utf-8", "surrogatepass")).hexdigest()


def rewriting_pairs(
    files: Sequence[str],
    attribute: str,
    chosen: PairOptions | None = None,
    **words: Any,
) -> RewritingPairs:
    """Returns the pairs of files: `source`, `text`, and the style of `text` in `control.ATTRIBUTE`.

    Pairs that share a sentence are held out together. Held-out pairs that share a sentence with
    those to learn from are left out.

    Args:
        words: options of `PairOptions`, instead of those there.

    Raises:
        InputError, UserError: a file can't be read; a pair lacks something or has no such label;
            with both directions, there are not two labels.
    """
    chosen = PairOptions.of(chosen, **words)
    both_directions, held_out = chosen.both_directions, chosen.held_out
    pairs = _read(files, attribute, chosen.reading)
    test = _read(held_out, attribute, chosen.reading) if held_out else []
    names = tuple(sorted(set(chosen.labels) or {pair.label for pair in (*pairs, *test)}))
    if foreign := sorted({pair.label for pair in (*pairs, *test)} - set(names)):
        raise UserError(
            f"--label: a pair has {shown(foreign[0])}; expected one of {', '.join(names)}"
        )
    if both_directions and len(names) != 2:
        raise UserError(
            f"--both-directions needs two labels, and there are {len(names)}: "
            f"{', '.join(names)}; name them with --label, twice"
        )
    if held_out:
        learnt = {text for pair in pairs for text in (pair.source, pair.text)}
        test = [pair for pair in test if not {pair.source, pair.text} & learnt]
    else:
        pairs, test = _split(pairs, chosen.share or 0.0, chosen.seed)
    if not pairs:
        raise UserError("there is no pair to learn from")
    if both_directions:
        other = dict(zip(names, reversed(names), strict=True))
        pairs += [pair.reversed(other[pair.label]) for pair in pairs]
        test += [pair.reversed(other[pair.label]) for pair in test]
    return RewritingPairs(attribute, names, _distinct(pairs), _distinct(test))


def _read(files: Sequence[str], attribute: str, reading: ReadingOptions) -> list[RewritingPair]:
    source = open_samples(files, reading, ids="any")
    source.check(needed=("source",))
    return [_pair(sample, attribute) for sample in source]


def _pair(sample: Sample, attribute: str) -> RewritingPair:
    label = single_value(sample.control.get(attribute, ""))
    if not isinstance(label, str) or not label:
        raise UserError(
            f"pair {shown(sample.id)}: expected one label in control.{attribute}, the style of its "
            "text"
        )
    for name in ("source", "text"):
        if not getattr(sample, name).strip():
            raise UserError(f"pair {shown(sample.id)}: the {name} is empty")
    return RewritingPair(label, sample.source.strip(), sample.text.strip())


def _distinct(pairs: Iterable[RewritingPair]) -> tuple[RewritingPair, ...]:
    return tuple(dict.fromkeys(pairs))


def _split(
    pairs: list[RewritingPair], share: float, seed: int
) -> tuple[list[RewritingPair], list[RewritingPair]]:
    """Pairs to learn from and held out; those that share a sentence, also by way of others, stay
    together."""
    group: dict[str, str] = {}

    def root(text: str) -> str:
        while group.setdefault(text, text) != text:
            group[text] = text = group[group[text]]
        return text

    for pair in pairs:
        group[root(pair.source)] = root(pair.text)
    roots = sorted({root(pair.source) for pair in pairs})
    order = np.random.default_rng(seed).permutation(len(roots))
    chosen = {roots[i] for i in order[: round(share * len(roots))]}
    train = [pair for pair in pairs if root(pair.source) not in chosen]
    return train, [pair for pair in pairs if root(pair.source) in chosen]

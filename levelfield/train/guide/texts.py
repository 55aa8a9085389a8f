"""The texts that a guide is trained and tested on.

Sets of film reviews are lower case, with blanks around punctuation. A language model that learns
from them as they are learns that, too, and what it writes looks like them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.core.sample import Sample
from levelfield.datasets import dataset, load, names
from levelfield.models.torch.language_model import LanguageModel
from levelfield.train.guide.settings import GuideData
from levelfield.train.labelled import (
    Labelled,
    LabelledTexts,
    from_controls,
    from_several_controls,
    own_texts,
    source_line,
)

_RULES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\. \. \.", "..."),
        (r" ([.,!?;:%)\]])", r"\1"),
        (r"([(\[$#]) ", r"\1"),
        (r" (n't|'s|'re|'ve|'ll|'d|'m)\b", r"\1"),
        (r"\b(ca|wo) ?(?=n't)", r"\1"),
        (r"(?:``|\"|'') ([^\"`']*?) (?:''|\")", r'"\1"'),
        (r"\bi\b(?=$|[ ,.!?;:']|'(?:m|d|ll|ve)\b)", "I"),
    )
)
_BEGIN = re.compile(r"(?:^|(?<=[^.][.!?] ))\W*(?:(\w)|\Z)")
"""The end of the text matches too, so that what has no word after it is read once."""


def as_written(text: str) -> str:
    """Returns a tokenised text without the blanks before punctuation, sentences beginning with
    capitals.

    >>> as_written("it 's dull , and i 'm not amused .")
    "It's dull, and I'm not amused."
    """
    text = " ".join(text.split())
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return _BEGIN.sub(lambda match: match[0].upper() if match[1] else match[0], text)


TOKENISED = frozenset({"sst2", "yelp-sentences", "nltk-sentence-polarity", "nltk-movie-reviews"})
"""Sets whose texts are lower case, with blanks around punctuation, one sentence a line."""


def guide_texts(
    data: Sequence[str],
    attribute: str,
    chosen: GuideData | None = None,
    **words: Any,
) -> LabelledTexts:
    """Returns labelled texts of sets by name and of files, and those held out.

    Of a set by name all parts are learnt from but `test`; its sentences are written as people write
    them; a review is cut into passages of one sentence or several.

    Args:
        attribute: whose labels are learnt; several with commas between them, of which each text
            has a label of one or more.
        data: names of sets, or files.
        words: options of `GuideData`, instead of those there.

    Raises:
        UserError, InputError: a file can't be read, a sample has no label.
        FetchError: a set can't be fetched.
    """
    chosen = GuideData.of(chosen, **words)
    rows, test = _labelled(_samples(data, False, chosen), attribute), None
    if chosen.held_out:
        test = _labelled(_samples(chosen.held_out, True, chosen), attribute, rows)
    sources = [_source(name) for name in data if _is_set(name)]
    return own_texts(rows, test, sources, share=chosen.share or 0.0, seed=chosen.seed)


def labelled_texts(data: Sequence[str], attribute: str) -> Labelled:
    """Returns all texts of sets by name, `test` aside, and of files, with their labels; as
    `guide_texts` has them before any are held out."""
    return _labelled(_samples(data, False, GuideData()), attribute)


def _samples(data: Sequence[str], part_is_test: bool, chosen: GuideData) -> list[Sample]:
    named = [name for name in data if _is_set(name)]
    files = [name for name in data if not _is_set(name)]
    samples = [
        sample for name in named for sample in _set_samples(name, part_is_test, chosen.sentences)
    ]
    return samples + (chosen.samples(files) if files else [])


def _labelled(samples: Sequence[Sample], attribute: str, like: Labelled | None = None) -> Labelled:
    """Returns texts with the labels of an attribute or several, the same labels as `like` has."""
    attributes = list(dict.fromkeys(name.strip() for name in attribute.split(",")))
    if len(attributes) == 1:
        return from_controls(samples, attributes[0], like.labels if like else ())
    return from_several_controls(samples, attributes, like.columns() if like else None)


def _is_set(name: str) -> bool:
    return name in names() and not Path(name).exists()


def readable(rows: Labelled, base: LanguageModel, tokens: int) -> tuple[Labelled, list[list[int]]]:
    """Returns the texts that have tokens, and the first tokens of each, as many as the model takes
    after a first token."""
    most = min(tokens, base.tokens.limit - 1)
    ids = [text_ids[:most] for text_ids in base.tokens.ids(rows.texts)]
    has_tokens = np.array([bool(text_ids) for text_ids in ids], np.bool_)
    return rows.only(has_tokens), [text_ids for text_ids in ids if text_ids]


def _set_samples(name: str, part_is_test: bool, sentences: int) -> list[Sample]:
    parts = dataset(name).parts
    chosen = [part for part in parts if (part == "test") == part_is_test] or list(parts)
    samples = load(name, part=chosen)
    if name not in TOKENISED:
        return samples
    return [
        replace(sample, text=" ".join(map(as_written, lines)))
        for sample in samples
        for lines in _passages(sample.text.splitlines(), sentences)
    ]


def _passages(lines: list[str], n: int) -> list[list[str]]:
    return [lines[begin : begin + n] for begin in range(0, len(lines), n)]


def _source(name: str) -> str:
    parts = ", ".join(part for part in dataset(name).parts if part != "test")
    return source_line(name, parts or "all")


class AttributeRows:
    """The texts of one attribute.

    Attributes:
        attribute: its name.
        labels: of the attribute.
        at: (n,) which of all texts.
        block: which of all columns.
        targets: (n, labels of the attribute), shares that sum to 1.
    """

    def __init__(self, rows: Labelled, attribute: str, first: int, labels: Sequence[str]) -> None:
        self.attribute, self.labels = attribute, tuple(labels)
        self.block = slice(first, first + len(labels))
        shares = rows.targets[:, self.block]
        self.at: Codes = np.flatnonzero(shares.max(axis=1) > 0)
        self.targets: Floats = shares[self.at] / shares[self.at].sum(axis=1, keepdims=True)

    @property
    def truth(self) -> Codes:
        """(n,) the likeliest label, counted within the attribute."""
        truth: Codes = self.targets.argmax(axis=1)
        return truth


def by_attribute(rows: Labelled, attribute: str) -> list[AttributeRows]:
    """Returns the texts of each attribute, in the order of the columns.

    Args:
        attribute: of texts whose labels are all of one.
    """
    parts, first = [], 0
    for name, labels in rows.columns(attribute).items():
        parts.append(AttributeRows(rows, name, first, labels))
        first += len(labels)
    return parts


def subset(rows: Labelled, n: int, seed: int) -> Labelled:
    """Returns at most n texts of every label, drawn by the seed, in their order; all for n = 0."""
    if not n:
        return rows
    drawn = [
        np.random.default_rng([seed, label]).permutation(np.flatnonzero(shares > 0))[:n]
        for label, shares in enumerate(rows.targets.T)
    ]
    return rows.only(np.unique(np.concatenate(drawn)))

"""Labelled texts to train and test models on: merged, split, and kept apart."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import regex

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.models.small.shapes import lexis

RUN = 8
"""Words in a row that two texts don't share by chance."""
SHORT = 4
"""Words of the shortest text that is looked for inside others."""
_SIGN = regex.compile(r"[^\p{L}\p{M}\p{N}]+")


@dataclass(frozen=True)
class RatingScale:
    """How ratings become labels: P(high) = (rating − least) / (most − least), at least 0 and at
    most 1.

    Attributes:
        aspect: of the ratings; of several raters the mean counts.
        low, high: the labels at the ends.
    """

    aspect: str
    low: str
    high: str
    least: float
    most: float

    def __post_init__(self) -> None:
        if not self.least < self.most:
            raise UserError(
                f"the ratings go from {self.least:g} to {self.most:g}: expected a greater number "
                "last"
            )
        if self.low == self.high:
            raise UserError(f"both ends of the ratings are called '{self.low}'")


@dataclass(frozen=True)
class Labelled:
    """Texts and their labels.

    Attributes:
        texts: any.
        targets: (texts, labels) share of each label; 0 and 1 where texts were labelled.
        labels: in the order of the columns.
        times: (texts,) how often each is learnt from, compared with the others.
        rated: whether targets come from ratings. Equal texts with different labels have shares,
            too.
        attributes: the attribute of each column if the labels are of several; else empty. A text
            may lack a label of some attributes; its shares there are 0.
    """

    texts: tuple[str, ...]
    targets: Floats
    labels: tuple[str, ...]
    times: Codes = field(default_factory=lambda: np.empty(0, np.intp))
    rated: bool = False
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.times):
            object.__setattr__(self, "times", np.ones(len(self.texts), np.intp))

    def __len__(self) -> int:
        return len(self.texts)

    def only(self, rows: Bools | Codes) -> Labelled:
        """Returns some of the texts."""
        indices = np.arange(len(self))[rows]
        return replace(
            self,
            texts=tuple(self.texts[i] for i in indices),
            targets=self.targets[indices],
            times=self.times[indices],
        )

    def columns(self, attribute: str = "") -> dict[str, tuple[str, ...]]:
        """Returns attribute -> its labels, in the order of the columns.

        Args:
            attribute: that of texts whose labels are all of one.
        """
        owners = self.attributes or (attribute,) * len(self.labels)
        return {
            name: tuple(
                label for label, owner in zip(self.labels, owners, strict=True) if owner == name
            )
            for name in dict.fromkeys(owners)
        }

    @property
    def digest(self) -> str:
        """Names texts, targets and weights."""
        digest = hashlib.sha256(repr(self.labels).encode())
        if self.attributes:
            digest.update(repr(self.attributes).encode())
        for text in self.texts:
            digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        digest.update(np.round(self.targets, 9).tobytes() + self.times.astype("<i8").tobytes())
        return digest.hexdigest()


def from_controls(
    samples: Iterable[Sample], attribute: str, labels: Sequence[str] = ()
) -> Labelled:
    """Returns texts whose label is their control.

    Args:
        labels: the allowed ones; those of the samples, sorted, if empty.

    Raises:
        UserError: a sample has no label of this attribute, or several, or one that is not allowed;
            or there are fewer than two labels.
    """
    texts, label_names = [], []
    for sample in samples:
        label = sample.control.get(attribute)
        if not isinstance(label, str) or not label.strip():
            labels_shown = "no label" if not label else f"several labels: {', '.join(label)}"
            raise UserError(
                f"sample '{sample.id}' has {labels_shown}; expected one in control.{attribute} "
                f"(--map control.{attribute}=COLUMN names your column)"
            )
        texts.append(sample.text)
        label_names.append(label.strip())
    names = tuple(labels) or tuple(sorted(set(label_names)))
    if len(names) < 2:
        raise UserError(
            f"the texts have {len(names)} different labels of {attribute} "
            f"({', '.join(names) or 'there are no texts'}): expected at least two"
        )
    if unknown := sorted(set(label_names) - set(names)):
        raise UserError(
            f"the held-out texts have the label '{unknown[0]}', which no training text has; those "
            f"have {', '.join(names)}"
        )
    return Labelled(
        tuple(texts), np.eye(len(names))[[names.index(label) for label in label_names]], names
    )


def from_several_controls(
    samples: Sequence[Sample],
    attributes: Sequence[str],
    labels: Mapping[str, Sequence[str]] | None = None,
) -> Labelled:
    """Returns texts that have a label of one attribute or more, which are their controls.

    Args:
        labels: the allowed ones of each attribute; those of the samples, sorted, if not given.

    Raises:
        UserError: as of `from_controls`, and a sample that has a label of no attribute.
    """
    for sample in samples:
        if not any(sample.control.get(attribute) for attribute in attributes):
            raise UserError(
                f"sample '{sample.id}' has no label; expected one in "
                f"{' or '.join(f'control.{attribute}' for attribute in attributes)}"
            )
    blocks = []
    names: list[str] = []
    owners: list[str] = []
    for attribute in attributes:
        has = [bool(sample.control.get(attribute)) for sample in samples]
        labelled = list(itertools.compress(samples, has))
        if labels and not labelled:
            raise UserError(f"no held-out text has a label of {attribute}")
        part = from_controls(labelled, attribute, labels[attribute] if labels else ())
        block = np.zeros((len(samples), len(part.labels)))
        block[np.array(has, np.bool_)] = part.targets
        blocks.append(block)
        names += part.labels
        owners += [attribute] * len(part.labels)
    texts = tuple(sample.text for sample in samples)
    return Labelled(texts, np.concatenate(blocks, axis=1), tuple(names), attributes=tuple(owners))


def from_ratings(samples: Iterable[Sample], scale: RatingScale) -> Labelled:
    """Returns texts whose labels come from their mean ratings.

    Raises:
        UserError: a sample has no rating of the aspect.
    """
    texts, high = [], []
    for sample in samples:
        if not (by_rater := sample.ratings.get(scale.aspect)):
            raise UserError(f"sample '{sample.id}' has no rating of {scale.aspect}")
        mean = np.mean(list(by_rater.values()))
        texts.append(sample.text)
        high.append((mean - scale.least) / (scale.most - scale.least))
    p = np.clip(np.array(high, np.float64), 0, 1)
    targets = np.stack([1 - p, p], axis=1)
    return Labelled(tuple(texts), targets, (scale.low, scale.high), rated=True)


def joined(sets: Sequence[tuple[Labelled, int]]) -> Labelled:
    """Returns sets joined in order, each with its number of repetitions in training.

    Raises:
        UserError: their labels differ.
    """
    labels = sets[0][0].labels
    for rows, _ in sets:
        if rows.labels != labels:
            raise UserError(f"labels differ: {', '.join(labels)} and {', '.join(rows.labels)}")
    return Labelled(
        tuple(itertools.chain.from_iterable(rows.texts for rows, _ in sets)),
        np.concatenate([rows.targets for rows, _ in sets]),
        labels,
        np.concatenate([rows.times * times for rows, times in sets]),
        any(rows.rated for rows, _ in sets),
    )


class Merged(NamedTuple):
    """Distinct texts; how many rows repeated one, and how many had no words."""

    rows: Labelled
    repeated: int
    empty: int


def merged(rows: Labelled) -> Merged:
    """Returns every text once, with the mean of its targets; texts without words are left out.
    Texts of the same words are one text."""
    first: dict[str, int] = {}
    place = []
    for i, text in enumerate(rows.texts):
        key = " ".join(lexis(text))
        place.append(first.setdefault(key, i) if key else -1)
    groups = np.array(place, np.intp)
    firsts = np.flatnonzero(groups == np.arange(len(rows)))
    group = np.searchsorted(firsts, groups[groups >= 0])
    sums = np.zeros((len(firsts), len(rows.labels)))
    np.add.at(sums, group, rows.targets[groups >= 0])
    once = rows.only(firsts)
    empty = int((groups < 0).sum())
    means = sums / np.bincount(group, minlength=len(firsts))[:, None]
    return Merged(replace(once, targets=means), len(rows) - empty - len(firsts), empty)


def split(rows: Labelled, share: float, seed: int) -> tuple[Labelled, Labelled]:
    """Returns distinct texts to train on and texts held out: those whose hashes with the seed are
    smallest, whatever the order of the rows.

    Raises:
        UserError: one side would be empty.
    """
    held = round(len(rows) * share)
    if not 0 < held < len(rows):
        raise UserError(
            f"{len(rows)} different texts, of which a share of {share:g} is held out: expected at "
            "least one on either side"
        )
    keys = [
        hashlib.sha256(f"{seed} {' '.join(lexis(t))}".encode("utf-8", "surrogatepass")).digest()
        for t in rows.texts
    ]
    chosen = np.zeros(len(rows), np.bool_)
    chosen[sorted(range(len(rows)), key=keys.__getitem__)[:held]] = True
    return rows.only(~chosen), rows.only(chosen)


def apart(rows: Labelled, held_out: Sequence[str]) -> tuple[Labelled, int]:
    """Returns the rows that share nothing with held-out texts, and how many were left out for it.

    A row shares something with a held-out text if it is that text, contains it (if it has four
    words or more), or has eight words in a row in common with it. Case, punctuation and how words
    are tokenised make no difference: sets are cut from the same reviews in different ways.
    """
    exact: set[tuple[str, ...]] = set()
    short: set[tuple[str, ...]] = set()
    runs: set[tuple[str, ...]] = set()
    for text in held_out:
        words = _bare(text)
        exact.add(words)
        if SHORT <= len(words) < RUN:
            short.add(words)
        runs.update(_runs(words, RUN))
    lengths = sorted({len(words) for words in short})

    def shares(text: str) -> bool:
        words = _bare(text)
        return (
            words in exact
            or any(run in runs for run in _runs(words, RUN))
            or any(run in short for n in lengths for run in _runs(words, n))
        )

    alone = np.array([not shares(text) for text in rows.texts], np.bool_)
    return rows.only(alone), int((~alone).sum())


def _bare(text: str) -> tuple[str, ...]:
    """Returns words without punctuation marks, and without the names of brackets that treebanks
    have."""
    words = (_SIGN.sub("", word) for word in lexis(text))
    return tuple(word for word in words if word not in ("", "lrb", "rrb"))


def _runs(words: tuple[str, ...], n: int) -> Iterator[tuple[str, ...]]:
    return (words[i : i + n] for i in range(len(words) - n + 1))


def source_line(set: str, parts: str) -> str:
    """Returns the line of a model card that names parts of a data set and their licence."""
    from levelfield.datasets import dataset

    entry = dataset(set)
    licence = entry.licence or "no licence stated"
    return f"{set}, {parts}: {entry.title}; {licence}; {entry.citation}"


@dataclass(frozen=True)
class LabelledTexts:
    """Texts that a model is trained and tested on.

    Attributes:
        facts: how the training texts were made, for the card.
        sources: what they are and their licences.
    """

    train: Labelled
    test: Labelled
    facts: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Names the texts to learn from and those held out."""
        return f"{self.train.digest} {self.test.digest}"


def own_texts(
    rows: Labelled, test: Labelled | None, sources: Sequence[str], *, share: float, seed: int
) -> LabelledTexts:
    """Returns texts to train and test on. Without held-out texts a share of the distinct ones is
    held out.

    Raises:
        UserError: nothing is left to train on, or to try the model on.
    """
    together = merged(rows)
    train, dropped = together.rows, 0
    if test is None:
        train, test = split(train, share, seed)
    else:
        train, dropped = apart(train, test.texts)
    if not len(train) or not len(test):
        raise UserError(
            f"{len(train):,} texts to train on and {len(test):,} held out: expected some of both"
        )
    facts = {
        "Left out": f"{dropped:,} texts that share something with a held-out one, "
        f"{together.empty:,} without words",
        "Repeated": f"{together.repeated:,} rows",
    }
    return LabelledTexts(train, test, facts, tuple(sources))

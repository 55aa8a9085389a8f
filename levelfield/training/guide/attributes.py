"""Texts with labels of several attributes, attribute by attribute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from levelfield.core.arrays import Codes, Floats
from levelfield.training.guide.texts import columns
from levelfield.training.labelled import Labelled


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
    """The texts of each attribute, in the order of the columns.

    Args:
        attribute: of texts whose labels are all of one.
    """
    parts, first = [], 0
    for name, labels in columns(rows, attribute).items():
        parts.append(AttributeRows(rows, name, first, labels))
        first += len(labels)
    return parts


def at_most(rows: Labelled, n: int, seed: int) -> Labelled:
    """At most n texts of every label, drawn by the seed, in their order; all for n = 0."""
    if not n:
        return rows
    drawn = [
        np.random.default_rng([seed, label]).permutation(np.flatnonzero(shares > 0))[:n]
        for label, shares in enumerate(rows.targets.T)
    ]
    return rows.only(np.unique(np.concatenate(drawn)))

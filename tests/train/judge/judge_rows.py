"""Labelled texts that a judge learns in a second."""

from __future__ import annotations

import numpy as np

from levelfield.train.labelled import Labelled

LABELS = ("negative", "positive")
GOOD, BAD = ("a fine day", "we loved it", "fine soup"), ("a sad day", "we hated it", "sad soup")


def rows(texts, right=None, labels=LABELS) -> Labelled:
    right = [0] * len(texts) if right is None else right
    return Labelled(tuple(texts), np.eye(len(labels))[right], labels)


def many(n: int = 40) -> Labelled:
    texts = [f"{text} {i}" for i in range(n) for text in (*GOOD, *BAD)]
    return rows(texts, [1, 1, 1, 0, 0, 0] * n)

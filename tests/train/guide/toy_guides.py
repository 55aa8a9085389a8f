"""Guides that learn from our own few sentences, of which the last word says all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from levelfield.models.guides import Guide, GuideKind
from levelfield.train.guide.kinds import GuideSpec, build_guide
from levelfield.train.guide.table import settings_of
from levelfield.train.labelled import Labelled, own_texts

LABELS = ("negative", "positive")
BEGINNINGS = ("today the old lake", "once upon a time", "we saw that it")


def toy(n: int = 8) -> Labelled:
    """The last word says all."""
    texts = [
        f"{words} {i} {end}" for i in range(n) for words in BEGINNINGS for end in ("sad", "fine")
    ]
    return Labelled(tuple(texts), np.eye(2)[[0, 1] * (len(texts) // 2)], LABELS)


def built(kind: GuideKind, folder: Path, out: Path, **settings) -> Guide:
    """The guide of a kind on the base in a folder."""
    texts = own_texts(toy(), None, ["our own sentences: Apache-2.0"], share=0.2, seed=0)
    spec = GuideSpec(kind, "sentiment", settings_of(kind, settings), start=str(folder))
    return build_guide(texts, spec, out)

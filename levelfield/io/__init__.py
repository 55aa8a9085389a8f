"""Samples in, results out: files, data sets of the Hugging Face hub and what is in memory."""

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazily

if TYPE_CHECKING:
    from levelfield.io.fields import as_record
    from levelfield.io.formats import FORMATS
    from levelfield.io.opening import load_samples, open_samples
    from levelfield.io.ratings import Rated, Rating, load_ratings
    from levelfield.io.samples import OTHER_LABELS, Census, Source
    from levelfield.io.scores import ScoreColumn, load_scores
    from levelfield.io.writing import atomic_writer

__all__ = [
    "FORMATS",
    "OTHER_LABELS",
    "Census",
    "Rated",
    "Rating",
    "ScoreColumn",
    "Source",
    "as_record",
    "atomic_writer",
    "load_ratings",
    "load_samples",
    "load_scores",
    "open_samples",
]

__getattr__ = lazily(
    __name__,
    {
        "Census": "levelfield.io.samples",
        "FORMATS": "levelfield.io.formats",
        "OTHER_LABELS": "levelfield.io.samples",
        "Rated": "levelfield.io.ratings",
        "Rating": "levelfield.io.ratings",
        "ScoreColumn": "levelfield.io.scores",
        "Source": "levelfield.io.samples",
        "as_record": "levelfield.io.fields",
        "atomic_writer": "levelfield.io.writing",
        "load_ratings": "levelfield.io.ratings",
        "load_samples": "levelfield.io.opening",
        "load_scores": "levelfield.io.scores",
        "open_samples": "levelfield.io.opening",
    },
)

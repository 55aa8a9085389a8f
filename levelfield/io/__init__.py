"""Samples in, results out: files, data sets of the Hugging Face hub and what is in memory."""

from levelfield.io.census import OTHER_LABELS, Census
from levelfield.io.formats import FORMATS
from levelfield.io.opening import load_samples, open_samples
from levelfield.io.ratings import Rated, Rating, load_ratings
from levelfield.io.records import as_record
from levelfield.io.scores import ScoreColumn, load_scores
from levelfield.io.source import Source
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

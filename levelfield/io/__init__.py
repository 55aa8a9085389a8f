"""Samples in, results out: files, data sets of the Hugging Face hub and what is in memory."""

from levelfield.io.census import OTHER_LABELS, Census
from levelfield.io.formats import FORMATS
from levelfield.io.opening import load_samples, open_samples
from levelfield.io.records import as_record
from levelfield.io.source import Source
from levelfield.io.writing import atomic_writer, check_writable

__all__ = [
    "FORMATS",
    "OTHER_LABELS",
    "Census",
    "Source",
    "as_record",
    "atomic_writer",
    "check_writable",
    "load_samples",
    "open_samples",
]

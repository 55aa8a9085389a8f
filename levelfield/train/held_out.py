"""Which texts a model learns and which it is tried on: the options of reading labelled files."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass

from levelfield.core.options import Options, group, option
from levelfield.io.reading import ReadingOptions

ONE_FILE = ("source_file", "reference_files", "control", "system", "prompt", "ids")
"""Choices of reading that files of labelled texts and of pairs do not have."""


@dataclass(frozen=True)
class HeldOutOptions(Options):
    """How files are read, and what of them is held out."""

    held_out: tuple[str, ...] = option(
        (), "File to test the model on; may be given again.", is_file=True, metavar="FILE"
    )
    share: float | None = option(
        0.1,
        "Share of the pairs to test the model on, if no file is held out.",
        least=0,
        below=1,
    )
    seed: int = option(0, "Seed of the choice of what is held out.", least=0)
    reading: ReadingOptions = group(ReadingOptions(), without=ONE_FILE)

"""Judges: what says which value of an attribute a text has.

A judge gives a probability to every label of its attribute and votes for the likeliest. It is a
classifier, an encoder-decoder model that writes a word for each label, one binary classifier per
label, an encoder that compares texts with labels, or a lexicon. Judges are data: those of
`judges.toml`, or of a file of the user's own.
"""

from levelfield.metrics.judges.file import Figure, choose, figures, presets
from levelfield.metrics.judges.judge import (
    LABEL,
    TIE,
    Judge,
    JudgeVerdict,
    LoadedJudge,
    Spelling,
    vote,
)
from levelfield.metrics.judges.kinds import describe, lacking, load, models_of

__all__ = [
    "LABEL",
    "TIE",
    "Figure",
    "Judge",
    "JudgeVerdict",
    "LoadedJudge",
    "Spelling",
    "choose",
    "describe",
    "figures",
    "lacking",
    "load",
    "models_of",
    "presets",
    "vote",
]

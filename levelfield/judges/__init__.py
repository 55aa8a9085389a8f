"""Judges: what says which value of an attribute a text has.

A judge gives a probability to every label of its attribute and votes for the likeliest. It is a
classifier, an encoder-decoder model that writes a word for each label, one binary classifier per
label, an encoder that compares texts with labels, or a lexicon. Judges are data: those of
`judges.toml`, or of a file of the user's own.
"""

from levelfield.judges.asking import TIE, JudgeVerdict, LoadedJudge, vote
from levelfield.judges.availability import describe, kinds_of, lacking
from levelfield.judges.file import Figure
from levelfield.judges.judge import LABEL, Judge, Spelling
from levelfield.judges.kinds import load
from levelfield.judges.presets import choose, figures, presets

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
    "kinds_of",
    "lacking",
    "load",
    "presets",
    "vote",
]

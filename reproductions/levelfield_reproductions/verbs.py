"""The commands that this distribution adds to levelfield."""

from __future__ import annotations

from levelfield.core.extensions import Verb

REPRODUCE = Verb("levelfield_reproductions.commands:reproduce", "Derive published numbers again.")
CONVERT = Verb(
    "levelfield_reproductions.commands:convert", "Convert weights that authors published."
)

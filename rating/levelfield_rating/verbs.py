"""The command that this distribution adds to levelfield."""

from __future__ import annotations

from levelfield.core.extensions import Verb

RATE = Verb("levelfield_rating.cli:rate", "Collect people's ratings on a web page.")

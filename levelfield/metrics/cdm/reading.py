"""Readings: what the models read of a sample."""

from __future__ import annotations

from typing import Literal, NamedTuple

from levelfield.models.contracts import Gapped

Form = Literal["infilling", "conditional"]

TURN_MARK = "</UTT>"
"""Joins turns in some data sets of dialogues."""


class Reading(NamedTuple):
    """What the models read of a sample.

    Attributes:
        before: what stands before the text and is not scored: a prompt, keywords, earlier turns.
        units: what is scored, in order: sentences, turns, or all of it as one.
        joiner: stands between all of these.
    """

    before: tuple[str, ...]
    units: tuple[str, ...]
    joiner: str

    def around(self, j: int, form: Form) -> Gapped:
        """Returns what a model is shown when unit j is scored: the rest, with its place marked."""
        glue = self.joiner or " "
        left = self.joiner.join([*self.before, *self.units[:j]])
        left = left if not left or left[-1].isspace() else left + glue
        after = self.units[j + 1 :] if form == "infilling" else ()
        return Gapped(left, glue + self.joiner.join(after) if after else "")

    def whole(self) -> tuple[str, list[tuple[int, int]]]:
        """Returns all of it as one text, and where in it each unit begins and ends."""
        text = self.joiner.join([*self.before, *self.units])
        spans = []
        at = len(text) + len(self.joiner)
        for unit in reversed(self.units):
            at -= len(self.joiner) + len(unit)
            spans.append((at, at + len(unit)))
        return text, spans[::-1]

"""The frozen study as the store asks about it: whose opaque id is which item, what follows what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from levelfield.rating.model import Criterion, Frozen, Practice
from levelfield.rating.records import Phase

ORDER: tuple[Phase, ...] = (
    "welcome",
    "instructions",
    "examples",
    "practice",
    "rating",
    "review",
    "done",
)


@dataclass(frozen=True)
class Plan:
    """A frozen study under its number in the store."""

    id: int
    frozen: Frozen

    @cached_property
    def criteria(self) -> Mapping[str, Criterion]:
        return {criterion.id: criterion for criterion in self.frozen.criteria}

    @cached_property
    def practice(self) -> Mapping[str, Practice]:
        return {practice.opaque: practice for practice in self.frozen.practice}

    @cached_property
    def _keys(self) -> tuple[Mapping[str, str], ...]:
        return tuple(
            {placed.opaque: placed.item for placed in slot.items} for slot in self.frozen.slots
        )

    def key(self, slot: int, opaque: str) -> str | None:
        """The item that a slot's rater knows by this id; None if there is none."""
        return self._keys[slot].get(opaque) if slot < len(self._keys) else None

    def keys(self, slot: int) -> frozenset[str]:
        """The items of a slot; none if the study has no such slot any more."""
        return frozenset(self._keys[slot].values() if slot < len(self._keys) else ())

    def reached(self, now: Phase, wanted: Phase) -> Phase | None:
        """The phase one comes into by going on to `wanted`; None if there is no such way.

        Phases of which the study has nothing (no examples, no practice) are passed over.
        """
        if now == "withdrawn" or wanted not in ORDER:
            return None
        if now == "review" and wanted == "rating":
            return wanted
        start, end = ORDER.index(now), ORDER.index(wanted)
        while self._is_empty(ORDER[end]):
            end += 1
        open_between = any(not self._is_empty(phase) for phase in ORDER[start + 1 : end])
        return ORDER[end] if start <= end and not open_between else None

    def _is_empty(self, phase: Phase) -> bool:
        return (phase == "examples" and not self.frozen.examples) or (
            phase == "practice" and not self.frozen.practice
        )


def differences(one: Frozen, other: Frozen) -> list[str]:
    """The names of what differs between two frozen studies; empty if they are the same study.

    Opaque ids are random and made anew whenever a study is frozen, so they don't count. Nor does
    the allocation, if both were made from the same files: a later version of this package may
    allocate otherwise, and what the store has goes on.
    """
    mine, theirs = _comparable(one), _comparable(other)
    differing = [name for name in mine if mine[name] != theirs[name]]
    if one.source_digest and one.source_digest == other.source_digest:
        return [name for name in differing if name not in ("items", "slots", "samples", "format")]
    return differing


def _comparable(frozen: Frozen) -> dict[str, Any]:
    raw = asdict(frozen)
    for placed in [
        *(placed for slot in raw["slots"] for placed in slot["items"]),
        *raw["practice"],
    ]:
        placed["opaque"] = ""
    return raw

"""A rated set of a test's own texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from levelfield.core.sample import Sample
from levelfield_reproductions import Gap, RatedSet


@dataclass(frozen=True, slots=True)
class TinySet(RatedSet):
    """A set whose texts are given; it is not on this machine if there are none."""

    texts: Sequence[Sample] = ()

    def gap(self) -> Gap | None:
        return None if self.texts else Gap("files", "levelfield data fetch TINY", ("tiny.txt",))

    def samples(self) -> list[Sample]:
        return list(self.texts)


def use_sets(monkeypatch: pytest.MonkeyPatch, *sets: RatedSet) -> None:
    """Has these sets take the place of all rated sets."""
    monkeypatch.setattr("levelfield_reproductions.rated.RATED_SETS", sets)


def tiny_set(
    n: int = 40, *, empty: int = 0, shared: Callable[[Sample], str] | None = None
) -> TinySet:
    """Copies of sources with ever more words left out, rated the better the more is left; in pairs
    that share a source. The first `empty` texts have no word."""
    sentence = "the old court sat for a day in the small town by the river"
    words = sentence.split()
    texts = []
    for i in range(n):
        kept = 0 if i < empty else 1 + (7 * i) % len(words)
        rating = kept + (5 * i) % 3
        texts.append(
            Sample(
                id=f"{i:02}",
                text=" ".join(words[:kept]),
                source=f"{sentence} {i // 2}",
                ratings={"content": {"a": rating, "b": rating + 1}, "style": {"a": i % 4}},
            )
        )
    return TinySet(
        "ctrleval", ("sentiment",), ("chosen on",), "it was so", shared, texts=tuple(texts)
    )


def absent_set() -> TinySet:
    """A set that is not on this machine."""
    return TinySet("deam", ("dstc9",), ("never looked at",), "kept back")

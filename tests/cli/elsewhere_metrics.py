"""Metrics as another package might bring them: some good, some slow, some broken.

They load no model, so a process that uses one of them is quick to start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl

from levelfield.core.corpus import CorpusValue, OfGroups
from levelfield.core.metric import Level
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores

if TYPE_CHECKING:
    from nowhere import Nothing


@dataclass(frozen=True)
class Words:
    """Words of a text, [counted] between blanks.

    Undefined: `empty text`.
    """

    scale: float = 1.0
    order: Literal[1, 2] = 1
    log: str = ""
    delay: float = 0.0

    name: ClassVar[str] = "elsewhere.words"
    level: ClassVar[Level] = "sample"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = True

    @property
    def signature(self) -> str:
        return f"{self.name}|scale:{self.scale}|order:{self.order}|v:1"

    def value(self, sample: Sample) -> float:
        return self.scale * len(sample.text.split()) ** self.order

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as file:
                file.writelines(f"{sample.id}\n" for sample in samples)
        time.sleep(self.delay)
        progress(len(samples))
        empty = {s.id: "empty text" for s in samples if not s.text.strip()}
        return Scores(
            metric=self.name,
            ids=tuple(s.id for s in samples),
            values=np.array([np.nan if s.id in empty else self.value(s) for s in samples], float),
            undefined=empty,
            signature=self.signature,
            higher_is_better=self.higher_is_better,
        )


@dataclass(frozen=True)
class Hangs(Words):
    """Hangs on a text that says so, whatever is raised in it that is an `Exception`."""

    name: ClassVar[str] = "elsewhere.hangs"

    def value(self, sample: Sample) -> float:
        while "hang" in sample.text:
            with contextlib.suppress(Exception):
                time.sleep(30)
        return 1.0


@dataclass(frozen=True)
class Types(OfGroups):
    """Different words over all texts of a group."""

    name: ClassVar[str] = "elsewhere.types"
    level: ClassVar[Level] = "corpus"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = True
    signature: ClassVar[str] = "elsewhere.types|v:1"

    def state(self, samples: Sequence[Sample]) -> frozenset[str]:
        words = frozenset(word for sample in samples for word in sample.text.split())
        if "fail" in words:
            raise ZeroDivisionError("no weather today")
        return words

    def merge(self, a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
        return a | b

    def value(self, state: frozenset[str]) -> CorpusValue:
        return CorpusValue(len(state)) if state else CorpusValue(math.nan, "no words")


@dataclass(frozen=True)
class HalfACorpus(Words):
    """Says that it is of a corpus and lacks the three steps."""

    name: ClassVar[str] = "elsewhere.half"
    level: ClassVar[Level] = "corpus"


@dataclass(frozen=True)
class Infinite(Words):
    """Is infinite for every text."""

    name: ClassVar[str] = "elsewhere.infinite"

    def value(self, sample: Sample) -> float:  # noqa: ARG002
        return float("inf")


@dataclass(frozen=True)
class Length(Words):
    """Counts characters, of which neither many nor few are better."""

    name: ClassVar[str] = "elsewhere.length"
    direction: ClassVar[str] = "none"

    def value(self, sample: Sample) -> float:
        return float(len(sample.text))

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        return replace(super().score(samples, progress=progress), direction="none")


@dataclass(frozen=True)
class Fails(Words):
    """Fails whatever it is given."""

    name: ClassVar[str] = "elsewhere.fails"

    def value(self, sample: Sample) -> float:
        raise ZeroDivisionError(f"no weather today for {sample.id}")


@dataclass(frozen=True)
class Forgets(Words):
    """Gives no value for the last sample."""

    name: ClassVar[str] = "elsewhere.forgets"

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        return super().score(samples[:-1], progress=progress)


@dataclass(frozen=True)
class Wants(Words):
    """Wants a field that no sample can have."""

    name: ClassVar[str] = "elsewhere.wants"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "weather"})


@dataclass(frozen=True)
class ReadsExtra(Words):
    """Reads what the input has beside our fields."""

    name: ClassVar[str] = "elsewhere.reads-extra"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "extra"})


class Demanding(Words):
    """Can't be made without a word from the user."""

    name: ClassVar[str] = "elsewhere.demanding"

    def __init__(self, language: str) -> None:
        super().__init__()
        object.__setattr__(self, "language", language)


class Unreadable(Words):
    """Has an annotation that means nothing at run time."""

    name: ClassVar[str] = "elsewhere.unreadable"

    def __init__(self, nothing: Nothing | None = None) -> None:
        super().__init__()
        object.__setattr__(self, "nothing", nothing)


class Unprintable(Words):
    """Has a default that is no JSON; and [/this] is no markup."""

    name: ClassVar[str] = "elsewhere.unprintable"

    def __init__(self, folder: Path = Path("words")) -> None:
        super().__init__()
        object.__setattr__(self, "folder", folder)


def nothing() -> None:
    """Makes no metric at all."""


class Quits(Words):
    """Ends the program as if all were well, at the point that `at` names."""

    name: ClassVar[str] = "elsewhere.quits"

    def __init__(self, at: str = "score") -> None:
        super().__init__()
        object.__setattr__(self, "at", at)
        self._quit("init")

    def _quit(self, here: str) -> None:
        if self.at == here:
            raise SystemExit(0)

    @property
    def signature(self) -> str:
        self._quit("signature")
        return "elsewhere.quits|v:1"

    @property
    def costs(self) -> str:
        self._quit("costs")
        return ""

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        self._quit("score")
        return super().score(samples, progress=progress)


@dataclass(frozen=True)
class Wrong(Words):
    """Gives something else than scores."""

    what: str = "none"

    name: ClassVar[str] = "elsewhere.wrong"

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        right = super().score(samples, progress=progress)
        n = len(samples)
        changes: dict[str, Any] = {
            "int": {"values": np.arange(n)},
            "list": {"values": [1.0] * n},
            "blank": {"values": np.full(n, np.nan), "undefined": dict.fromkeys(right.ids, "")},
            "number": {"values": np.full(n, np.nan), "undefined": dict.fromkeys(right.ids, 5)},
            "unasked": {"values": np.ones(n), "undefined": dict.fromkeys(right.ids, "why")},
            "other": {"metric": "elsewhere.words"},
            "signature": {"signature": "elsewhere.wrong|v:2"},
            "parts": {"parts": pl.DataFrame({"id": ["a"]})},
        }
        if self.what == "none":
            return None  # type: ignore[return-value]
        return dataclasses.replace(right, **changes[self.what])


@dataclass(frozen=True)
class WrongCorpus(Types):
    """Gives something else than the value of a corpus."""

    what: str = "none"

    name: ClassVar[str] = "elsewhere.wrong-corpus"
    signature: ClassVar[str] = "elsewhere.wrong-corpus|v:1"

    def value(self, state: frozenset[str]) -> CorpusValue:  # noqa: ARG002
        values: dict[str, Any] = {"none": None, "text": CorpusValue("x")}  # type: ignore[arg-type]
        return values.get(self.what, CorpusValue(math.nan))


@dataclass(frozen=True)
class Odd(Words):
    """Says of itself what no metric can be."""

    name: ClassVar[str] = "elsewhere.odd"
    level: ClassVar[Any] = "book"


class Unsigned(Words):
    """Has an empty signature."""

    name: ClassVar[str] = "elsewhere.unsigned"
    signature: ClassVar[Any] = ""


class _Asked(type):
    @property
    def __signature__(cls) -> None:
        raise SystemExit(0)


class Asked(metaclass=_Asked):
    """Ends the program when it is asked for its options."""

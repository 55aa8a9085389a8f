"""Composite metrics whose components are arithmetic on letters instead of models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import Resolved


def letters(text: str, seed: str) -> float:
    """A number in [0, 1) that depends on the text and on what reads it."""
    return (sum(ord(c) * (i % 7 + 1) for i, c in enumerate(text + seed)) % 997) / 997


@dataclass(frozen=True)
class StubAspect:
    """An aspect of CTRLEval: undefined for a text that holds `UNREADABLE` and the model's name."""

    model: str = "encoder"
    form: str = ""
    normalize: str = "tokens"
    attribute: str = ""
    language: str = "english"
    match: str = "exact"
    loading: Loading = AS_USUAL
    judges: str = ""
    empty: str = "0"

    level: ClassVar[str] = "sample"
    name: ClassVar[str] = "stub"
    higher_is_better: ClassVar[bool] = True
    requires: ClassVar[frozenset[str]] = frozenset({"text", "prompt", "control"})

    @property
    def signature(self) -> str:
        read = f"{self.model}{self.judges}|form:{self.form}|language:{self.language}"
        return f"stub|model:{read}|attribute:{self.attribute}|dtype:{self.loading.dtype}|v:0.1.0"

    def value(self, sample: Sample) -> float | str:
        if not sample.text.strip():
            return "empty text"
        if f"UNREADABLE {self.model}" in sample.text:
            return f"{self.model} can't read it"
        seed = f"{self.model}{self.form}{self.judges}"
        return letters(f"{sample.prompt}{sample.text}{dict(sample.control)}", seed)

    def lacking(self, _attributes: Any) -> list[Any]:
        return []

    def score(self, samples: Any, **_: Any) -> Scores:
        values = [self.value(sample) for sample in samples]
        return Scores(
            metric=self.name,
            ids=tuple(sample.id for sample in samples),
            values=np.array([np.nan if isinstance(v, str) else v for v in values], np.float64),
            undefined={s.id: v for s, v in zip(samples, values, strict=True) if isinstance(v, str)},
            signature=self.signature,
            higher_is_better=True,
            truncated=frozenset(s.id for s in samples if "LONG" in s.text),
        )


class StubJudge(StubAspect):
    """A judge instead of control.probability."""

    def load_judges(self) -> None:
        """There is nothing to load."""


def put_stubs(monkeypatch: Any) -> None:
    """No composite metric asks a real model."""
    from levelfield.metrics import composite
    from levelfield.metrics.composite import base

    def resolve(name: str, _: Loading) -> Resolved:
        kind = "encoder" if "minilm" in name or "encoder" in name else "causal"
        return Resolved(name, Path(), f"{sum(map(ord, name)):012}", kind, "stub")  # type: ignore[arg-type]

    monkeypatch.setattr(base, "resolve", resolve)
    monkeypatch.setattr(composite, "CTRLEvalCoherence", StubAspect)
    monkeypatch.setattr(composite, "CTRLEvalConsistency", StubAspect)
    monkeypatch.setattr(composite, "CTRLEvalAttributeRelevance", StubAspect)
    monkeypatch.setattr(composite, "ControlProbability", StubJudge)

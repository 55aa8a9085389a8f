"""How the texts of a cell are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from studies import KEY

from levelfield.core.partitions import PARTITION
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.scorer import cached_scorer
from levelfield.study.measure import measure

CALLS: list[str] = []


@dataclass(frozen=True)
class Length:
    """The length of a text; notes that it was called."""

    name: str
    level: ClassVar[str] = "sample"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = True

    @property
    def signature(self) -> str:
        return self.name

    def score(self, samples: Sequence[Sample], *, progress: Progress = no_progress) -> Scores:
        CALLS.append(self.name)
        progress(len(samples))
        values = np.array([float(len(sample.text)) for sample in samples])
        ids = tuple(sample.id for sample in samples)
        return Scores(self.name, ids, values, {}, self.signature, higher_is_better=True)


@dataclass
class OneCell:
    """A store with the texts of one cell."""

    texts: list[Sample]
    written: dict[str, list[Any]] = field(default_factory=dict)

    def record(self, _: object) -> Any:
        return SimpleNamespace(fingerprint=SimpleNamespace(texts="digest"), when="today")

    def samples(self, _: object) -> list[Sample]:
        return self.texts

    def measured(self, _: object) -> None:
        return None

    def write_measured(self, _: object, __: object, files: Mapping[str, Any]) -> None:
        self.written |= {name: list(lines) for name, lines in files.items()}


def test_a_metric_goes_through_a_whole_cell_before_the_next_so_that_models_stay_loaded() -> None:
    CALLS.clear()
    store = OneCell([Sample(str(i), "So it was.") for i in range(2 * PARTITION)])
    notes: list[str] = []
    with cached_scorer(notes, enabled=False) as scorer:
        measured = measure([KEY], store, [Length("a"), Length("b")], scorer)  # type: ignore[arg-type, list-item]
    assert measured == 1
    assert CALLS == ["a", "a", "b", "b"]
    assert [r["metric"] for r in store.written["scores.jsonl"]] == ["a"] * 128 + ["b"] * 128

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
        digest = SimpleNamespace(texts="digest")
        return SimpleNamespace(fingerprint=digest, when="today", answered=len(self.texts))

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


def test_languages_that_no_metric_reads_and_thoughts_are_noted() -> None:
    german = "Der See war ruhig, und wir schwammen jeden Morgen vor dem Frühstück."
    store = OneCell([Sample("a", german), Sample("b", "<think>A lake?</think>So it was.")])
    notes: list[str] = []
    metric = Length("a")
    object.__setattr__(metric, "languages", {"its rules": frozenset({"en"})})
    with cached_scorer(notes, enabled=False) as scorer:
        measure([KEY], store, [metric], scorer)  # type: ignore[arg-type, list-item]
    language, thought = notes
    assert language.startswith("1 of 2 texts does not look like English, which a reads (its rules)")
    assert thought.startswith("1 of 2 texts begin with a block <think>…</think>")
    assert "strip-thought" in thought

"""What metrics that compare each text with its source or its references have in common."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import ClassVar, Literal

from levelfield.metrics.ctrleval import EMPTY
from levelfield.metrics.outcomes import OfOutcomes, Outcome, Undefined
from levelfield.sample import Sample

Against = Literal["source", "references"]
MISSING: dict[Against, str] = {"source": "empty source", "references": "no references"}
"""Why a sample that has nothing to compare its text with is undefined."""


def written(sample: Sample, against: Against) -> tuple[str, ...]:
    """The source, or the references, blank ones too."""
    return (sample.source,) if against == "source" else sample.references


def compared(sample: Sample, against: Against) -> tuple[str, ...]:
    """What the text is compared with: its source, or its references; blank ones are none."""
    return tuple(one for one in written(sample, against) if one.strip())


def part(against: Against, n: int) -> str:
    """What the n-th of those that a text is compared with is called among a value's parts."""
    return "source" if against == "source" else f"reference {n}"


class OfSource:
    """A metric of each text against its source."""

    against: ClassVar[Against] = "source"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "source"})


class OfReferences:
    """A metric of each text against its references."""

    against: ClassVar[Against] = "references"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "references"})


class OfTexts(OfOutcomes):
    """A metric of samples that compares strings; `OfSource` or `OfReferences` says with what."""

    against: ClassVar[Against]

    @abc.abstractmethod
    def _compare(self, text: str, references: tuple[str, ...]) -> Outcome | Undefined:
        """What comes out for a text and what it is compared with, at least one; none is blank."""

    def _outcomes(self, samples: Sequence[Sample]) -> list[Outcome | Undefined]:
        return [self._outcome(sample) for sample in samples]

    def _outcome(self, sample: Sample) -> Outcome | Undefined:
        if not sample.text.strip():
            return Undefined(EMPTY)
        references = compared(sample, self.against)
        if not references:
            return Undefined(MISSING[self.against])
        return self._compare(sample.text, references)

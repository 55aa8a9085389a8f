"""Bases of metrics that compare each text with its source or its references."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from levelfield.core.sample import Sample
from levelfield.core.undefined import EMPTY_SOURCE, EMPTY_TEXT, NO_REFERENCES, Undefined
from levelfield.metrics.sample_metric import SampleMetric, SampleValue

Against = Literal["source", "references"]
MISSING: dict[Against, str] = {"source": EMPTY_SOURCE, "references": NO_REFERENCES}
"""Why a sample that has nothing to compare its text with is undefined."""


def compared(sample: Sample, against: Against) -> dict[str, str]:
    """What the text is compared with, its source or its references, by the name that it has among
    a value's parts. Blank ones are left out; the others keep their numbers."""
    if against == "source":
        written = {"source": sample.source}
    else:
        written = {f"reference {n}": one for n, one in enumerate(sample.references, 1)}
    return {name: one for name, one in written.items() if one.strip()}


class AgainstSource:
    """A metric of each text against its source."""

    against: ClassVar[Against] = "source"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "source"})


class AgainstReferences:
    """A metric of each text against its references."""

    against: ClassVar[Against] = "references"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "references"})


class TextComparison(SampleMetric):
    """A metric of samples that compares strings.

    `AgainstSource` or `AgainstReferences` says with what.
    """

    against: ClassVar[Against]

    @abc.abstractmethod
    def _compare(self, text: str, references: Mapping[str, str]) -> SampleValue | Undefined:
        """What comes out for a text and what it is compared with, by name: at least one, and none
        is blank."""

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return [self._sample_value(sample) for sample in samples]

    def _sample_value(self, sample: Sample) -> SampleValue | Undefined:
        if not sample.text.strip():
            return Undefined(EMPTY_TEXT)
        references = compared(sample, self.against)
        if not references:
            return Undefined(MISSING[self.against])
        return self._compare(sample.text, references)

"""The groups of a run: rows of its table, and the corpora of corpus metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.corpus import BY, CorpusMetric, GroupStates
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample, wanted_name
from levelfield.io.census import Census
from levelfield.scoring.summary import MOST_LABELS


@dataclass(frozen=True)
class Grouping:
    """What the rows of the table are.

    Attributes:
        by: `system`, `dataset`, `seed`, `control`, an attribute as `control.sentiment`, or
            `none`.
        by_label: whether the labels that texts were asked for split the groups in a table of
            their own.
    """

    by: str
    by_label: bool = False

    @classmethod
    def choose(cls, by: str | None, census: Census) -> Grouping:
        """What the user says; else systems if there are any, else labels.

        Raises:
            UserError: the samples can't be grouped so.
        """
        if by is None:
            by = "system" if census.systems else "control" if census.control else "none"
        known = ["system", "dataset", "seed", "control", "none"]
        known += [f"control.{attribute}" for attribute in census.control]
        if by not in known:
            raise UserError(f"--by {by}: these samples can be grouped by {', '.join(known)}")
        few = all(len(labels) <= MOST_LABELS for labels in census.control.values())
        return cls(by, by_label=by == "system" and bool(census.control) and few)

    @property
    def name(self) -> str:
        """One word for a table's heading."""
        return {"control": "label", "none": "group"}.get(self.by, self.by.removeprefix("control."))

    @property
    def compares(self) -> bool:
        """Whether a difference between groups says who is better."""
        return self.by == "system"

    def label(self, sample: Sample) -> str:
        """What a sample was asked for, if groups are split by that."""
        return _LABELS.group(sample) if self.by_label else ""

    def group(self, sample: Sample) -> str:
        """The group of a sample."""
        if self.by == "none":
            return "all texts"
        if self.by == "control":
            labels = [wanted_name(wanted) for wanted in sample.control.values()]
            return " + ".join(labels) or "(none)"
        if self.by.startswith("control."):
            return wanted_name(sample.control.get(self.by.removeprefix("control."), "")) or "(none)"
        value = getattr(sample, self.by)
        return "(none)" if value in ("", None) else str(value)


_LABELS = Grouping("control")


class Corpora:
    """The corpora of one corpus metric, and to which row of the table each belongs.

    Attributes:
        states: the metric's states, one a corpus.

    Args:
        by: what the texts of a corpus share: fields with commas, or `none`; None leaves it to the
            metric.

    Raises:
        UserError: samples have no such field.
    """

    def __init__(self, metric: CorpusMetric, by: str | None) -> None:
        fields = None if by is None else [f for f in by.split(",") if f != "none"]
        if unknown := sorted(set(fields or ()) - set(BY)):
            raise UserError(f"--corpus-by {unknown[0]}: expected some of {', '.join(BY)}, or none")
        self.states = GroupStates(metric, fields)
        self._rows: dict[str, set[str]] = {}
        self._labels: dict[str, set[str]] = {}

    def add(self, samples: Sequence[Sample], groups: Sequence[str], labels: Sequence[str]) -> None:
        """Takes in the rows that samples belong to, and their labels."""
        for sample, group, label in zip(samples, groups, labels, strict=True):
            name = self.states.name_of(sample)
            self._rows.setdefault(name, set()).add(group)
            self._labels.setdefault(name, set()).add(label)

    def rows(self) -> dict[str, str]:
        """Corpus -> its row; none for one whose texts are in several rows."""
        return _single(self._rows)

    def labels(self) -> dict[str, str]:
        """Corpus -> its label; none for one whose texts were asked for several."""
        return _single(self._labels)


def _single(names: Mapping[str, set[str]]) -> dict[str, str]:
    return {key: next(iter(of)) for key, of in names.items() if len(of) == 1}

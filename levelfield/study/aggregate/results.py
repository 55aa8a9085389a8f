"""Contents of a study's report, as plain objects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from levelfield.scoring.comparison import Comparison
from levelfield.scoring.standing import Standing, scale_for, standings
from levelfield.stats.estimate import Estimate
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.study.observations import ALL, Measure
from levelfield.study.plan import SystemTechnique


@dataclass(frozen=True, slots=True)
class SpreadBetween:
    """A standard deviation, or why there is none.

    Attributes:
        deviation: NaN where `why` gives a reason.
        n: number of seeds or prompts it is taken over.
        why: empty if it is defined.
    """

    deviation: float = math.nan
    n: int = 0
    why: str = ""


@dataclass(frozen=True)
class TableEntry:
    """One measure of one system, over everything or at one dataset or value.

    Attributes:
        system, measure: which.
        dataset, value: where; `all` for all together.
        mean: weighted, `m = Σ w v / Σ w` over the values v of cells, w the weight of the dataset.
        deviation: the study's, `s = √(Σ w (v − m)² / Σ w)`; over datasets, seeds and judges.
        rank: among the systems by the mean as printed; None except over everything.
        n: number of values it rests on: texts; of corpus metrics and of rates, values of cells.
        undefined: number of undefined values.
        interval: of the mean, with prompts as a sample, and seeds if there are two or more; with
            one seed it holds for this run.
        between_seeds: `√(Σ (m_s − m̄)² / (S − 1))` over the S seeds, m_s the weighted mean of seed
            s. Only seeds with a value for every dataset that the system has.
        between_prompts: `√(Σ w_d s_d² / Σ w_d)`, s_d the deviation (with n − 1) over the prompts
            of dataset d of their means over seeds and requested values.
    """

    system: str
    measure: str
    dataset: str
    value: str
    mean: float
    deviation: float
    rank: int | None
    n: int
    undefined: int
    interval: Estimate
    between_seeds: SpreadBetween = SpreadBetween()
    between_prompts: SpreadBetween = SpreadBetween()


@dataclass(frozen=True)
class JudgeAgreement:
    """The agreement of the judges of one attribute (Figure 3 of the study).

    Attributes:
        attribute: what they judge.
        judges: their names.
        kappa: (judges, judges) Cohen's κ of right and wrong; NaN if votes are not known.
        r: (judges, judges) Pearson's r of right and wrong (φ); from rates, of the rates.
        n: (judges, judges) how many texts, or rates, both judges have.
        of_rates: whether only rates are known: `r` is then over cells and requested values.
    """

    attribute: str
    judges: tuple[str, ...]
    kappa: tuple[tuple[float, ...], ...]
    r: tuple[tuple[float, ...], ...]
    n: tuple[tuple[int, ...], ...]
    of_rates: bool


class MeanPair(NamedTuple):
    """A system under two measures, with its ranks among those that have both."""

    system: str
    x: float
    x_rank: int
    y: float
    y_rank: int


@dataclass(frozen=True)
class Correspondence:
    """Two measures of the same thing side by side (Tables 8 and 9 of the study).

    Attributes:
        x, y: the measures.
        systems: by the rank of x.
        pearson: of the means, over systems.
        spearman: of the ranks, the best being 1 for either measure.
        why: why the correlations are undefined; empty if they are not.
    """

    x: str
    y: str
    systems: tuple[MeanPair, ...]
    pearson: float
    spearman: float
    why: str


@dataclass(frozen=True)
class CostSummary:
    """The cost of a system's texts (Tables 14 and 15 of the study).

    Attributes:
        system: whose.
        seconds: per text, mean over cells; NaN if unknown.
        deviation: over cells, with n.
        tokens_per_second: all tokens over all seconds of the cells that say; NaN if none does.
        peak_bytes: the most of any cell; None if unknown.
        cells: number of cells that report their cost.
        passes_per_token: forward passes, of the cells that say; None if none does.
        nats: the mean divergence from the base, per token; None if it was not measured.
        nats_low, nats_high: its 95 % interval.
    """

    system: str
    seconds: float
    deviation: float
    tokens_per_second: float
    peak_bytes: int | None
    cells: int
    passes_per_token: float | None = None
    nats: float | None = None
    nats_low: float | None = None
    nats_high: float | None = None


@dataclass(frozen=True)
class ControlSummary:
    """One kind of control.

    Attributes:
        control: its name.
        systems, datasets, values, seeds: in the order of first appearance; no values if there
            are too many to distinguish.
        seeds_of_systems: system -> the number of its seeds.
        measures: the columns of its table. One that is undefined for every text is not among
            them (keyword coverage where sentiment was asked for); `notes` names it.
        entries: (system, measure, dataset, value) -> entry.
        incomplete: system -> what it lacks that others have; its means rest on other requests.
        comparisons: measure -> all pairs of systems; p adjusted over those under one measure,
            or over all of them together (`StudySummary.resampling.family`).
        agreements: one per attribute with two judges or more.
        correspondences: average against majority, perplexity against SLOR.
        costs: by system; empty if no cell has a cost.
        notes: what a reader must know, in sentences.
    """

    control: str
    systems: tuple[str, ...]
    datasets: tuple[str, ...]
    values: tuple[str, ...]
    seeds: tuple[int, ...]
    seeds_of_systems: Mapping[str, int]
    measures: tuple[Measure, ...]
    entries: Mapping[tuple[str, str, str, str], TableEntry]
    incomplete: Mapping[str, str]
    comparisons: Mapping[str, tuple[Comparison, ...]]
    agreements: tuple[JudgeAgreement, ...]
    correspondences: tuple[Correspondence, ...]
    costs: tuple[CostSummary, ...]
    notes: tuple[str, ...]

    def entry(
        self, system: str, measure: str, dataset: str = ALL, value: str = ALL
    ) -> TableEntry | None:
        """Returns the entry of a system under a measure; None if it was not measured there."""
        return self.entries.get((system, measure, dataset, value))

    def measure(self, name: str) -> Measure:
        return next(m for m in self.measures if m.name == name)

    def places(self, measure: str) -> int:
        """Returns the number of decimals its means are printed with; ranks are of these."""
        return places([e for e in self.entries.values() if e.measure == measure])

    def standings(self, measure: str) -> dict[str, Standing]:
        """Returns the standing of every system with a mean: what is shown best, and letters."""
        decimals = self.places(measure)
        entries = [entry for s in self.systems if (entry := self.entry(s, measure))]
        return standings(
            {entry.system: entry.mean for entry in entries},
            self.comparisons.get(measure, ()),
            direction=self.measure(measure).direction,
            rounded=lambda mean: round(mean, decimals),
        )


@dataclass(frozen=True)
class StudySummary:
    """The tables of a study.

    Attributes:
        controls: one per kind of control, in the order of first appearance.
        weights: dataset -> its weight in means over datasets.
        weights_from: where they come from, in words.
        signatures: metric -> its signatures; more than one if cells were measured differently.
        resampling: the level of intervals, and how tests were drawn.
        techniques: system -> its technique and base, of those that were asked through one.
        levels: kind of control -> its names at each budget, the lowest first; empty unless
            techniques have several budgets.
    """

    controls: tuple[ControlSummary, ...]
    weights: Mapping[str, float]
    weights_from: str
    signatures: Mapping[str, tuple[str, ...]]
    resampling: Resampling = field(default=DEFAULT)
    techniques: Mapping[str, SystemTechnique] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def at_levels(self) -> dict[str, list[ControlSummary]]:
        """Returns kind of control -> its tables at each budget, the lowest first."""
        named = {control.control: control for control in self.controls}
        return {k: [named[n] for n in names if n in named] for k, names in self.levels.items()}

    def weights_in_words(self) -> str:
        """Returns where the weights come from, and the weights."""
        weights = ", ".join(f"{name} {weight:,g}" for name, weight in self.weights.items())
        return f"weights of datasets: {self.weights_from} ({weights})"

    def technique_columns(self, control: ControlSummary) -> list[tuple[str, list[str]]]:
        """Returns columns for the names of systems, as head and cells: techniques and bases.

        A system from elsewhere has a dash; if all are from elsewhere, there are no columns.
        """
        rows = [self.techniques.get(system) for system in control.systems]
        if not any(rows):
            return []
        return [
            (name, [getattr(row, name) or "–" if row else "–" for row in rows])
            for name in SystemTechnique._fields
        ]


def places(entries: Sequence[TableEntry]) -> int:
    """Returns the decimals of a measure, as its intervals warrant (`meta.scale`).

    Without intervals they are two, as the study prints, or four if all means are below 1.
    """
    means = [e.mean for e in entries]
    intervals = [
        e.interval
        for e in entries
        if e.dataset == e.value == ALL and e.interval.high > e.interval.low
    ]
    if intervals:
        return scale_for(means, [(i.high - i.low) / 2 for i in intervals]).places
    largest = max((abs(m) for m in means if m == m), default=0.0)
    return 2 if largest >= 1 else 4


CONTROL = "Control effectiveness"
_NAMES = {"diversity": "Diversity", "fluency": "Fluency"}
_OF_CONTROL = ("control", "keywords")


class Column(NamedTuple):
    """A column of a table: the measure, and its name below that of its group."""

    measure: Measure
    name: str


def grouped_columns(control: ControlSummary) -> list[tuple[str, list[Column]]]:
    """Returns the measures as the study's tables group them, with the name of each group."""
    groups: dict[str, list[Column]] = {}
    for measure in control.measures:
        family, _, rest = measure.name.partition(".")
        if measure.of_control or family in _OF_CONTROL:
            name = rest if family in _OF_CONTROL else measure.name
            groups.setdefault(CONTROL, []).append(Column(measure, name))
        elif rest:
            groups.setdefault(_NAMES.get(family, family), []).append(Column(measure, rest))
        else:
            groups.setdefault("", []).append(Column(measure, measure.name))
    last = groups.pop(CONTROL, None)
    return [*groups.items(), *([(CONTROL, last)] if last else [])]

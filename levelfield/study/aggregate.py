"""From the cells of a study to what its report says: means, ranks, intervals, comparisons.

Formulas follow Lorandi and Belz (2026), sections 6.2, 6.3 and 7; intervals and tests are ours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, mode
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Codes, Floats
from levelfield.core.errors import UserError
from levelfield.meta.summary import Comparison
from levelfield.stats.correlation import cluster_draws, pearson, spearman, why_undefined
from levelfield.stats.permutation import Interval, holm, smallest_p
from levelfield.stats.resampling import DEFAULT, Resampling
from levelfield.stats.weighted import mean_and_deviation, printed_ranks, sign_flip_p
from levelfield.study.cells import Cell, value_name
from levelfield.study.observations import (
    ALL,
    AVERAGE,
    MAJORITY,
    Measure,
    Observations,
    Observed,
    observe,
)

ONE_SEED = "one seed"
NO_TEXTS = "only values of whole cells are known"
OF_CORPUS = "a value of a corpus: it has no single texts"

_PERMUTATIONS_EACH = 100
"""So many permutations a comparison are drawn at least: with fewer, Holm's smallest adjusted p
could be above 0.01 however clear a difference is."""

_EQUAL = 1e-12


@dataclass(frozen=True, slots=True)
class Spread:
    """A standard deviation, or why there is none.

    Attributes:
        deviation: NaN where `why` gives a reason.
        n: how many seeds or prompts it is taken over.
        why: empty if it is defined.
    """

    deviation: float = math.nan
    n: int = 0
    why: str = ""


@dataclass(frozen=True)
class Entry:
    """One measure of one system, over everything or at one dataset or value.

    Attributes:
        system, measure: which.
        dataset, value: where; `all` for all together.
        mean: weighted, `m = Σ w v / Σ w` over the values v of cells, w the weight of the dataset.
        deviation: the study's, `s = √(Σ w (v − m)² / Σ w)`; over datasets, seeds and judges.
        rank: among the systems by the mean as printed; None except over everything.
        n: how many values it rests on: texts; of corpus metrics and of rates, values of cells.
        undefined: how many more there would be if all were defined.
        interval: of the mean, from resampled prompts: it says how sure the mean is for these
            seeds, as the deviation does not.
        between_seeds: `√(Σ (m_s − m̄)² / (S − 1))` over the S seeds, m_s the weighted mean of seed
            s. Only seeds with a value for every dataset that the system has.
        between_prompts: `√(Σ w_d s_d² / Σ w_d)`, s_d the deviation (with n − 1) over the prompts
            of dataset d of their means over seeds and values asked for.
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
    interval: Interval
    between_seeds: Spread = Spread()
    between_prompts: Spread = Spread()


@dataclass(frozen=True)
class JudgeAgreement:
    """How alike the judges of one attribute judge (Figure 3 of the study).

    Attributes:
        attribute: what they judge.
        judges: their names.
        kappa: (judges, judges) Cohen's κ of right and wrong; NaN if votes are not known.
        r: (judges, judges) Pearson's r of right and wrong (φ); from rates, of the rates.
        n: (judges, judges) how many texts, or rates, both judges have.
        of_rates: whether only rates are known: `r` is then over cells and values asked for.
    """

    attribute: str
    judges: tuple[str, ...]
    kappa: tuple[tuple[float, ...], ...]
    r: tuple[tuple[float, ...], ...]
    n: tuple[tuple[int, ...], ...]
    of_rates: bool


class Beside(NamedTuple):
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
    systems: tuple[Beside, ...]
    pearson: float
    spearman: float
    why: str


@dataclass(frozen=True)
class CostSummary:
    """What the texts of a system cost (Tables 14 and 15 of the study).

    Attributes:
        system: whose.
        seconds: a text, mean over cells; NaN if unknown.
        deviation: over cells, with n.
        tokens_per_second: all tokens over all seconds of the cells that say; NaN if none does.
        peak_bytes: the most of any cell; None if unknown.
        cells: how many cells say what they cost.
    """

    system: str
    seconds: float
    deviation: float
    tokens_per_second: float
    peak_bytes: int | None
    cells: int


@dataclass(frozen=True)
class ControlSummary:
    """One kind of control.

    Attributes:
        control: its name.
        systems, datasets, values, seeds: in the order of first appearance; no values if there
            are too many to tell apart.
        measures: the columns of its table. One that is undefined for every text is not among
            them (keyword coverage where sentiment was asked for); `notes` names it.
        entries: (system, measure, dataset, value) -> entry.
        incomplete: system -> what it lacks that others have; its means rest on other requests.
        comparisons: measure -> all pairs of systems; p adjusted over all of them together.
        agreements: one an attribute with two judges or more.
        correspondences: average against majority, perplexity against SLOR.
        costs: by system; empty if no cell has a cost.
        notes: what a reader must know, in sentences.
    """

    control: str
    systems: tuple[str, ...]
    datasets: tuple[str, ...]
    values: tuple[str, ...]
    seeds: tuple[int, ...]
    measures: tuple[Measure, ...]
    entries: Mapping[tuple[str, str, str, str], Entry]
    incomplete: Mapping[str, str]
    comparisons: Mapping[str, tuple[Comparison, ...]]
    agreements: tuple[JudgeAgreement, ...]
    correspondences: tuple[Correspondence, ...]
    costs: tuple[CostSummary, ...]
    notes: tuple[str, ...]

    def entry(
        self, system: str, measure: str, dataset: str = ALL, value: str = ALL
    ) -> Entry | None:
        """What a measure says of a system; None if it was not measured there."""
        return self.entries.get((system, measure, dataset, value))

    def measure(self, name: str) -> Measure:
        return next(m for m in self.measures if m.name == name)

    def places(self, measure: str) -> int:
        """How many decimals its means are printed with; ranks are of these."""
        return places([e.mean for e in self.entries.values() if e.measure == measure])


@dataclass(frozen=True)
class StudySummary:
    """What a study found.

    Attributes:
        controls: one a kind of control, in the order of first appearance.
        weights: dataset -> its weight in means over datasets.
        weights_from: where they come from, in words.
        signatures: metric -> its signatures; more than one if cells were measured differently.
        resampling: how intervals and tests were drawn.
    """

    controls: tuple[ControlSummary, ...]
    weights: Mapping[str, float]
    weights_from: str
    signatures: Mapping[str, tuple[str, ...]]
    resampling: Resampling = field(default=DEFAULT)


def aggregate(
    cells: Sequence[Cell],
    *,
    weights: Mapping[str, float] | None = None,
    resampling: Resampling = DEFAULT,
) -> StudySummary:
    """The tables of a study from its cells.

    Every cell weighs as much as its dataset, so all seeds count alike. The interval of a mean is
    the central `resampling.level` of means over resampled prompts: of each dataset as many prompts
    as it has are drawn with replacement, each with all its texts, and the weighted mean of the
    cells' means is taken anew. Measures known for whole cells only have none.

    Two systems are compared under every measure known for single texts, except single judges, on
    the requests that they share: their values are averaged over seeds, and the difference is
    weighted by dataset as the means are. Systems that have texts everywhere are compared on the
    requests that all of these have a value for (listwise); one that lacks a dataset or a value of
    the control is compared pairwise, on what both have. The test flips the signs of whole prompts;
    Holm over all comparisons of a kind of control.

    Args:
        cells: of any kinds of control; several with one key count as several runs.
        weights: dataset -> weight; by default the number of its prompts: the texts asked for a
            value, else the different prompts seen; equal weights if neither is known.
        resampling: how intervals and tests are drawn; permutations are raised with the number of
            comparisons where an adjusted p could otherwise not become small.

    Raises:
        UserError: no cells, or a weight is missing or not above 0.
    """
    if not cells:
        raise UserError("no cells to report on; expected at least one that has texts or results")
    weight, source = _weights(cells, weights)
    by_control: dict[str, list[Cell]] = {}
    for cell in cells:
        by_control.setdefault(cell.key.control, []).append(cell)
    signatures: dict[str, dict[str, None]] = {}
    for cell in cells:
        for metric, signature in cell.signatures.items():
            signatures.setdefault(metric, {})[signature] = None
    return StudySummary(
        controls=tuple(
            _Control(observe(mine), weight, resampling).summary() for mine in by_control.values()
        ),
        weights=weight,
        weights_from=source,
        signatures={metric: tuple(found) for metric, found in signatures.items()},
        resampling=resampling,
    )


def places(means: Sequence[float]) -> int:
    """Two decimals, as the study prints; four if all means are below 1."""
    largest = max((abs(m) for m in means if m == m), default=0.0)
    return 2 if largest >= 1 else 4


def _weights(
    cells: Sequence[Cell], given: Mapping[str, float] | None
) -> tuple[dict[str, float], str]:
    datasets = dict.fromkeys(cell.key.dataset for cell in cells)
    if given is not None:
        for name in datasets:
            if not given.get(name, 0) > 0:
                raise UserError(
                    f"weights: dataset '{name}' has {given.get(name, 'none')}; "
                    "expected a number above 0 for every dataset"
                )
        return {name: float(given[name]) for name in datasets}, "as given"
    sizes = {name: _prompts([c for c in cells if c.key.dataset == name]) for name in datasets}
    if all(sizes.values()):
        return {name: float(n) for name, n in sizes.items()}, "the number of their prompts"
    return dict.fromkeys(datasets, 1.0), "equal, since the number of prompts is not known"


def _prompts(cells: Sequence[Cell]) -> int:
    """How many prompts a dataset has: what most cells asked for a value, else what was seen."""
    asked = []
    for cell in cells:
        values = {value_name(s.control) for s in cell.samples}
        values |= {v.value_asked for v in cell.groups} | {v.value for v in cell.rates}
        if cell.asked and values - {""}:
            asked.append(round(cell.asked / len(values - {""})))
    return mode(asked) if asked else len({s.shared for c in cells for s in c.samples})


class _Control:
    """Aggregates the observations of one kind of control."""

    def __init__(
        self, seen: Observations, weights: Mapping[str, float], resampling: Resampling
    ) -> None:
        self.valueless = [o.measure.name for o in seen.observed if not o.has_values]
        observed = tuple(o for o in seen.observed if o.has_values)
        self.seen, self.resampling = replace(seen, observed=observed), resampling
        keys = [cell.key for cell in seen.cells]
        self.systems = tuple(dict.fromkeys(k.system for k in keys))
        self.datasets = tuple(dict.fromkeys(k.dataset for k in keys))
        self.seeds = tuple(sorted({k.seed for k in keys}))
        self.w = np.array([weights[k.dataset] for k in keys])
        self.weights = weights
        self.of: dict[tuple[str, str], list[int]] = {}
        for i, k in enumerate(keys):
            for dataset in (ALL, k.dataset):
                self.of.setdefault((k.system, dataset), []).append(i)

    def summary(self) -> ControlSummary:
        seen = self.seen
        entries = {
            (e.system, e.measure, e.dataset, e.value): e
            for system in self.systems
            for e in self._entries(system)
        }
        entries = self._ranked(entries)
        incomplete = self._incomplete()
        return ControlSummary(
            control=seen.cells[0].key.control,
            systems=self.systems,
            datasets=self.datasets,
            values=seen.values,
            seeds=self.seeds,
            measures=tuple(o.measure for o in seen.observed),
            entries=entries,
            incomplete=incomplete,
            comparisons=self._comparisons(),
            agreements=tuple(
                self._agreement(attribute, judges)
                for attribute, judges in seen.attributes.items()
                if len(judges) > 1
            ),
            correspondences=self._correspondences(entries),
            costs=self._costs(),
            notes=tuple(self._notes(incomplete)),
        )

    # entries

    def _entries(self, system: str) -> list[Entry]:
        drawn = {d: self._drawn(system, d) for d in self.datasets if (system, d) in self.of}
        made = []
        for column, o in enumerate(self.seen.observed):
            for dataset in (ALL, *self.datasets):
                for v, value in enumerate((ALL, *self.seen.values)):
                    here = [i for i in self.of.get((system, dataset), ()) if (i, value) in o.cells]
                    if not here:
                        continue
                    pairs = [(x, self.w[i]) for i in here for x in o.cells[i, value]]
                    mean, deviation = mean_and_deviation(
                        [x for x, _ in pairs], [w for _, w in pairs]
                    )
                    n = sum(o.n[i, value] for i in here)
                    overall = dataset == value == ALL
                    chosen = list(drawn) if dataset == ALL else [dataset]
                    made.append(
                        Entry(
                            system=system,
                            measure=o.measure.name,
                            dataset=dataset,
                            value=value,
                            mean=mean,
                            deviation=deviation,
                            rank=None,
                            n=n,
                            undefined=sum(o.undefined[i, value] for i in here),
                            interval=self._interval(
                                o, mean, n, [drawn[d] for d in chosen], chosen, v, column
                            ),
                            between_seeds=self._seeds(o, here) if overall else Spread(),
                            between_prompts=self._prompts(o, here) if overall else Spread(),
                        )
                    )
        return made

    def _drawn(self, system: str, dataset: str) -> _Drawn:
        """Means of all cells of a system on a dataset over resampled prompts."""
        seen = self.seen
        cells = np.array(self.of[system, dataset])
        rows = np.flatnonzero(np.isin(seen.cell, cells))
        prompts, k = np.unique(seen.prompt[rows], return_inverse=True)
        K, C, V = len(prompts), len(cells), max(1, len(seen.values))
        if not K:
            return _Drawn(0, {})
        at = (k * C + np.searchsorted(cells, seen.cell[rows])) * V + seen.value[rows]
        columns = [j for j, o in enumerate(seen.observed) if o.texts is not None]
        S = np.zeros((len(columns), K, C, 1 + V))
        n = np.zeros_like(S)
        for m, j in enumerate(columns):
            texts = seen.observed[j].texts
            assert texts is not None
            x = texts[rows]
            defined = ~np.isnan(x)
            size = K * C * V
            S[m, ..., 1:] = np.bincount(at[defined], x[defined], size).reshape(K, C, V)
            n[m, ..., 1:] = np.bincount(at[defined], minlength=size).reshape(K, C, V)
        S[..., 0], n[..., 0] = S[..., 1:].sum(axis=-1), n[..., 1:].sum(axis=-1)
        r = self.resampling
        means: dict[int, list[Floats]] = {j: [] for j in columns}
        for W in cluster_draws(K, r.resamples, self._draw_seed(dataset), width=K):
            for m, j in enumerate(columns):
                with np.errstate(invalid="ignore", divide="ignore"):
                    drawn = (W @ S[m].reshape(K, -1)) / (W @ n[m].reshape(K, -1))
                means[j].append(drawn.reshape(len(W), C, 1 + V))
        return _Drawn(K, {j: np.concatenate(chunks) for j, chunks in means.items()})

    def _draw_seed(self, dataset: str) -> int:
        """Datasets are drawn from independently, and all systems with the same draws."""
        return self.resampling.seed + 1_000_003 * sorted(self.datasets).index(dataset)

    def _interval(
        self,
        o: Observed,
        mean: float,
        n: int,
        drawn: Sequence[_Drawn],
        datasets: Sequence[str],
        value: int,
        column: int,
    ) -> Interval:
        nan = math.nan
        clusters = sum(d.clusters for d in drawn)
        if o.texts is None:
            why = OF_CORPUS if o.measure.kind == "corpus" else NO_TEXTS
            return Interval(mean, nan, nan, n, clusters, why)
        total = np.zeros(self.resampling.resamples)
        weight = np.zeros(self.resampling.resamples)
        for d, dataset in zip(drawn, datasets, strict=True):
            if column in d.means:
                v = d.means[column][:, :, value]  # (resamples, cells)
                w = self.weights[dataset]
                total += w * np.nansum(v, axis=1)
                weight += w * (~np.isnan(v)).sum(axis=1)
        if not weight.any():
            return Interval(mean, nan, nan, n, clusters, NO_TEXTS)
        if all(d.clusters < 2 for d in drawn):
            return Interval(mean, nan, nan, n, clusters, "one prompt a dataset")
        means = total[weight > 0] / weight[weight > 0]
        tail = (1 - self.resampling.level) / 2
        low, high = np.quantile(means, [tail, 1 - tail])
        return Interval(mean, float(low), float(high), n, clusters)

    def _seeds(self, o: Observed, here: Sequence[int]) -> Spread:
        """Between the weighted means of seeds."""
        seen = [self.seen.cells[i].key for i in here]
        whole = {k.dataset for k in seen}
        means = []
        for seed in dict.fromkeys(k.seed for k in seen):
            mine = [i for i, k in zip(here, seen, strict=True) if k.seed == seed]
            defined = {self.seen.cells[i].key.dataset for i in mine if o.cells[i, ALL]}
            if defined == whole:
                pairs = [(x, self.w[i]) for i in mine for x in o.cells[i, ALL]]
                means.append(mean_and_deviation(*zip(*pairs, strict=True)).mean)
        if len(means) < 2:
            one = len({k.seed for k in seen}) == 1
            return Spread(n=len(means), why=ONE_SEED if one else "no two seeds have every dataset")
        return Spread(float(np.std(means, ddof=1)), len(means))

    def _prompts(self, o: Observed, here: Sequence[int]) -> Spread:
        """Between the means of prompts, within datasets."""
        if o.texts is None:
            return Spread(why=OF_CORPUS if o.measure.kind == "corpus" else NO_TEXTS)
        rows = np.flatnonzero(np.isin(self.seen.cell, here) & ~np.isnan(o.texts))
        if not rows.size:
            return Spread(why="no values")
        prompts, k = np.unique(self.seen.prompt[rows], return_inverse=True)
        means = np.bincount(k, o.texts[rows]) / np.bincount(k)
        of: dict[str, list[float]] = {}
        for prompt, mean in zip(prompts.tolist(), means.tolist(), strict=True):
            of.setdefault(self.seen.prompts[prompt][0], []).append(mean)
        pairs = [(float(np.var(v, ddof=1)), self.weights[d]) for d, v in of.items() if len(v) > 1]
        if not pairs:
            return Spread(n=len(prompts), why="one prompt a dataset")
        variance = np.average([s for s, _ in pairs], weights=[w for _, w in pairs])
        return Spread(float(np.sqrt(variance)), len(prompts))

    def _ranked(
        self, entries: Mapping[tuple[str, str, str, str], Entry]
    ) -> dict[tuple[str, str, str, str], Entry]:
        ranked = dict(entries)
        for o in self.seen.observed:
            name = o.measure.name
            mine = {k: e for k, e in entries.items() if k[1:] == (name, ALL, ALL)}
            decimals = places([e.mean for e in entries.values() if e.measure == name])
            means = {key: e.mean for key, e in mine.items()}
            ranks = printed_ranks(means, decimals, higher_is_better=o.measure.higher_is_better)
            for key, rank in ranks.items():
                ranked[key] = replace(mine[key], rank=rank)
        return ranked

    # comparisons

    def _comparisons(self) -> dict[str, tuple[Comparison, ...]]:
        compared = [
            o for o in self.seen.observed if o.texts is not None and o.measure.kind != "judge"
        ]
        pairs = len(self.systems) * (len(self.systems) - 1) // 2
        least = _PERMUTATIONS_EACH * pairs * len(compared)
        permutations = max(self.resampling.permutations, least)
        found = {o.measure.name: self._pairs(o, permutations) for o in compared}
        p = iter(holm([c.p for made in found.values() for c in made]).tolist())
        return {
            name: tuple(replace(c, p_adjusted=next(p)) for c in made)
            for name, made in found.items()
            if made
        }

    def _pairs(self, o: Observed, permutations: int) -> list[Comparison]:
        pairs = list(itertools.combinations(range(len(self.systems)), 2))
        if not pairs or o.texts is None:
            return []
        X = self._by_input(o.texts)  # (inputs, systems)
        inputs, first = np.unique(self.seen.input, return_index=True)
        prompt, stratum = self.seen.prompt[first], self._stratum(first)
        dataset = self._dataset(first)
        has = ~np.isnan(X)
        strata = len(np.unique(stratum))
        complete = np.array(
            [len(np.unique(stratum[has[:, s]])) == strata for s in range(len(self.systems))]
        )
        D = np.full((len(inputs), len(pairs)), np.nan)
        for j, (a, b) in enumerate(pairs):
            used = (
                complete if complete[a] and complete[b] else np.isin(range(len(complete)), (a, b))
            )
            rows = has[:, used].all(axis=1)
            d = X[rows, a] - X[rows, b]
            d[np.abs(d) <= _EQUAL * np.maximum(np.abs(X[rows, a]), np.abs(X[rows, b]))] = 0.0
            D[rows, j] = d
        use = ~np.isnan(D)
        codes, k = np.unique(prompt, return_inverse=True)
        w = np.array([self.weights[d] for d in self.datasets])
        n = np.stack([np.bincount(dataset, u, len(self.datasets)) for u in use.T], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(n > 0, w[:, None] / n, 0.0) / (w[:, None] * (n > 0)).sum(axis=0)
        omega = np.where(use, share[dataset], 0.0)  # (inputs, pairs), sums to 1 over the inputs
        T = np.stack(
            [np.bincount(k, v, len(codes)) for v in (omega * np.where(use, D, 0.0)).T], axis=1
        )
        p = sign_flip_p(T.astype(np.float64), permutations=permutations, seed=self.resampling.seed)
        low, high = self._ends(D, use, k, len(codes), dataset, n.astype(np.float64))
        made = []
        for j, (a, b) in enumerate(pairs):
            rows = use[:, j]
            d, clusters = D[rows, j], len(np.unique(prompt[rows]))
            made.append(
                Comparison(
                    a=self.systems[a],
                    b=self.systems[b],
                    inputs=d.size,
                    left_out=int(rows.size - d.size),
                    clusters=clusters,
                    difference=float(T[:, j].sum()) if d.size else math.nan,
                    low=float(low[j]) if clusters > 1 else math.nan,
                    high=float(high[j]) if clusters > 1 else math.nan,
                    effect=_effect(d, omega[rows, j]),
                    p=float(p[j]) if d.size else math.nan,
                    p_adjusted=math.nan,
                    note=self._compared_note(
                        d, prompt[rows], dataset[rows], bool(complete[a] and complete[b])
                    ),
                )
            )
        return made

    def _by_input(self, texts: Floats) -> Floats:
        """(inputs, systems): mean over the texts of a system for an input; NaN if none has one."""
        system = np.array([self.systems.index(c.key.system) for c in self.seen.cells])
        n, S = int(self.seen.input.max(initial=-1)) + 1, len(self.systems)
        defined = ~np.isnan(texts)
        at = (self.seen.input * S + system[self.seen.cell])[defined]
        with np.errstate(invalid="ignore"):
            means = np.bincount(at, texts[defined], n * S) / np.bincount(at, minlength=n * S)
        return means.reshape(n, S)

    def _dataset(self, rows: Codes) -> Codes:
        """Position of the dataset of these texts."""
        at = [self.datasets.index(c.key.dataset) for c in self.seen.cells]
        return np.array(at, dtype=np.intp)[self.seen.cell[rows]]

    def _stratum(self, rows: Codes) -> Codes:
        """Dataset and value asked for, as one code."""
        return self._dataset(rows) * max(1, len(self.seen.values)) + self.seen.value[rows]

    def _ends(
        self,
        D: Floats,
        use: npt.NDArray[np.bool_],
        k: Codes,
        K: int,
        dataset: Codes,
        n: Floats,
    ) -> tuple[Floats, Floats]:
        """Ends of the intervals of the weighted differences; prompts resampled by dataset."""
        r = self.resampling
        total = np.zeros((r.resamples, D.shape[1]))
        weight = np.zeros_like(total)
        for d, name in enumerate(self.datasets):
            rows = np.flatnonzero(dataset == d)
            if not rows.size or not n[d].any():
                continue
            codes, own = np.unique(k[rows], return_inverse=True)
            filled = np.where(use[rows], D[rows], 0.0)
            S = np.stack([np.bincount(own, v, len(codes)) for v in filled.T], axis=1)
            N = np.stack([np.bincount(own, v, len(codes)) for v in use[rows].T], axis=1)
            start = 0
            for W in cluster_draws(len(codes), r.resamples, self._draw_seed(name), width=K):
                drawn = slice(start, start + len(W))
                start += len(W)
                size = W @ N
                with np.errstate(invalid="ignore", divide="ignore"):
                    mean = (W @ S) / size
                total[drawn] += np.where(size > 0, self.weights[name] * mean, 0.0)
                weight[drawn] += self.weights[name] * (size > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            means = total / weight
        tail = (1 - r.level) / 2
        ends = np.full((2, D.shape[1]), np.nan)
        for j in np.flatnonzero((~np.isnan(means)).any(axis=0)):
            ends[:, j] = np.nanquantile(means[:, j], [tail, 1 - tail])
        return ends[0], ends[1]

    def _compared_note(self, d: Floats, prompts: Codes, dataset: Codes, both_complete: bool) -> str:
        if not d.size:
            return "no request has a value from both"
        notes = []
        if not both_complete:
            on = [self.datasets[i] for i in np.unique(dataset)]
            where = f": {', '.join(on)}" if len(on) < len(self.datasets) else ""
            notes.append(f"on the requests that both have{where}")
        if np.unique(prompts).size == 1:
            notes.append("one prompt: no interval")
        least = smallest_p(d, prompts)
        if least > 0.05 and np.any(d):
            notes.append(f"too few independent prompts: p can't go below {least:.3g}")
        return "; ".join(notes)

    # judges

    def _agreement(self, attribute: str, judges: tuple[str, ...]) -> JudgeAgreement:
        of = {o.measure.name: o for o in self.seen.observed}
        texts = [of[j].texts if j in of else None for j in judges]
        of_rates = any(t is None for t in texts)
        columns: list[Floats] = []
        if of_rates:
            places = dict.fromkeys(p for j in judges if j in of for p in of[j].cells)
            single = [p for p in places if p[1] != ALL] or list(places)
            for j in judges:
                found = [of[j].cells.get(p, []) if j in of else [] for p in single]
                columns.append(np.array([fmean(f) if f else math.nan for f in found]))
        else:
            columns = [t for t in texts if t is not None]
        J = range(len(judges))
        pairs = [[_pair_of_judges(columns[i], columns[j], of_rates) for j in J] for i in J]
        return JudgeAgreement(
            attribute=attribute,
            judges=judges,
            kappa=tuple(tuple(kappa for kappa, _, _ in row) for row in pairs),
            r=tuple(tuple(r for _, r, _ in row) for row in pairs),
            n=tuple(tuple(n for _, _, n in row) for row in pairs),
            of_rates=of_rates,
        )

    def _correspondences(
        self, entries: Mapping[tuple[str, str, str, str], Entry]
    ) -> tuple[Correspondence, ...]:
        measures = {o.measure.name: o.measure for o in self.seen.observed}
        perplexities = ("fluency.perplexity", "fluency.corpus-perplexity")
        perplexity = next((name for name in perplexities if name in measures), "")
        return tuple(
            self._correspondence(measures[x], measures[y], entries)
            for x, y in ((AVERAGE, MAJORITY), (perplexity, "fluency.slor"))
            if x in measures and y in measures
        )

    def _correspondence(
        self, x: Measure, y: Measure, entries: Mapping[tuple[str, str, str, str], Entry]
    ) -> Correspondence:
        means: list[dict[str, float]] = []
        for m in (x, y):
            found = {s: entries.get((s, m.name, ALL, ALL)) for s in self.systems}
            means.append(
                {s: e.mean for s, e in found.items() if e is not None and e.mean == e.mean}
            )
        both = [s for s in self.systems if s in means[0] and s in means[1]]
        ranks = [
            printed_ranks(
                {s: mean[s] for s in both},
                places(list(mean.values())),
                higher_is_better=m.higher_is_better,
            )
            for m, mean in zip((x, y), means, strict=True)
        ]
        rows = [
            Beside(s, means[0][s], ranks[0][s], means[1][s], ranks[1][s])
            for s in sorted(both, key=lambda s: ranks[0][s])
        ]
        a, b = [row.x for row in rows], [row.y for row in rows]
        why = "fewer than three systems" if len(rows) < 3 else why_undefined("pearson", a, b)
        return Correspondence(
            x=x.name,
            y=y.name,
            systems=tuple(rows),
            pearson=math.nan if why else pearson(a, b),
            spearman=math.nan
            if why
            else spearman([row.x_rank for row in rows], [row.y_rank for row in rows]),
            why=why,
        )

    # what else there is to say

    def _costs(self) -> tuple[CostSummary, ...]:
        made = []
        for system in self.systems:
            costs = [c for i in self.of[system, ALL] if (c := self.seen.cells[i].cost)]
            seconds = [c.wall_s / c.texts for c in costs if c.texts]
            counted = [(c.tokens, c.wall_s) for c in costs if c.tokens is not None and c.wall_s > 0]
            peaks = [c.peak_bytes for c in costs if c.peak_bytes is not None]
            if costs:
                made.append(
                    CostSummary(
                        system=system,
                        seconds=fmean(seconds) if seconds else math.nan,
                        deviation=float(np.std(seconds)) if seconds else math.nan,
                        tokens_per_second=sum(t for t, _ in counted) / sum(s for _, s in counted)
                        if counted
                        else math.nan,
                        peak_bytes=max(peaks, default=None),
                        cells=len(costs),
                    )
                )
        return tuple(made)

    def _incomplete(self) -> dict[str, str]:
        """What systems lack of what any system has."""
        have: dict[str, set[tuple[str, str]]] = {s: set() for s in self.systems}
        for i, cell in enumerate(self.seen.cells):
            for o in self.seen.observed:
                for value in (ALL, *self.seen.values):
                    if o.cells.get((i, value)):
                        have[cell.key.system].add((cell.key.dataset, value))
        everything = set().union(*have.values())
        lacking = {}
        for system, mine in have.items():
            whole = [d for d in self.datasets if (d, ALL) not in mine and (d, ALL) in everything]
            there = {p for p in everything if p[0] not in whole}
            parts: dict[str, list[str]] = {}
            for dataset, value in sorted(there - mine):
                parts.setdefault(value, []).append(dataset)
            words = [f"dataset {', '.join(whole)}"] if whole else []
            left = len(self.datasets) - len(whole)
            nowhere = [value for value, on in parts.items() if len(on) == left]
            if nowhere:
                words.append(f"value {', '.join(nowhere)}")
            words += [f"{v} on {', '.join(on)}" for v, on in parts.items() if v not in nowhere]
            if words:
                lacking[system] = " and ".join(words)
        return lacking

    def _notes(self, incomplete: Mapping[str, str]) -> list[str]:
        notes = [
            f"Incomplete: {system} has nothing for {lacks}; its means rest on other requests than "
            "those of the others, so its ranks say less"
            for system, lacks in incomplete.items()
        ]
        failed = [cell for cell in self.seen.cells if cell.failure]
        if failed:
            first = failed[0]
            more = f"; and {len(failed) - 1} more" if len(failed) > 1 else ""
            notes.append(f"Without all of its texts: {first.key}: {first.failure}{more}")
        missing = sum(len(cell.missing) for cell in self.seen.cells)
        if missing:
            notes.append(f"Missing: {missing:,} requests have no answer and count nowhere")
        if self.seen.many_values:
            notes.append(f"Not split by the {self.seen.many_values:,} values asked for")
        if self.valueless:
            notes.append(f"Left out, as no text has a value: {', '.join(self.valueless)}")
        if len(self.seeds) == 1:
            notes.append("One seed: how far another seed would change the numbers is not known")
        return notes


class _Drawn(NamedTuple):
    """Resampled means of the cells of a system on a dataset.

    Attributes:
        clusters: how many prompts there are.
        means: column -> (resamples, cells, `ALL` and the values).
    """

    clusters: int
    means: Mapping[int, Floats]


def _effect(d: Floats, omega: Floats) -> float:
    """d_z with weights: `m / s`, `m = Σ ω d`, `s² = n / (n − 1) Σ ω (d − m)²`, Σ ω = 1.

    With equal weights it is Cohen's d_z. 0 if all differences are 0; undefined (NaN) with one
    difference, or if all are equal and not 0.
    """
    if d.size and not np.any(d):
        return 0.0
    if d.size < 2:
        return math.nan
    m = float(omega @ d)
    s = math.sqrt(float(omega @ (d - m) ** 2) * d.size / (d.size - 1))
    return m / s if s > 1e-10 * float(np.abs(d).max()) else math.nan


def _pair_of_judges(x: Floats, y: Floats, of_rates: bool) -> tuple[float, float, int]:
    """κ, r and n of two judges where both judged.

    `κ = (p_o − p_e) / (1 − p_e)`, p_o the share of texts on which they agree, p_e what it would be
    if they judged independently with the shares right that they have. Undefined (NaN): fewer than
    two texts, or one of them finds all right or all wrong (κ: both of them, alike).
    """
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    r = math.nan if why_undefined("pearson", x, y) else pearson(x, y)
    if of_rates or x.size < 2:
        return math.nan, r, int(x.size)
    a, b = float(np.mean(x > 0)), float(np.mean(y > 0))
    by_chance = a * b + (1 - a) * (1 - b)
    agreed = float(np.mean((x > 0) == (y > 0)))
    kappa = (agreed - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan
    return kappa, r, int(x.size)

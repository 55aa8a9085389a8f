"""Number of inputs and seeds that a comparison of systems needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy

from levelfield.agree.join import chosen_names, merged_columns
from levelfield.agree.sources import ManyScores, file_names, read_samples, read_scores
from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io.scores import ScoreColumn
from levelfield.io.tables import NONE
from levelfield.planning.design import SystemPlanOptions
from levelfield.planning.result import PlanColumn, SizePlan, rows_of, stated, too_many
from levelfield.scoring.run_table import Pairing, RunTable
from levelfield.stats.power import fewest, t_power
from levelfield.stats.seeds import SeedComponent, SeedPrior, VarianceParts, seed_prior

_INPUTS = 100
"""Inputs that a plan without a pilot speaks of."""


@dataclass(frozen=True)
class DifferenceSpread:
    """What makes the mean difference of two systems vary from study to study.

    Attributes:
        inputs: variance over inputs of the difference, without that of the texts.
        texts: variance over seeds of the texts for one input, summed over the two systems.
        seeds: variance over seeds of the mean over very many inputs, summed over the two systems;
            None if it is not known.
    """

    inputs: float
    texts: float = 0.0
    seeds: float | None = None

    @classmethod
    def stated(cls, sd: float, sd_texts: float, sd_seeds: float | None) -> DifferenceSpread:
        """Returns the spread of standard deviations as the options have them."""
        seeds = None if sd_seeds is None else 2 * sd_seeds**2
        return cls(max(0.0, sd**2 - 2 * sd_texts**2), 2 * sd_texts**2, seeds)

    @property
    def sd(self) -> float:
        """Standard deviation over inputs of the difference with one text each."""
        return math.sqrt(self.inputs + self.texts)

    @property
    def sd_texts(self) -> float:
        """Standard deviation over seeds of a system's texts for one input."""
        return math.sqrt(self.texts / 2)

    @property
    def sd_seeds(self) -> float | None:
        """Standard deviation over seeds of a system's mean."""
        return None if self.seeds is None else math.sqrt(self.seeds / 2)

    def error(self, inputs: int, seeds: int, systems: int = 2) -> ErrorOfPlan:
        """Returns the error that the difference of two systems will have in a study of several.

        With n inputs and S seeds, `V = (σ_i² + σ_t² / S) / n`, and for S > 1 `σ_s² / S` besides.
        With one seed the claim is about these runs, and V is estimated with n − 1 degrees of
        freedom. With several, `stats.seeds.contrast` estimates it from parts whose expectations
        are V_p, the V without seeds, `V_a = (σ_s² + σ_t² / n) / 2S` of each system, and
        `R = σ_t² / (n S)`; each V_a is drawn towards those of all systems (`seed_prior`).
        """
        n, S = inputs, seeds
        prompts = (self.inputs + self.texts / S) / n
        if S == 1:
            return ErrorOfPlan(math.sqrt(prompts), np.array([prompts]), np.array([n - 1.0]), True)
        seed_part, R = (self.seeds or 0.0) / S, self.texts / (n * S)
        variance = (seed_part + R) / 2 * S
        df = np.array([n - 1, (n - 1) * (S - 1) * 2])
        drawn = np.array([prompts, R]) * scipy.special.chdtri(df, _SHARES) / df
        estimates = [
            VarianceParts(
                V_p,
                n - 1,
                tuple(SeedComponent(variance * s, 1 / S, texts / 2, S - 1) for s in variances[:2]),
                prior and replace(prior, variance=variance * prior.variance),
            ).total()
            for (V_p, texts), (variances, prior) in zip(
                drawn.tolist(), _drawn_seeds(min(systems, _MOST_DRAWN), S), strict=True
            )
        ]
        V, df_V = np.array(estimates).T
        return ErrorOfPlan(math.sqrt(prompts + seed_part), V, df_V)


_DRAWS = 512
"""Estimates of variances that a plan with several seeds looks at."""


def _latin_hypercube(draws: int, dimensions: int) -> Floats:
    """Returns shares, (draws, dimensions), each dimension with one in every interval of 1 /
    draws."""
    places = np.tile(np.arange(draws), (dimensions, 1))
    return (np.random.default_rng(0).permuted(places, axis=1).T + 0.5) / draws


_SHARES = _latin_hypercube(_DRAWS, 2)


_MOST_DRAWN = 50
"""Systems that seed variances are drawn of; more lend little more to one."""


@cache
def _drawn_seeds(systems: int, seeds: int) -> list[tuple[list[float], SeedPrior | None]]:
    """Returns `_DRAWS` times the seed variance that each system would show if the true one of all
    were 1, with the prior of these."""
    # other places than those of `_SHARES`
    shares = _latin_hypercube(_DRAWS, 2 + systems)[:, 2:]
    df = seeds - 1
    drawn = (scipy.special.chdtri(df, shares) / df).tolist()
    return [(variances, seed_prior([(s2, df) for s2 in variances])) for variances in drawn]


@dataclass(frozen=True)
class ErrorOfPlan:
    """The error of a difference in a study to come.

    Attributes:
        se: its true standard error.
        variances, df: (draws,) estimates of its square as studies would have them, with their
            degrees of freedom.
        exact: whether the only estimate is the expected one, and follows a χ² distribution.
    """

    se: float
    variances: Floats
    df: Floats
    exact: bool = False

    def power(self, difference: float, level: float) -> float:
        """Returns the share of studies that show a difference.

        Exact for normal values and one seed. With several it is the mean of
        `Φ((δ − t √V) / se) + Φ((−δ − t √V) / se)` over estimates V with their critical values t.
        """
        if not self.se:
            return float(difference != 0)
        if self.exact:
            return t_power(difference / self.se, float(self.df[0]), level)
        t = scipy.special.stdtrit(self.df, 1 - level / 2) * np.sqrt(self.variances)
        shown = scipy.special.ndtr((difference - t) / self.se) + scipy.special.ndtr(
            (-difference - t) / self.se
        )
        return float(shown.mean())

    def detectable(self, level: float, power: float) -> float:
        """Returns the difference that the share `power` of studies shows; NaN if nothing varies."""
        if not self.se:
            return math.nan
        high = self.se
        while self.power(high, level) < power:
            high *= 2
        return float(scipy.optimize.brentq(lambda d: self.power(d, level) - power, 0.0, high))


def mean_spread(parts: Sequence[tuple[VarianceParts, int, int]]) -> DifferenceSpread:
    """Returns the mean spread of several pairs of systems.

    Args:
        parts: those of each pair, with its number of inputs and its seeds a system.
    """
    texts = float(np.mean([p.texts * n * S for p, n, S in parts]))
    inputs = float(np.mean([(p.prompts - p.texts) * n for p, n, S in parts]))
    seeds = [(sum(p.seeds) - p.texts) * S for p, n, S in parts if p.seeds]
    return DifferenceSpread(
        max(0.0, inputs), max(0.0, texts), max(0.0, float(np.mean(seeds))) if seeds else None
    )


@dataclass(frozen=True)
class _Pilot:
    """What a pilot says of one metric.

    Attributes:
        most_seeds: an upper limit of `spread.sd_seeds` that is too low for 5 % of pilots; NaN where
            the pilot says nothing of seeds, or its user does.
    """

    metric: str
    spread: DifferenceSpread
    inputs: int
    seeds: int
    systems: int
    most_seeds: float = math.nan


@keywords(SystemPlanOptions)
def plan_systems(
    scores: ManyScores = (), chosen: SystemPlanOptions | None = None, **words: Any
) -> SizePlan:
    """Plans the number of inputs and seeds that a comparison of systems needs.

    Every two of k systems are compared on equal inputs, each at α / m for m = k (k − 1) / 2: the
    first threshold of Holm's procedure, so that the power of each is at least what is asked. The
    power is that of `ErrorOfPlan`, from the variances that `DifferenceSpread.error` expects. An
    input is what counts as independent: a prompt with all its texts.

    Args:
        scores: of a pilot, whose `samples` say who wrote the texts; without any, standard
            deviations have to be stated.
        chosen: what is planned.
        words: options of `SystemPlanOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: neither a pilot nor a standard deviation, or a pilot without two systems.

    >>> plan = plan_systems(sd=1.0, sd_seeds=0.0, difference=0.5, seeds=[1])
    >>> plan.rows[0]["inputs_needed"]
    34
    """
    chosen = SystemPlanOptions.of(chosen, **words)
    pilots, foreign = _pilots(scores, chosen)
    if not pilots:
        chosen.refuse(("samples", "mapping", "metrics"), "plans without the scores of a pilot")
        if chosen.sd is None:
            raise UserError(
                "nothing to plan from: give the scores of a pilot with --samples, or --sd and "
                "--sd-seeds"
            )
        spread = DifferenceSpread.stated(chosen.sd, chosen.sd_texts or 0.0, chosen.sd_seeds)
        pilots = [_Pilot("", spread, _INPUTS, 1, 2)]
    columns = _columns(chosen, pilots)
    rows = rows_of(columns, [row for p in pilots for row in _rows(p, chosen, columns)])
    systems = chosen.systems or pilots[0].systems
    return SizePlan(
        question="systems",
        caption=_caption(chosen, systems),
        columns=columns,
        rows=rows,
        assumptions={
            "systems": systems,
            "comparisons": systems * (systems - 1) // 2,
            "spread": [
                {
                    "metric": p.metric or None,
                    "sd": p.spread.sd,
                    "sd_texts": p.spread.sd_texts,
                    "sd_seeds": p.spread.sd_seeds,
                    "inputs": p.inputs if p.metric else None,
                    "seeds": p.seeds if p.metric else None,
                }
                for p in pilots
            ],
        },
        notes=(*_notes(chosen, pilots, rows), *foreign),
        choices={
            **stated(chosen, "power", "alpha"),
            "systems": systems,
            **stated(chosen, "difference", "inputs", "sd", "sd_texts", "sd_seeds"),
        },
        files=(*file_names(scores), *file_names(chosen.samples)),
    )


def _caption(chosen: SystemPlanOptions, systems: int) -> str:
    m = systems * (systems - 1) // 2
    needed = (
        ""
        if chosen.difference is None
        else f"inputs that show a difference of {chosen.difference:g}, and "
    )
    corrected = f", α = {chosen.alpha:g}" + (f" over {m:,} comparisons" if m > 1 else "")
    return f"{needed}the detectable difference ({100 * chosen.power:g} % power{corrected})"


def _columns(chosen: SystemPlanOptions, pilots: list[_Pilot]) -> tuple[PlanColumn, ...]:
    sizes = {chosen.inputs or pilot.inputs for pilot in pilots}
    size = f" with {sizes.pop():,} inputs" if len(sizes) == 1 else ""
    return (
        *([PlanColumn("metric", "metric", str)] if pilots[0].metric else []),
        PlanColumn("seeds", "seeds", repeated=True),
        *(
            []
            if chosen.difference is None
            else [
                PlanColumn("inputs_needed", "inputs"),
                PlanColumn("texts_needed", "texts per system"),
            ]
        ),
        *([] if size else [PlanColumn("inputs", "inputs here")]),
        PlanColumn("detectable", f"detectable{size}", float),
    )


def _tests(pilot: _Pilot, chosen: SystemPlanOptions) -> tuple[int, float, int]:
    """Returns the number of systems, the level of each comparison, and how many inputs let the p of
    sign flips fall to it."""
    systems = chosen.systems or pilot.systems
    level = chosen.alpha / (systems * (systems - 1) // 2)
    return systems, level, max(2, math.ceil(1 - math.log2(level)))


def _rows(
    pilot: _Pilot, chosen: SystemPlanOptions, columns: Sequence[PlanColumn]
) -> Iterator[list[Any]]:
    systems, level, least = _tests(pilot, chosen)
    for S in chosen.seeds:
        if S > 1 and pilot.spread.seeds is None:
            continue

        def shows(n: int, S: int = S) -> bool:
            error = pilot.spread.error(n, S, systems)
            return error.power(chosen.difference or 0.0, level) >= chosen.power

        n = chosen.inputs or pilot.inputs
        needed = None if chosen.difference is None else fewest(shows, least if S == 1 else 2)
        detectable = pilot.spread.error(n, S, systems).detectable(level, chosen.power)
        row = {
            "metric": pilot.metric,
            "seeds": S,
            "inputs_needed": needed,
            "texts_needed": None if needed is None else needed * S,
            "inputs": n,
            "detectable": detectable if S > 1 or n >= least else None,
        }
        yield [row[column.key] for column in columns]


def _notes(
    chosen: SystemPlanOptions, pilots: list[_Pilot], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    for p in pilots:
        metric = f"{p.metric}: " if p.metric else ""
        sd_seeds = p.spread.sd_seeds
        seeds = "" if sd_seeds is None else f", of a system's mean over seeds {sd_seeds:.3g}"
        texts = f", of texts over seeds {p.spread.sd_texts:.3g}" if p.spread.texts else ""
        source = f" (pilot: {p.inputs:,} inputs, {_seeds(p.seeds)})" if p.metric else ""
        yield (
            f"{metric}standard deviation of the difference over inputs {p.spread.sd:.3g}"
            f"{texts}{seeds}{source}"
        )
        if p.most_seeds >= 0:
            yield (
                f"{metric}{_seeds(p.seeds)} of {p.systems} systems say little about that: it "
                f"may be as high as {p.most_seeds:.3g} (95 % limit); --sd-seeds plans with another "
                "value"
            )
    if 1 in chosen.seeds:
        yield "with one seed, claims are about these runs, whatever other seeds would give"
    if any(p.spread.seeds is None for p in pilots) and max(chosen.seeds) > 1:
        yield (
            "more seeds are not planned: how much they differ is unknown; give --sd-seeds, or a "
            "pilot with two seeds or more"
        )
    yield from dict.fromkeys(_why_none(chosen, pilots, rows))


def _why_none(
    chosen: SystemPlanOptions, pilots: list[_Pilot], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yields the reasons for rows without a number."""
    for p in pilots:
        systems, level, _ = _tests(p, chosen)
        for row in rows:
            if row.get("metric", "") != p.metric:
                continue
            if row["detectable"] is None and p.spread.sd:
                yield f"{NONE} : p of so few inputs is never small enough to show a difference"
            if row.get("inputs_needed", 1) is not None:
                continue
            # what is left of the error with very many inputs
            seeds_alone = DifferenceSpread(0.0, seeds=p.spread.seeds).error(
                _INPUTS, row["seeds"], systems
            )
            if seeds_alone.power(chosen.difference or 0.0, level) < chosen.power:
                yield f"{NONE} : no number of inputs is enough, since seeds alone differ too much"
            else:
                yield too_many("inputs")


def _seeds(n: int) -> str:
    return f"{n} seed{'' if n == 1 else 's'}"


def _pilots(scores: ManyScores, chosen: SystemPlanOptions) -> tuple[list[_Pilot], list[str]]:
    """Returns the pilots, and a note on metrics that have no value of a sample."""
    columns = merged_columns(read_scores(scores, mapping=chosen.mapping))
    if not columns:
        return [], []
    names = chosen_names("metric", [column.metric for column in columns], chosen.metrics)
    samples = read_samples(chosen.samples, mapping=chosen.mapping)
    if not samples:
        raise UserError("the pilot's scores don't say who wrote the texts; give --samples FILE")
    columns = [column for column in columns if column.metric in names]
    sample_columns = [c for c in columns if not samples.keys().isdisjoint(c.values)]
    foreign = [c.metric for c in columns if c not in sample_columns]
    reason = f"{', '.join(foreign)}: no id is in both the scores and the samples"
    if not sample_columns:
        raise UserError(reason)
    notes = [f"not planned: {reason}"] if foreign else []
    return [_pilot(c, samples, chosen) for c in sample_columns], notes


def _pilot(column: ScoreColumn, samples: Mapping[str, Sample], chosen: SystemPlanOptions) -> _Pilot:
    ids = [id for id in column.values if id in samples]
    values = np.array([column.values[id] for id in ids], dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    run = RunTable()
    seeded = [replace(samples[id], seed=samples[id].seed or 0) for id in ids]
    run.add(seeded, [sample.system for sample in seeded])
    undefined = {id: "undefined" for id, v in zip(ids, values, strict=True) if math.isnan(v)}
    run.add_scores(Scores(column.metric, tuple(ids), values, undefined, column.signature, "higher"))
    table = run.table()
    if len(table.names) < 2:
        raise UserError(
            f"{column.metric}: the pilot has scores of {len(table.names)} systems; expected two "
            "or more, named by the samples"
        )
    pairing = Pairing(table)
    means = pairing.means(table.values[column.metric])
    texts = pairing.seeded(table.values[column.metric])
    parts = []
    seeds = [1]
    for a, b in itertools.combinations(range(len(table.names)), 2):
        shared = ~np.isnan(means[:, [a, b]]).any(axis=1)
        weights = shared / max(1, shared.sum())
        c = None if texts is None else texts.difference(a, b, weights, prior=None)
        if texts is None or c is None or c.parts is None:
            continue
        S = min(texts.seeds_of(a), texts.seeds_of(b)) if c.samples_seeds else 1
        parts.append((c.parts, np.unique(pairing.clusters[shared]).size, S))
        seeds.append(S)
    if not parts:
        raise UserError(
            f"{column.metric}: no two systems of the pilot have different values on two common "
            "inputs"
        )
    spread = mean_spread(parts)
    stated_sds = {"sd": chosen.sd, "sd_texts": chosen.sd_texts, "sd_seeds": chosen.sd_seeds}
    if any(value is not None for value in stated_sds.values()):
        pilot_sds = {name: getattr(spread, name) for name in stated_sds}
        spread = DifferenceSpread.stated(
            **pilot_sds | {k: v for k, v in stated_sds.items() if v is not None}
        )
    return _Pilot(
        column.metric,
        spread,
        max(n for _, n, _ in parts),
        max(seeds),
        len(table.names),
        math.nan if chosen.sd_seeds is not None else _most_seeds(parts, len(table.names)),
    )


def _most_seeds(parts: Sequence[tuple[VarianceParts, int, int]], systems: int) -> float:
    """Returns the 95 % limit of a system's standard deviation over seeds.

    The mean V_a of all systems, with S − 1 degrees of freedom each, over its χ² at 5 %.
    """
    seed_parts = [(sum(p.seeds) / len(p.seeds), p.texts / 2, S) for p, _, S in parts if p.seeds]
    if not seed_parts:
        return math.nan
    V_a, R, S = np.mean(seed_parts, axis=0)
    df = systems * (S - 1)
    return math.sqrt(max(0.0, V_a * df / float(scipy.special.chdtri(df, 0.95)) - R) * S)

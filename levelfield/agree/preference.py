"""Metrics against choices between two texts: does a metric choose as people do?"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from levelfield.agree.design import CorrelateOptions
from levelfield.agree.join import chosen_names, merged_columns, note_of_groups, text_metrics
from levelfield.agree.sources import (
    Choices,
    ManyScores,
    file_names,
    read_choices,
    read_scores,
)
from levelfield.core.arrays import Codes, Floats
from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.signature import signature
from levelfield.core.strings import natural
from levelfield.io.comparisons import PairChoice
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.scores import ScoreColumn
from levelfield.io.tables import NONE, Table, TableColumn
from levelfield.scoring.standing import three_decimals
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.estimands import TieChoice
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.means import cluster_mean
from levelfield.stats.multiplicity import bonferroni, holm
from levelfield.stats.resampling import Resampling
from levelfield.stats.sign_flip import paired_differences, sign_flips
from levelfield.stats.ties import best_threshold

RATER = "(one rater)"
"""Stands in the place of a metric where one rater is held against the others."""

STATISTICS = ("decided", "accuracy", "calibrated")
"""The shares of pairs that a metric gets right, see `PairAgreement`."""

_TAKEN = ("mapping", "reading", "samples", "aspects", "metrics", "lower_is_better", "ties",
          "correction", "resampling")  # fmt: skip
"""Options of `correlate` that choices take as well."""


_COLUMNS = columns_of(
    "metric aspect a b statistic value:float low:float high:float n:int clusters:int "
    "why_undefined why_no_interval note"
)


class ChoicePair(NamedTuple):
    """Two texts and what their raters chose on an aspect.

    Attributes:
        a, b, sample_a, sample_b, prompt: as in `PairChoice`.
        outcomes: one a rater: 1 for a, 0 for b, 0.5 for a tie.
    """

    a: str
    b: str
    sample_a: str
    sample_b: str
    prompt: str
    outcomes: tuple[float, ...]

    @property
    def decision(self) -> int:
        """1 or −1 where more than half of all raters choose a or b; else 0."""
        half = len(self.outcomes) / 2
        return (self.outcomes.count(1.0) > half) - (self.outcomes.count(0.0) > half)


@dataclass(frozen=True)
class PairAgreement(Document):
    """How often a metric, or one rater, chooses as people do on an aspect.

    Attributes:
        metric: its name, or `RATER`.
        systems: the two whose pairs these are; empty for all pairs.
        pairs, decided: of which the metric has both values, and that people decide.
        estimates: name of a statistic -> its share. `decided` is that of decided pairs which the
            metric orders as people do, a tie of the metric counting one half. `accuracy` is that of
            all pairs on which the metric's order or tie is that of people, who tie what they do
            not decide. `calibrated` is the same where a difference of at most ε is a tie of the
            metric (Deutsch, Foster and Freitag 2023). `RATER` has `decided` only.
    """

    aspect: str
    metric: str
    systems: tuple[str, ...]
    pairs: int
    decided: int
    estimates: Mapping[str, Estimate]

    _entries = "aspect|null metric systems|null pairs decided_pairs=decided *estimates"


@dataclass(frozen=True)
class PairDifference(Document):
    """Two metrics on the decided pairs of which both have values.

    Attributes:
        difference: share of a less share of b.
        pairs: how many.
        p, p_adjusted: of equal shares, by sign flips of prompts, and adjusted over the aspect.
    """

    aspect: str
    a: str
    b: str
    pairs: int
    difference: float
    p: float
    p_adjusted: float = math.nan

    _entries = "aspect|null a b pairs difference p p_adjusted"


@dataclass(frozen=True, repr=False)
class PreferenceReport(Framed):
    """Agreement of metrics with people's choices.

    Attributes:
        agreements: by aspect, all pairs first, then by systems; the rater's last.
        differences: of every two metrics.
        notes: what a reader must know of the numbers.
        signature: every choice that could change a number.
        metrics: name -> signature.
        scores, choices: the files that they come from.
    """

    agreements: tuple[PairAgreement, ...]
    differences: tuple[PairDifference, ...]
    notes: tuple[str, ...]
    signature: str
    metrics: Mapping[str, str]
    scores: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    _entries = "scores choices signature metrics notes agreements differences"

    def _drawn(self) -> Sequence[Table]:
        return self.tables()

    def _frame(self) -> FrameRows:
        """One row a metric, aspect, two systems (null for all pairs) and statistic."""
        rows = [
            {
                "metric": g.metric,
                "aspect": g.aspect or None,
                "statistic": name,
                **dict(zip("ab", g.systems, strict=False)),
                **estimate.to_dict(),
            }
            for g in self.agreements
            for name, estimate in g.estimates.items()
        ]
        return _COLUMNS, rows

    def tables(self) -> list[Table]:
        """The tables that a terminal shows: shares, and differences of metrics, by aspect."""
        tables = []
        for aspect, several in itertools.groupby(self.agreements, key=lambda g: g.aspect):
            tables.append(self._shares(aspect, list(several)))
            if differences := [d for d in self.differences if d.aspect == aspect]:
                tables.append(_differences_table(aspect, differences))
        return tables

    def _shares(self, aspect: str, agreements: Sequence[PairAgreement]) -> Table:
        heads = ("decided", "95 % interval", "pairs", "accuracy", "calibrated", "all pairs")
        rows = [
            [
                g.metric,
                ", ".join(g.systems) or "all",
                three_decimals(g.estimates["decided"].value),
                three_decimals.ends(g.estimates["decided"]),
                f"{g.estimates['decided'].n:,}",
                *(three_decimals(g.estimates[s].value) if s in g.estimates else NONE
                  for s in STATISTICS[1:]),
                f"{g.pairs:,}",
            ]
            for g in agreements
        ]  # fmt: skip
        return Table(
            [
                TableColumn("metric", words=True, repeated=True),
                TableColumn("systems", words=True, repeated=True),
                *map(TableColumn, heads),
            ],
            rows,
            caption=f"metrics against choices{f' in {aspect}' if aspect else ''}",
            legend=[
                "decided: share of the pairs that most raters decide, ties of the metric one half",
                "accuracy, calibrated: share of all pairs, ties of people among them",
                f"{RATER}: choices of a side, where all other raters of the pair chose one side",
            ],
            signatures=[self.signature],
        )


def _differences_table(aspect: str, differences: Sequence[PairDifference]) -> Table:
    rows = [
        [f"{d.a}, {d.b}", f"{d.difference:+.3f}".replace("-", "−"), f"{d.pairs:,}",
         *(NONE if math.isnan(p) else f"{p:.2g}" for p in (d.p, d.p_adjusted))]
        for d in differences
    ]  # fmt: skip
    return Table(
        [TableColumn("metrics", words=True),
         *map(TableColumn, ("difference", "pairs", "p", "p adjusted"))],
        rows,
        caption=f"differences on decided pairs{f' in {aspect}' if aspect else ''}",
    )  # fmt: skip


@keywords(CorrelateOptions)
def preferences(
    scores: ManyScores,
    choices: Choices,
    chosen: CorrelateOptions | None = None,
    **words: Any,
) -> PreferenceReport:
    """Measures how often metrics choose between two texts as people do.

    People decide a pair where more than half of its raters, those who tie it among them, choose one
    side. A metric chooses the text with the higher value.

    Args:
        scores: as for `correlate`.
        choices: files, data frames or records of choices that name their texts, or what
            `load_comparisons` returns.
        chosen: of the options those of reading, names, direction, ties and resampling.
        words: options of `CorrelateOptions`, instead of those there.

    Undefined: a share of no pairs, such as that of decided ones where all are ties; `calibrated`
    with fewer than two clusters. A pair without one of its values is left out, and a note counts
    them.

    Raises:
        InputError: a file can't be read.
        UserError: a name that is not there, an option that choices do not take, choices without
            texts, a rater's second judgement of a pair, or no pair with values.

    >>> report = preferences("scores.jsonl", "choices.jsonl")  # doctest: +SKIP
    >>> report.agreements[0].estimates["decided"]  # doctest: +SKIP
    """
    chosen = CorrelateOptions.of(chosen, **words)
    _refuse(chosen)
    read = read_choices(
        choices, chosen.samples, format=chosen.reading.format, mapping=chosen.mapping
    )
    columns = {c.metric: c for c in merged_columns(read_scores(scores, mapping=chosen.mapping))}
    metrics, group_metrics = text_metrics(
        columns, chosen.metrics, lambda: {id for c in read for id in (c.sample_a, c.sample_b)}
    )
    lower = chosen.lower_is_better
    flipped = set(chosen_names("metric", list(columns), lower)) if lower else set()
    by_aspect = pairs_of(read)
    aspects = chosen_names("aspect", list(by_aspect), chosen.aspects)
    run = _Run(chosen.ties, chosen.resampling)
    agreements: list[PairAgreement] = []
    differences: list[PairDifference] = []
    notes = note_of_groups(group_metrics)
    adjust = holm if chosen.correction == "holm" else bonferroni
    for aspect in aspects:
        pairs = by_aspect[aspect]
        x = {m: _differences(pairs, columns[m], -1 if m in flipped else 1) for m in metrics}
        for metric, d in x.items():
            if missing := int(np.isnan(d).sum()):
                notes.append(
                    f"{aspect}: {missing:,} of {len(pairs):,} pairs are left out, as {metric} "
                    "has no value of a text or the same infinite one of both"
                )
        agreements += run.agreements(aspect, pairs, x)
        compared = [run.difference(aspect, pairs, x, a, b)
                    for a, b in itertools.combinations(metrics, 2)]  # fmt: skip
        adjusted = adjust([d.p for d in compared]).tolist()
        differences += [replace(d, p_adjusted=p) for d, p in zip(compared, adjusted, strict=True)]
    if all(not g.pairs for g in agreements if g.metric != RATER):
        raise UserError(
            "no pair of the choices has values of both its texts; ids of the scores must be "
            "sample_a and sample_b of the choices"
        )
    r = chosen.resampling
    return PreferenceReport(
        tuple(agreements),
        tuple(differences),
        tuple(notes),
        signature(
            "correlate-choices",
            {
                "decided": "majority",
                "ties": chosen.ties,
                "flip": ",".join(sorted(flipped)) or "none",
                "interval": f"{r.level:g}",
                "permutations": r.permutations,
                "correction": chosen.correction,
                "seed": r.seed,
            },
        ),
        {m: columns[m].signature for m in metrics},
        file_names(scores),
        file_names(choices),
    )


def _refuse(chosen: CorrelateOptions) -> None:
    usual = CorrelateOptions()
    for name in (field.name for field in fields(chosen)):
        if name not in _TAKEN and getattr(chosen, name) != getattr(usual, name):
            raise UserError(f"{name}: choices between two texts do not accept this option")


def pairs_of(choices: Iterable[PairChoice]) -> dict[str, list[ChoicePair]]:
    """Returns aspect -> its pairs, in the order of their first choices.

    Choices of an item between the same two texts are of one pair, in whatever order they have them.

    Raises:
        UserError: there are none, a choice names no texts, or a rater has two judgements of a pair.
    """
    pairs: dict[tuple[str, str, frozenset[str]], ChoicePair] = {}
    seen: Counter[tuple[object, str]] = Counter()
    for c in choices:
        if not (c.sample_a and c.sample_b):
            raise UserError(
                f"a choice between {c.a} and {c.b} names no texts; scores are of texts, so choices "
                "need sample_a and sample_b"
            )
        key = (c.aspect, c.item, frozenset((c.sample_a, c.sample_b)))
        seen[key, c.rater] += 1
        if c.rater and seen[key, c.rater] > 1:
            raise UserError(
                f"rater {c.rater} has two judgements of {c.sample_a} and {c.sample_b}"
                f"{f' on {c.aspect}' if c.aspect else ''}; keep one of them"
            )
        pair = pairs.setdefault(
            key, ChoicePair(c.a, c.b, c.sample_a, c.sample_b, c.prompt or c.item, ())
        )
        outcome = c.outcome if pair.sample_a == c.sample_a else 1 - c.outcome
        pairs[key] = pair._replace(outcomes=(*pair.outcomes, outcome))
    if not pairs:
        raise UserError("there are no choices")
    by_aspect: dict[str, list[ChoicePair]] = {}
    for (aspect, _, _), pair in pairs.items():
        by_aspect.setdefault(aspect, []).append(pair)
    return by_aspect


def _differences(pairs: Sequence[ChoicePair], column: ScoreColumn, sign: int) -> Floats:
    """(pairs,) the sign times value of a less value of b."""
    a, b = (
        np.array([column.values.get(getattr(p, side), math.nan) for p in pairs])
        for side in ("sample_a", "sample_b")
    )
    with np.errstate(invalid="ignore"):  # of two infinite values
        return np.asarray(sign * paired_differences(a, b))


def judgements_of_raters(pairs: Sequence[ChoicePair]) -> Iterator[tuple[ChoicePair, float]]:
    """Yields each choice of a side whose pair has other raters who all choose one side: the pair,
    and 1 where it is the same side, else 0. A rater's tie does not count.
    """
    for pair in pairs:
        for n, outcome in enumerate(pair.outcomes):
            others = {*pair.outcomes[:n], *pair.outcomes[n + 1 :]}
            if outcome != 0.5 and len(others) == 1 and others != {0.5}:
                yield pair, float(outcome in others)


@dataclass(frozen=True)
class _Run:
    ties: TieChoice
    resampling: Resampling

    def agreements(
        self, aspect: str, pairs: Sequence[ChoicePair], x: Mapping[str, Floats]
    ) -> Iterator[PairAgreement]:
        systems = [tuple(sorted({p.a, p.b}, key=natural)) for p in pairs]
        groups: list[tuple[str, ...]] = [
            (),
            *sorted(set(systems), key=lambda s: [*map(natural, s)]),
        ]
        for group in groups if len(groups) > 2 else groups[:1]:
            rows = [n for n, names in enumerate(systems) if group in ((), names)]
            members = [pairs[n] for n in rows]
            for metric, d in x.items():
                yield self._metric_agreement(aspect, metric, group, members, d[rows])
            judged = [*judgements_of_raters(members)]
            right = np.array([value for _, value in judged])
            bound = self._share(right, np.array([p.prompt for p, _ in judged]))
            decided = sum(p.decision != 0 for p in members)
            yield PairAgreement(aspect, RATER, group, len(members), decided, {"decided": bound})

    def _metric_agreement(
        self, aspect: str, metric: str, group: tuple[str, ...], pairs: Sequence[ChoicePair],
        d: Floats,
    ) -> PairAgreement:  # fmt: skip
        defined = ~np.isnan(d)
        prompts = np.array([p.prompt or f"{n}" for n, p in enumerate(pairs)])[defined]
        people, d = _decisions(pairs)[defined], d[defined]
        decided = people != 0
        estimates = {
            "decided": self._share(_right(d, people)[decided], prompts[decided]),
            "accuracy": self._share((np.sign(d) == people).astype(float), prompts),
            "calibrated": self._calibrated(d, people, prompts),
        }
        return PairAgreement(aspect, metric, group, d.size, int(decided.sum()), estimates)

    def _share(self, right: Floats, clusters: np.ndarray[Any, Any]) -> Estimate:
        if not right.size:
            return undefined("no such pair", n=0, clusters=0)
        return cluster_mean(right, clusters, votes=2, level=self.resampling.level)

    def _calibrated(self, d: Floats, people: Codes, prompts: np.ndarray[Any, Any]) -> Estimate:
        """Held out as `levelfield.stats.ties.calibrated` does it: one half of the prompts chooses
        the threshold of the other.
        """
        K, code = coded(prompts)
        in_sample = self.ties == "in-sample"
        if K < 2 and not (in_sample and d.size):
            return undefined("too few prompts to hold pairs out", n=d.size, clusters=K)
        shuffled = np.random.default_rng(self.resampling.seed).permutation(K)
        first = np.isin(code, shuffled[: K // 2]) & (not in_sample)
        right, thresholds = np.empty(d.size), []
        for half, others in ((first, ~first), (~first, first | in_sample)):
            if half.any():
                ε = best_threshold(
                    np.abs(d[others]), d[others] * people[others] > 0, people[others] == 0
                )
                sign = np.where(np.abs(d[half]) <= ε, 0, np.sign(d[half]))
                right[half] = sign == people[half]
                thresholds.append(f"{ε:.3g}")
        note = f"tie threshold {' and '.join(thresholds)}"
        e = replace(self._share(right, prompts), note=note)
        reason = "its threshold is chosen on the same pairs"
        return replace(e, low=math.nan, high=math.nan, why_no_interval=reason) if in_sample else e

    def difference(
        self, aspect: str, pairs: Sequence[ChoicePair], x: Mapping[str, Floats], a: str, b: str
    ) -> PairDifference:
        people = _decisions(pairs)
        rows = np.flatnonzero((people != 0) & ~np.isnan(x[a]) & ~np.isnan(x[b]))
        if not rows.size:
            return PairDifference(aspect, a, b, 0, math.nan, math.nan)
        d = _right(x[a][rows], people[rows]) - _right(x[b][rows], people[rows])
        K, code = coded(np.array([pairs[n].prompt or f"{n}" for n in rows.tolist()]))
        sums = (cluster_sums(v, code, K)[:, None] for v in (d, np.ones(d.size)))
        p = float(sign_flips(*sums, resampling=self.resampling).p[0])
        return PairDifference(aspect, a, b, d.size, float(d.mean()), p)


def _decisions(pairs: Sequence[ChoicePair]) -> Codes:
    return np.array([p.decision for p in pairs], dtype=np.intp)


def _right(d: Floats, people: Codes) -> Floats:
    """(n,) 1 where the metric chooses as people, ½ where it ties, else 0."""
    return np.asarray((1 + np.sign(d) * people) / 2)

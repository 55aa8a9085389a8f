"""Means of ratings that few texts have, with the help of scores that all texts have."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from levelfield.agree.design import EstimateOptions
from levelfield.agree.draw import Design, DrawnText, design_of, drawn_texts
from levelfield.agree.join import UNNAMED, RatedScores, chosen_names, join, merged_columns
from levelfield.agree.sources import (
    ManyScores,
    Ratings,
    file_names,
    read_all,
    read_samples,
    read_scores,
)
from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.signature import signature
from levelfield.core.strings import natural
from levelfield.io import Rated
from levelfield.io.arguments import is_given
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.tables import Table, TableColumn
from levelfield.scoring.standing import Scale, scale_for
from levelfield.stats.estimate import Estimate, finite
from levelfield.stats.multiplicity import holm
from levelfield.stats.prediction_powered import (
    PoweredEstimate,
    PoweredMean,
    difference_of,
    estimate_of,
    powered_mean,
)

ALL_TEXTS = "all texts"
"""The name of the row of all systems together."""

LEVEL = 0.95
"""Of the intervals."""

WORTH = 1.1
"""A metric whose scores are worth fewer ratings than this, over those there are, adds little."""

_FAR = 3.5
"""Standard errors that a random draw does not differ by: p is 0.0005."""

_COLUMNS = columns_of(
    "aspect metric a b rated:int texts:int unscored:int ratings_alone:float "
    "ratings_alone_low:float ratings_alone_high:float value:float low:float high:float "
    "weight:float effective:float p:float p_adjusted:float why_undefined why_no_interval"
)


_POWERED = (
    "effective=estimate.effective ratings_alone=estimate.people prediction_powered=estimate.powered"
)
"""Entries of documents that have a `PoweredEstimate`."""


@dataclass(frozen=True)
class SystemEstimate(Document):
    """The mean rating of a system on an aspect, with the help of a metric.

    Attributes:
        system: its name; `ALL_TEXTS` for all texts together.
        estimate: from the ratings alone, and prediction-powered.
        weight: of the scores, λ.
        rated, texts, unscored: numbers of texts: with a rating, all of them, and without a score.
        imbalance: see `PoweredMean`.
    """

    metric: str
    aspect: str
    system: str
    estimate: PoweredEstimate
    weight: float
    rated: int
    texts: int
    unscored: int
    imbalance: float

    _entries = f"metric aspect system=_name rated texts unscored weight {_POWERED}"

    @property
    def gain(self) -> float:
        """Ratings alone that would have the interval, over the ratings there are."""
        return self.estimate.effective / self.rated if self.rated else math.nan

    @property
    def _name(self) -> str | None:
        return None if self.system == ALL_TEXTS else self.system


@dataclass(frozen=True)
class SystemDifference(Document):
    """The difference a − b of the mean ratings of two systems.

    Attributes:
        p_adjusted: Holm, over the differences on the aspect with the metric.
    """

    metric: str
    aspect: str
    a: str
    b: str
    estimate: PoweredEstimate
    p_adjusted: float

    _entries = f"metric aspect a b {_POWERED} p=estimate.p p_adjusted"


@dataclass(frozen=True, repr=False)
class Estimation(Framed):
    """Mean ratings with the help of scores.

    Attributes:
        means: by aspect and metric, all texts together last.
        differences: of every two systems, by aspect and metric.
        signature: every choice that could change a number.
        notes: what a reader must know of the numbers.
        design: how the rated texts were drawn, in words.
        drawn: texts to rate next; empty if none were asked for.
        scores, ratings: the files.
    """

    means: tuple[SystemEstimate, ...]
    differences: tuple[SystemDifference, ...]
    signature: str
    notes: tuple[str, ...]
    design: str
    drawn: tuple[DrawnText, ...] = ()
    scores: tuple[str, ...] = ()
    ratings: tuple[str, ...] = ()

    _entries = "scores ratings signature notes design means differences next=drawn"

    def _drawn(self) -> Sequence[Table]:
        return self.tables()

    def _frame(self) -> FrameRows:
        """One row a mean, and one a difference of systems, which has `b`.

        `value`, `low` and `high` are prediction-powered; `a` is null for all texts together.
        """
        means = [{**m.to_dict(), "a": m._name, **_columns(m.estimate)} for m in self.means]
        differences = [{**d.to_dict(), **_columns(d.estimate)} for d in self.differences]
        return _COLUMNS, [*means, *differences]

    def tables(self) -> list[Table]:
        """The tables that a terminal shows: means and differences of each aspect and metric."""
        tables = []
        for (aspect, metric), group in itertools.groupby(
            self.means, key=lambda m: (m.aspect, m.metric)
        ):
            means = list(group)
            differences = [d for d in self.differences if (d.aspect, d.metric) == (aspect, metric)]
            scale = _scale([*means, *differences])
            tables.append(self._means_table(means, f"{aspect} with {metric}", scale))
            if differences:
                tables.append(self._differences_table(differences, scale))
        return [*tables, *([self._draw_table()] if self.drawn else [])]

    def _means_table(self, means: Sequence[SystemEstimate], caption: str, scale: Scale) -> Table:
        rows = [
            [
                m.system,
                f"{m.rated:,} of {m.texts:,}",
                *_ends(m.estimate, scale),
                _count(m.estimate.effective),
                _weight(m.weight),
            ]
            for m in means
        ]
        heads = ("rated", *_HEADS, "worth", "λ")
        return Table(
            [TableColumn("system", words=True), *map(TableColumn, heads)],
            rows,
            caption=caption,
            legend=[
                "worth: ratings that would have this interval without scores",
                "λ: weight of the scores",
                self.design,
            ],
            signatures=[self.signature],
        )

    def _differences_table(self, differences: Sequence[SystemDifference], scale: Scale) -> Table:
        rows = [
            [f"{d.a} − {d.b}", *_ends(d.estimate, scale), _p(d.p_adjusted)] for d in differences
        ]
        return Table(
            [TableColumn("systems", words=True), *map(TableColumn, (*_HEADS, "p (Holm)"))],
            rows,
            caption=f"differences of {differences[0].aspect} with {differences[0].metric}",
            legend=["intervals are not adjusted for the number of differences"],
        )

    def _draw_table(self) -> Table:
        drawn: dict[tuple[str, int], list[DrawnText]] = {}
        for text in self.drawn:
            drawn.setdefault((text.system, text.stratum), []).append(text)
        rows = [
            [system or ALL_TEXTS, str(stratum or "no score"), f"{len(texts):,}",
             f"{texts[0].inclusion_probability:.3g}"]
            for (system, stratum), texts in sorted(drawn.items())
        ]  # fmt: skip
        heads = (
            TableColumn("stratum", words=True),
            *map(TableColumn, ("drawn", "probability")),
        )
        return Table(
            [TableColumn("system", words=True), *heads],
            rows,
            caption=f"texts to rate next, by {self.drawn[0].metric}",
            legend=["stratum 1 has the lowest scores", "probability: of being rated by then"],
        )


_INTERVAL = f"{100 * LEVEL:g} % interval"
_HEADS = ("ratings alone", _INTERVAL, "prediction-powered", _INTERVAL)


def _scale(estimates: Sequence[SystemEstimate | SystemDifference]) -> Scale:
    several = [e for m in estimates for e in (m.estimate.people, m.estimate.powered)]
    return scale_for(
        [e.value for e in several if not e.why_undefined],
        [(e.high - e.low) / 2 for e in several if e.high > e.low],
    )


def _ends(estimate: PoweredEstimate, scale: Scale) -> list[str]:
    return [
        text
        for e in (estimate.people, estimate.powered)
        for text in (scale(e.value), scale.ends(e))
    ]


def _weight(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}".replace("-", "−")


def _count(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:,.0f}"


def _p(value: float) -> str:
    return "–" if math.isnan(value) else "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def _columns(estimate: PoweredEstimate) -> dict[str, Any]:
    people, powered = estimate.people, estimate.powered
    return {
        "ratings_alone": finite(people.value),
        "ratings_alone_low": finite(people.low),
        "ratings_alone_high": finite(people.high),
        "value": finite(powered.value),
        "low": finite(powered.low),
        "high": finite(powered.high),
        "why_undefined": powered.why_undefined or None,
        "why_no_interval": powered.why_no_interval or None,
    }


@keywords(EstimateOptions)
def estimate(
    scores: ManyScores,
    ratings: Ratings | None = None,
    chosen: EstimateOptions | None = None,
    **words: Any,
) -> Estimation:
    """Estimates mean ratings, and their differences between systems, from ratings and scores.

    Few texts are rated, and all are scored by a metric or a judge. Estimates are
    prediction-powered (see `levelfield.stats.prediction_powered.powered_mean`): the scores sharpen
    the mean of the ratings as far as they go along with them. The rated texts are a random draw of
    the scored ones, or their ratings say with which probability they were drawn.

    Args:
        scores: as for `correlate`; their texts are those that the means are over.
        ratings: as for `correlate`; None where texts are drawn that are the first to be rated.
        chosen: which means are estimated, and which texts are to be rated next.
        words: options of `EstimateOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: a name that is not there, no id in common, ratings of a draw by other scores,
            or a probability that is none.

    >>> estimation = estimate("s.jsonl", "rated.jsonl", samples="t.jsonl")  # doctest: +SKIP
    >>> estimation.means[0].estimate.powered  # doctest: +SKIP
    """
    chosen = EstimateOptions.of(chosen, **words)
    if not chosen.next:
        chosen.refuse(("strata", "seed"), "estimates without --next, which draw no texts,")
    if is_given(ratings):
        columns, rated, samples = read_all(
            scores, cast(Ratings, ratings), chosen.samples,
            format=chosen.reading.format, mapping=chosen.mapping,
        )  # fmt: skip
    elif not chosen.next:
        raise UserError("no ratings; give some with --ratings, or draw texts to rate with --next")
    else:
        columns = read_scores(scores, mapping=chosen.mapping)
        rated, samples = Rated((), {}), read_samples(chosen.samples, mapping=chosen.mapping)
    table = join(
        merged_columns(columns), rated, aspects=chosen.aspects, samples=samples, unrated=True
    )
    finite = {name: np.where(np.isfinite(f), f, math.nan) for name, f in table.metrics.items()}
    table = replace(table, metrics=finite)  # a mean takes no infinite score
    metrics = chosen_names("metric", list(table.metrics), chosen.metrics)
    systems = np.where(table.systems == "", UNNAMED, table.systems)
    if not np.any(table.systems != ""):
        systems[:] = ""
    design = design_of(table, rated.samples, systems)
    means, differences = _estimates(table, metrics, systems, design)
    notes = [*table.notes, *design.notes, *_notes(means)]
    drawn: tuple[DrawnText, ...] = ()
    if chosen.next:
        drawn = drawn_texts(table, metrics, systems, design, rated.samples, chosen)
    return Estimation(
        means=means,
        differences=differences,
        signature=signature(
            "estimate",
            {
                "weight": "tuned",
                "design": design.name,
                "interval": f"{LEVEL:g}",
                "errors": "jackknife",
                "correction": "holm",
            },
        ),
        notes=tuple(notes),
        design=design.words,
        drawn=drawn,
        scores=file_names(scores),
        ratings=file_names(ratings),
    )


def _estimates(
    table: RatedScores, metrics: Sequence[str], systems: np.ndarray[Any, Any], design: Design
) -> tuple[tuple[SystemEstimate, ...], tuple[SystemDifference, ...]]:
    names = sorted(set(systems.tolist()), key=natural)
    names = names if len(names) > 1 or names != [""] else []
    rows_of = {name: systems == name for name in names}
    if len(names) != 1:
        rows_of[ALL_TEXTS] = np.ones(len(systems), dtype=np.bool_)
    means: list[SystemEstimate] = []
    differences: list[SystemDifference] = []
    for aspect, metric in itertools.product(table.aspects, metrics):
        y, f = table.aspects[aspect], table.metrics[metric]
        w = design.weights(~np.isnan(y))
        by_system: Mapping[str, PoweredMean] = {
            name: powered_mean(
                y[rows], f[rows], table.clusters[rows], None if w is None else w[rows]
            )
            for name, rows in rows_of.items()
        }
        for name, mean in by_system.items():
            texts = int(rows_of[name].sum())
            means.append(
                SystemEstimate(
                    metric, aspect, name, estimate_of(mean, level=LEVEL), mean.weight,
                    mean.rated, texts, texts - mean.scored, mean.imbalance,
                )
            )  # fmt: skip
        pairs = list(itertools.combinations(names, 2))
        compared = [difference_of(by_system[a], by_system[b], level=LEVEL) for a, b in pairs]
        adjusted = holm([e.p for e in compared]).tolist()
        differences += [
            SystemDifference(metric, aspect, a, b, e, p)
            for (a, b), e, p in zip(pairs, compared, adjusted, strict=True)
        ]
    return tuple(means), tuple(differences)


def _notes(means: Sequence[SystemEstimate]) -> list[str]:
    """What the numbers of all texts say of each metric, and why numbers are missing."""
    notes: dict[str, None] = {}
    for (aspect, metric), group in itertools.groupby(means, key=lambda m: (m.aspect, m.metric)):
        rows = list(group)
        total = rows[-1]
        if total.unscored:
            text = f"{metric}: {total.unscored:,} of {total.texts:,} texts have no score; "
            notes[f"{text}they count with the mean score"] = None
        if total.gain < WORTH:
            weight = _weight(total.weight)
            notes[
                f"{aspect}: {metric} adds little (λ = {weight}): its scores and {total.rated:,} "
                f"ratings are worth {_count(total.estimate.effective)} ratings alone"
            ] = None
        for row in rows:
            if abs(row.imbalance) > _FAR:
                notes[
                    f"{aspect}, {row.system}: the rated texts differ from the others in {metric} "
                    f"by {abs(row.imbalance):.1f} standard errors; they are not a random draw, and "
                    "intervals that assume one do not hold"
                ] = None
            people, powered = _reason(row.estimate.people), _reason(row.estimate.powered)
            if people and people == powered:
                notes[f"{aspect}, {row.system}: {people}"] = None
            else:
                for reason, name in ((people, "ratings alone"), (powered, metric)):
                    if reason:
                        notes[f"{aspect}, {row.system}, {name}: {reason}"] = None
    return list(notes)


def _reason(e: Estimate) -> str:
    if e.why_undefined:
        return e.why_undefined
    return f"no interval: {e.why_no_interval}" if e.why_no_interval else ""

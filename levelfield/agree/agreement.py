"""Agreement of raters on what they rated: by aspect, by part of the study, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from levelfield.agree.choices import are_choices, as_ratings
from levelfield.agree.design import AgreementOptions
from levelfield.agree.join import merged_columns, note_of_groups
from levelfield.agree.judge import JudgeTest, judge_table, judge_tests
from levelfield.agree.sources import (
    Choices,
    Ratings,
    RatingTable,
    Standardised,
    file_names,
    parts_of,
    rating_table,
    ratings_on,
    read_choices,
    read_ratings,
    read_scores,
    split,
    z_scores,
)
from levelfield.core.arrays import Floats
from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.sample import Sample
from levelfield.core.signature import signature
from levelfield.io import Rated, Rating
from levelfield.io.arguments import items_of
from levelfield.io.comparisons import PairChoice
from levelfield.io.frames import Framed, FrameRows, columns_of
from levelfield.io.scores import is_of_scores
from levelfield.io.tables import NONE, Table, TableColumn
from levelfield.scoring.standing import three_decimals
from levelfield.scoring.summary import OVERALL
from levelfield.stats.estimands import Measurement
from levelfield.stats.estimate import Estimate, undefined
from levelfield.stats.gwet import MOST_VALUES, gwet_ac
from levelfield.stats.icc import intraclass
from levelfield.stats.krippendorff import krippendorff_alpha, mean_alpha
from levelfield.stats.means import cluster_mean
from levelfield.stats.rater_pairs import PairEstimates, rater_pairs
from levelfield.stats.resampling import DEFAULT, Resampling

MEAN_OF_ASPECTS = "mean of aspects"
"""The name of the group whose α is the mean of those of the aspects."""

_ICC = ("ICC(1,1)", "ICC(2,1)", "ICC(3,1)", "ICC(2,k)")
"""The intraclass correlations of the LaTeX table."""

_COLUMNS = columns_of(
    "aspect part measure a b value:float low:float high:float n:int clusters:int undefined "
    "no_interval note"
)


_REASONS = {"why_undefined": "undefined", "why_no_interval": "no_interval"}
"""Entries of an estimate -> their names in documents of agreement."""


class _RaterDocument(Document):
    """Base of documents whose estimates name their reasons by `_REASONS`."""

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON document; a number that is not finite is None."""
        return _renamed(super().to_dict())  # type: ignore[no-any-return]


def _renamed(document: Any) -> Any:
    match document:
        case dict():
            return {_REASONS.get(name, name): _renamed(v) for name, v in document.items()}
        case list():
            return [_renamed(item) for item in document]
        case _:
            return document


@dataclass(frozen=True)
class RaterPair(_RaterDocument):
    """Two raters on the items that both rated.

    Attributes:
        a, b: the raters.
        items: how many items both rated.
        pearson, spearman: correlations.
        kappa: Cohen's κ, without weights for nominal ratings, else with quadratic ones.
    """

    a: str
    b: str
    items: int
    pearson: Estimate
    spearman: Estimate
    kappa: Estimate


@dataclass(frozen=True)
class RaterSummary(Document):
    """How one rater used the scale.

    Attributes:
        n: how many ratings.
        mean, sd: sd with n − 1; NaN for one rating.
        low, high: the lowest and the highest rating.
    """

    rater: str
    n: int
    mean: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement(_RaterDocument):
    """Agreement on one aspect within one part.

    Attributes:
        aspect: its name, or `MEAN_OF_ASPECTS`, which has an α and nothing of pairs or raters: in
            one table with all aspects, raters would agree on which aspect they rate.
        part: which part of the samples, e.g. a survey; `OVERALL` for all of them.
        items: samples on an aspect with at least one rating.
        ratings: how many.
        alpha: Krippendorff's.
        ac: Gwet's AC1 of nominal ratings, else AC2; None of the mean of aspects, and of ratings
            with more than `MOST_VALUES` different values.
        icc: the six of `intraclass`, by name; none of the mean of aspects.
        pairs: every two raters who rated an item in common.
        raters: by name.
        ties: share of judgements that are ties; of choices only.
    """

    aspect: str
    part: str
    items: int
    ratings: int
    alpha: Estimate
    icc: Mapping[str, Estimate]
    pairs: tuple[RaterPair, ...]
    raters: tuple[RaterSummary, ...]
    ties: Estimate | None = None
    ac: Estimate | None = None

    _entries = "aspect part items ratings alpha ac? icc pairs raters ties?"

    def estimates(self) -> Iterator[tuple[str, str, str, Estimate]]:
        """Name of the measure, the two raters where it is of two, and the estimate."""
        yield "alpha", "", "", self.alpha
        if self.ac:
            yield "ac", "", "", self.ac
        if self.ties:
            yield "ties", "", "", self.ties
        for name, e in self.icc.items():
            yield name, "", "", e
        for p in self.pairs:
            for name, e in (("pearson", p.pearson), ("spearman", p.spearman), ("kappa", p.kappa)):
                yield name, p.a, p.b, e


@dataclass(frozen=True)
class Disagreement(Document):
    """An item that raters disagree on.

    Attributes:
        variance: of its ratings, with m − 1.
        values: rater -> rating.
    """

    id: str
    aspect: str
    part: str
    variance: float
    values: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class AgreementReport(Framed):
    """Agreement of raters, part by part.

    Attributes:
        groups: by aspect, then by part; the group of all comes last.
        worst: the items with the largest variance, the largest first.
        signature: every choice that could change a number.
        z_scores: the ratings, standardised by rater; see `ratings.z_scores`.
        by, level: as for `agreement`.
        confidence: level of the intervals.
        files: where the ratings come from.
        judges: whether judges may stand in for raters; empty if no scores were given.
        choices: whether raters chose between two texts; the groups then have no more than α, ties
            and the κ of pairs of raters.
        nameless: whether the choices name no raters.
        notes_of_ratings: what a reader must know of the ratings, such as what is left out.
    """

    groups: tuple[Agreement, ...]
    worst: tuple[Disagreement, ...]
    signature: str
    z_scores: tuple[Standardised, ...] = field(repr=False, compare=False)
    by: str = ""
    level: Measurement = "interval"
    confidence: float = 0.95
    files: tuple[str, ...] = ()
    judges: tuple[JudgeTest, ...] = ()
    choices: bool = False
    nameless: bool = False
    notes_of_ratings: tuple[str, ...] = ()

    _entries = "files by|null level signature notes=notes_of_ratings? groups worst judges?"

    def _drawn(self) -> Sequence[Table]:
        return self.tables()

    def _frame(self) -> FrameRows:
        """One row an aspect, part and measure; of measures of two raters, one a pair. Measures of a
        judge have its name in `a`.

        `value`, `low` and `high` are null where `undefined` or `no_interval` gives a reason.
        """
        rows = [
            {
                "aspect": g.aspect,
                "part": g.part,
                "measure": measure,
                "a": a or None,
                "b": b or None,
                **_renamed(estimate.to_dict()),
            }
            for g in self.groups
            for measure, a, b, estimate in g.estimates()
        ]
        rows += [
            {
                "aspect": j.aspect,
                "part": OVERALL,
                "measure": measure,
                "a": j.metric,
                "b": None,
                **_renamed(estimate.to_dict()),
            }
            for j in self.judges
            for measure, estimate in j.estimates()
        ]
        return _COLUMNS, rows

    def to_latex(self) -> str:
        """A booktabs table: Krippendorff's α and intraclass correlations, a row a group.

        A dash is an undefined value.
        """
        numbers = ["α", self._interval, *_ICC, "items"]
        rows = [
            [
                *self._place(g),
                *_with_ends(g.alpha),
                *(_values(g.icc[n] for n in _ICC) if g.icc else [NONE] * len(_ICC)),
                g.alpha.n,
            ]
            for g in self.groups
        ]
        table = self._table(
            [TableColumn(name) for name in numbers],
            rows,
            caption=f"agreement of raters: Krippendorff's α ({self.level}) with its interval, and "
            "intraclass correlations of one rating and of the mean of k",
            signatures=[self.signature],
        )
        return table.to_latex() + "\n"

    def tables(self) -> list[Table]:
        """The tables that a terminal shows, each with its caption: α, intraclass correlations,
        pairs of raters, raters, and the items of the largest disagreement.

        Of each group the first `MOST_PAIRS` pairs of raters are shown; JSON has all.
        """
        if self.choices:
            return self._choice_tables()
        kappa = "κ" if self.level == "nominal" else "κ, quadratic"
        names = TableColumn("raters", words=True, repeated=True)
        return [
            self._table(
                map(TableColumn, (*self._coefficients, "items", "clusters")),
                [[*self._values_of_group(g), g.alpha.n, g.alpha.clusters] for g in self.groups],
                caption=f"Krippendorff's α and Gwet's {self._ac_name} ({self.level}), items with "
                "two ratings or more",
            ),
            self._intraclass_table(),
            self._table(
                [names, *map(TableColumn, ("r", self._interval, "ρ", kappa, "items"))],
                [
                    [
                        *self._place(g),
                        f"{p.a}, {p.b}",
                        *_with_ends(p.pearson),
                        *_values((p.spearman, p.kappa)),
                        p.items,
                    ]
                    for g in self.groups
                    for p in g.pairs[:MOST_PAIRS]
                ],
                caption="two raters, on the items both rated",
            ),
            self._table(
                [
                    replace(names, name="rater"),
                    *map(TableColumn, ("ratings", "mean", "sd", "lowest", "highest")),
                ],
                [
                    [
                        *self._place(g),
                        r.rater,
                        r.n,
                        *map(_four_digits, (r.mean, r.sd)),
                        *map(_rating, (r.low, r.high)),
                    ]
                    for g in self.groups
                    for r in g.raters
                ],
                caption="raters",
            ),
            *([judge_table(self.judges)] if self.judges else []),
            *([self._worst_table()] if self.worst else []),
        ]

    def _choice_tables(self) -> list[Table]:
        heads = (
            *self._coefficients, "pairs", "clusters", "judgements", "ties", self._interval
        )  # fmt: skip
        alphas = self._table(
            map(TableColumn, heads),
            [
                [*self._values_of_group(g), g.alpha.n, g.alpha.clusters, g.ratings,
                 *(_with_ends(g.ties) if g.ties else (NONE, NONE))]
                for g in self.groups
            ],
            caption="Krippendorff's α and Gwet's AC1 of choices (nominal), pairs with two "
            "judgements or more",
        )  # fmt: skip
        kappas = [
            [*self._place(g), f"{p.a}, {p.b}", *_with_ends(p.kappa), p.items]
            for g in self.groups
            for p in g.pairs[:MOST_PAIRS]
        ]
        raters = TableColumn("raters", words=True, repeated=True)
        columns = [raters, *map(TableColumn, ("κ", self._interval, "pairs"))]
        caption = "two raters, on the pairs both judged"
        return [alphas, *([self._table(columns, kappas, caption=caption)] if kappas else [])]

    def _intraclass_table(self) -> Table:
        """Returns a row a group; of the only group, a row a coefficient, with its interval."""
        caption = "intraclass correlations, complete items: one rating, and the mean of k"
        if len(self.groups) == 1:
            (group,) = self.groups
            return self._table(
                [
                    TableColumn("ICC", words=True, repeated=True),
                    *map(TableColumn, ("value", self._interval, "items")),
                ],
                [[*self._place(group), n, *_with_ends(e), e.n] for n, e in group.icc.items()],
                caption=caption,
            )
        names = list(self.groups[0].icc)
        return self._table(
            [*(TableColumn(name.removeprefix("ICC")) for name in names), TableColumn("items")],
            [
                [
                    *self._place(g),
                    *_values(g.icc[name] for name in names),
                    g.icc["ICC(2,1)"].n or g.icc["ICC(1,1)"].n,
                ]
                for g in self.groups
                if g.icc
            ],
            caption=caption,
        )

    def _worst_table(self) -> Table:
        heads = [TableColumn(name, words=name != "variance") for name in _WORST]
        rows = [
            [
                d.aspect,
                d.id,
                _rating(d.variance),
                ", ".join(f"{rater}: {_rating(value)}" for rater, value in d.values.items()),
            ]
            for d in self.worst
        ]
        return Table(heads, rows, caption="largest disagreements")

    def _table(
        self,
        columns: Iterable[TableColumn],
        rows: Sequence[Sequence[object]],
        *,
        caption: str,
        signatures: Sequence[str] = (),
    ) -> Table:
        """Returns a table of groups, whose first cells are `_place`."""
        by = [TableColumn(self.by, words=True, repeated=True)] if self.by else []
        return Table(
            [TableColumn("aspect", words=True), *by, *columns],
            [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows],
            caption=caption,
            signatures=signatures,
        )

    @property
    def _interval(self) -> str:
        return f"{100 * self.confidence:g} % interval"

    @property
    def _ac_name(self) -> str:
        return "AC1" if self.level == "nominal" else "AC2"

    @property
    def _coefficients(self) -> tuple[str, ...]:
        """The heads of the columns of `_values_of_group`."""
        return ("α", self._interval, self._ac_name, self._interval)

    def _values_of_group(self, group: Agreement) -> list[str]:
        ac = _with_ends(group.ac) if group.ac else (NONE, NONE)
        return [*self._place(group), *_with_ends(group.alpha), *ac]

    def _place(self, group: Agreement) -> list[str]:
        return [group.aspect, *([group.part] if self.by else [])]

    def notes(self) -> list[str]:
        """What the tables leave out and why numbers are missing, each reason once with the places
        where it holds."""
        dropped = sum(max(0, len(g.pairs) - MOST_PAIRS) for g in self.groups)
        where: dict[str, list[str]] = {}
        for g in self.groups:
            place = f"{g.aspect}, {self.by} {g.part}" if self.by else g.aspect
            for measure, a, b, e in g.estimates():
                if self.choices and measure in ("pearson", "spearman"):
                    continue
                name = _SYMBOLS.get(measure, measure) + (f" of {a}, {b}" if a else "")
                only_value = e.why_no_interval and not e.why_undefined
                no_interval = f"no interval: {e.why_no_interval}" if only_value else ""
                for reason in filter(None, (e.why_undefined, no_interval, e.note)):
                    where.setdefault(f"{name}: {reason}", []).append(place)
        if len(self.groups) == 1 and any(e.clusters < e.n for e in self.groups[0].icc.values()):
            where["ICC: the intervals suppose independent items, and these share sources"] = [place]
        reasons = [
            f"{remark} ({'; '.join(dict.fromkeys(places[:3]))}{'; …' if len(places) > 3 else ''})"
            for remark, places in where.items()
        ]
        more = [*self.notes_of_ratings]
        more += [f"{dropped:,} more pairs of raters are in --json"] * bool(dropped)
        if self.nameless:
            more.append(
                "the choices name no raters: α takes each judgement as that of another rater"
            )
        return [*more, *(note for judge in self.judges for note in judge.notes()), *reasons]


MOST_PAIRS = 15
"""The most pairs of raters of a group that tables show."""

_WORST = ("aspect", "id", "variance", "ratings")
_SYMBOLS = {"alpha": "α", "ac": "AC", "pearson": "r", "spearman": "ρ", "kappa": "κ"}


def _values(measures: Iterable[Estimate]) -> list[str]:
    return [three_decimals(e.value) for e in measures]


def _with_ends(e: Estimate) -> tuple[str, str]:
    return three_decimals(e.value), three_decimals.ends(e)


def _rating(value: float) -> str:
    return f"{value:.4g}".replace("-", "−") if math.isfinite(value) else NONE


def _four_digits(value: float) -> str:
    """As `_rating`, always with four digits, so that those of a column compare."""
    return f"{value:#.4g}".removesuffix(".").replace("-", "−") if math.isfinite(value) else NONE


@keywords(AgreementOptions)
def agreement(
    ratings: Ratings | Choices,
    chosen: AgreementOptions | None = None,
    **words: Any,
) -> AgreementReport:
    """Measures how far raters agree, and names what they disagree on.

    Of choices between two texts these are α of names (the two sides, and each kind of tie), the
    share of ties, and κ of raters who have names.

    Args:
        ratings: files of samples with ratings or of one rating a row, data frames or records of
            them, what `load_ratings` returns, samples with ratings; or choices: files, data
            frames, records or what `load_comparisons` returns.
        chosen: whose agreement is measured, and how.
        words: options of `AgreementOptions`, instead of those there.

    Raises:
        InputError: a file can't be read.
        UserError: no rating is on such an aspect, no sample says its part, or choices that can't be
            told apart.

    >>> report = agreement("ratings.jsonl", by="survey")  # doctest: +SKIP
    >>> report.to_latex()  # doctest: +SKIP
    """
    chosen = AgreementOptions.of(chosen, **words)
    reading = chosen.reading
    mapping = reading.mapping
    files = file_names(ratings)
    ids_named = chosen.judge is None or "id" in mapping
    items = items_of(ratings, "ratings", (Rated, Sample, PairChoice), ids_named=ids_named)
    if are_choices(items, reading.format, mapping):
        return replace(_choice_agreement(items, chosen), files=files)
    chosen.refuse(("samples",), "ratings, unlike choices,")
    judges: tuple[JudgeTest, ...] = ()
    if chosen.judge is None:
        chosen.refuse(("epsilon",), "ratings without a judge")
    else:
        mapping = {ours: column for ours, column in mapping.items() if not is_of_scores(ours)}
    rated = read_ratings(
        items,
        format=reading.format,
        mapping=mapping,
        optional=() if chosen.judge is None else ("id",),
    )
    notes = [*rated.notes]
    if chosen.judge is not None:
        columns = merged_columns(read_scores(chosen.judge, mapping=reading.mapping))
        judges = judge_tests(
            columns,
            rated,
            aspects=chosen.aspects,
            metrics=chosen.metrics,
            epsilon=chosen.epsilon,
            nominal=chosen.level == "nominal",
        )
        tested = {judge.metric for judge in judges}
        if not chosen.metrics:
            notes += note_of_groups([c.metric for c in columns if c.metric not in tested])
    report = rater_agreement(
        rated,
        aspects=chosen.aspects,
        by=chosen.by,
        level=chosen.level,
        worst=chosen.worst,
        resampling=Resampling(seed=chosen.seed),
    )
    return replace(report, files=files, judges=judges, notes_of_ratings=tuple(notes))


def _choice_agreement(choices: Sequence[Any], chosen: AgreementOptions) -> AgreementReport:
    subject = "choices between two texts"
    chosen.refuse(("by", "judge", "worst", "epsilon"), subject)
    if chosen.level == "ordinal":
        raise UserError(f"level: {subject} do not accept this option")
    read = read_choices(
        choices, chosen.samples, format=chosen.reading.format, mapping=chosen.reading.mapping
    )
    rated, nameless = as_ratings(read)
    resampling = Resampling(seed=chosen.seed)
    report = rater_agreement(
        rated, aspects=chosen.aspects, level="nominal", worst=0, resampling=resampling
    )
    groups = []
    for group in report.groups:
        ratings = [r for r in rated.ratings if r.aspect == group.aspect]
        if not ratings:  # the mean of aspects
            continue
        no_order = undefined("choices have no order", n=0, clusters=0)
        groups.append(
            replace(
                group,
                icc={},
                raters=(),
                pairs=()
                if nameless
                else tuple(replace(p, pearson=no_order, spearman=no_order) for p in group.pairs),
                ties=cluster_mean(
                    [float(r.value > 1) for r in ratings],
                    [rated.samples[r.id].prompt for r in ratings],
                    votes=1,
                    level=resampling.level,
                ),
            )
        )
    return replace(report, groups=tuple(groups), z_scores=(), choices=True, nameless=nameless)


def rater_agreement(
    rated: Rated,
    *,
    aspects: Sequence[str] = (),
    by: str = "",
    level: Measurement = "interval",
    worst: int = 10,
    resampling: Resampling = DEFAULT,
) -> AgreementReport:
    """Measures agreement on each aspect and, if there are several, the mean α of them.

    Raters of the same name count as one person, also in different parts. Intervals
    resample what samples share (the source, else the prompt, else the context) and, where nothing
    is known of that, samples, since the aspects of a sample are not independent.

    Args:
        rated: as `load_ratings` returns it.
        aspects: only these; by default all.
        by: parts to look at one by one, see `part_of`.
        level: of measurement, for α and κ.
        worst: how many items of the largest disagreement to name.
        resampling: how intervals are drawn.

    Raises:
        UserError: if no rating is on such an aspect, or no sample says its part.

    >>> from levelfield.io import Rated, Rating
    >>> ratings = [Rating(id, "style", rater, value) for id, rater, value in (
    ...     ("1", "ann", 80), ("1", "bo", 75), ("2", "ann", 20), ("2", "bo", 35),
    ...     ("3", "ann", 55), ("3", "bo", 50))]
    >>> report = rater_agreement(Rated(tuple(ratings), {}))
    >>> round(report.groups[0].alpha.value, 3), report.worst[0].id
    (0.913, '2')
    """
    ratings = ratings_on(rated.ratings, aspects)
    part = parts_of(ratings, rated.samples, by)

    def by_part(chosen: Sequence[Rating]) -> dict[str, list[Rating]]:
        by_part = split(chosen, part)
        return by_part | ({OVERALL: list(chosen)} if len(by_part) > 1 else {})

    by_aspect = split(ratings, lambda r: r.aspect)
    groups = [
        _group(aspect, name, rating_table(part_ratings, rated.samples), level, resampling)
        for aspect, aspect_ratings in by_aspect.items()
        for name, part_ratings in by_part(aspect_ratings).items()
    ]
    if len(by_aspect) > 1:
        groups += [
            _mean(name, part_ratings, rated, level, resampling)
            for name, part_ratings in by_part(ratings).items()
        ]
    choices = {
        "aspects": ",".join(sorted({r.aspect for r in ratings})),
        "by": by or "none",
        "level": level,
        "clusters": "shared",
        "labels": "jeffreys",
        "resamples": resampling.resamples,
        "confidence": resampling.level,
        "seed": resampling.seed,
    }
    return AgreementReport(
        groups=tuple(groups),
        worst=_worst(ratings, part, worst),
        signature=signature("agreement", choices),
        z_scores=z_scores(rated, aspects=aspects, by=by),
        by=by,
        level=level,
        confidence=resampling.level,
    )


def _group(
    aspect: str, part: str, table: RatingTable, level: Measurement, resampling: Resampling
) -> Agreement:
    v, clusters = table.values, table.clusters
    rated = ~np.isnan(v)
    return Agreement(
        aspect=aspect,
        part=part,
        items=len(table.items),
        ratings=int(rated.sum()),
        alpha=krippendorff_alpha(v, level=level, clusters=clusters, resampling=resampling),
        ac=(
            gwet_ac(v, level=level, clusters=clusters, resampling=resampling)
            if np.unique(v[rated]).size <= MOST_VALUES
            else None
        ),
        icc=intraclass(v, clusters=clusters, level=resampling.level),
        pairs=tuple(
            _pair(table, pair)
            for pair in rater_pairs(
                v,
                weights="none" if level == "nominal" else "quadratic",
                clusters=clusters,
                resampling=resampling,
            )
        ),
        raters=tuple(_rater(name, v[rated[:, n], n]) for n, name in enumerate(table.raters)),
    )


def _mean(
    part: str,
    ratings: Sequence[Rating],
    rated: Rated,
    level: Measurement,
    resampling: Resampling,
) -> Agreement:
    tables = {
        aspect: rating_table(by_aspect, rated.samples)
        for aspect, by_aspect in split(ratings, lambda r: r.aspect).items()
    }
    return Agreement(
        aspect=MEAN_OF_ASPECTS,
        part=part,
        items=sum(len(table.items) for table in tables.values()),
        ratings=len(ratings),
        alpha=mean_alpha(
            {aspect: (table.values, table.clusters) for aspect, table in tables.items()},
            level=level,
            resampling=resampling,
        ),
        icc={},
        pairs=(),
        raters=(),
    )


def _pair(table: RatingTable, pair: PairEstimates) -> RaterPair:
    """A pair with the names of its raters, also of those who gave one rating only."""
    names = (table.raters[pair.a], table.raters[pair.b])
    r, rho = pair.pearson, pair.spearman
    if r.why_undefined and pair.items > 1:
        shared_items = table.values[:, [pair.a, pair.b]]
        low, high = (
            end(shared_items[~np.isnan(shared_items).any(axis=1)], axis=0)
            for end in (np.min, np.max)
        )
        reason = " and ".join(
            f"{names[i]} gave every item {low[i]:g}" for i in range(2) if low[i] == high[i]
        )
        r, rho = (replace(e, why_undefined=reason, why_no_interval=reason) for e in (r, rho))
    return RaterPair(*names, pair.items, r, rho, pair.kappa)


def _rater(name: str, x: Floats) -> RaterSummary:
    sd = float(x.std(ddof=1)) if len(x) > 1 else math.nan
    return RaterSummary(name, len(x), float(x.mean()), sd, float(x.min()), float(x.max()))


def _worst(
    ratings: Sequence[Rating], part: Callable[[Rating], str], most: int
) -> tuple[Disagreement, ...]:
    disagreements = []
    for item_ratings in split(sorted(ratings), lambda r: (r.id, r.aspect)).values():
        x = np.array([r.value for r in item_ratings])
        if len(x) > 1 and x.min() < x.max():
            first, values = item_ratings[0], {r.rater: r.value for r in item_ratings}
            variance = float(x.var(ddof=1))
            disagreements.append(
                Disagreement(first.id, first.aspect, part(first), variance, values)
            )
    disagreements.sort(key=lambda d: (-d.variance, d.id, d.aspect))
    return tuple(disagreements[:most])

"""How rated texts were drawn from the scored ones, and which to draw next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from levelfield.agree.design import EstimateOptions
from levelfield.agree.join import RatedScores
from levelfield.agree.sources import whole_samples
from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io import as_record
from levelfield.io.problems import shown
from levelfield.stats.prediction_powered import allocation, powered_mean

_PRIOR = 4
"""Ratings that the spread of all strata together counts as in each of them."""

_RANDOM = "intervals hold if the rated texts are a random draw of all"


@dataclass(frozen=True)
class Design:
    """How the rated texts were drawn.

    Attributes:
        name: for the signature.
        words: for people.
        strata: (n,) codes of strata within systems; None if there are none.
        probabilities: (n,) of being rated, NaN where it is not known; None if they are equal.
        drawn_by: the metric and the number of strata of earlier draws; None without any.
        notes: what a reader must know.
    """

    name: str
    words: str
    drawn_by: tuple[str, int] | None = None
    strata: Codes | None = None
    probabilities: Floats | None = None
    notes: tuple[str, ...] = ()

    def weights(self, has_rating: Bools) -> Floats | None:
        """(n,) 1 / probability of being rated; in a stratum of N texts with n ratings, N / n."""
        if self.strata is None:
            return None if self.probabilities is None else 1 / self.probabilities
        texts = np.bincount(self.strata)
        rated = np.bincount(self.strata[has_rating], minlength=texts.size)
        return np.asarray((texts / np.maximum(rated, 1))[self.strata], dtype=np.float64)


@dataclass(frozen=True)
class DrawnText(Document):
    """A text to rate next.

    Attributes:
        sample: with every field that is known.
        metric, strata: what was drawn by, and into how many strata.
        stratum: from 1, the lowest scores, on; 0 for texts without a score.
        inclusion_probability: share of the texts of its system and stratum that are rated, once
            those drawn are.
    """

    sample: Sample
    metric: str
    strata: int
    stratum: int
    inclusion_probability: float

    _entries = "id=sample.id system|null drawn_by=metric strata stratum inclusion_probability"

    @property
    def system(self) -> str:
        """The system that wrote it."""
        return self.sample.system

    def to_record(self) -> dict[str, Any]:
        """As a sample with how it was drawn, for files of texts to rate."""
        record = {name: v for name, v in as_record(self.sample).items() if name != "ratings"}
        place = {n: v for n, v in self.to_dict().items() if n not in ("id", "system")}
        return {**record.pop("extra", {}), **record, **place}


def strata_of(scores: Floats, systems: np.ndarray[Any, Any], strata: int) -> Codes:
    """(n,) the stratum of each text: from 1 on by quantiles of its system's scores; 0 without one.

    Equal scores are in one stratum.
    """
    codes = np.zeros(scores.size, dtype=np.intp)
    for name in np.unique(systems):
        rows = (systems == name) & ~np.isnan(scores)
        if rows.any():
            inner = np.linspace(0, 1, strata + 1)[1:-1]
            edges = np.quantile(scores[rows], inner, method="inverted_cdf")
            codes[rows] = 1 + np.searchsorted(edges, scores[rows], side="left")
    return codes


def design_of(
    table: RatedScores, samples: Mapping[str, Sample], systems: np.ndarray[Any, Any]
) -> Design:
    """How the rated texts were drawn, as far as their ratings say.

    Args:
        samples: id -> sample, with the fields that came with its ratings.

    Raises:
        UserError: they say what can't be.
    """
    rated = np.zeros(len(table.ids), dtype=np.bool_)
    for values in table.aspects.values():
        rated |= ~np.isnan(values)
    fields = {
        row: samples[table.ids[row]].extra
        for row in np.flatnonzero(rated).tolist()
        if table.ids[row] in samples
    }
    drawn = {row: extra for row, extra in fields.items() if extra.get("drawn_by")}
    if drawn:
        return _design_of_strata(table, drawn, systems, rated)
    declared = {
        row: extra["inclusion_probability"]
        for row, extra in fields.items()
        if extra.get("inclusion_probability") not in (None, "")
    }
    if not declared:
        return Design("random", _RANDOM)
    probabilities = np.full(len(table.ids), np.nan)
    for row in np.flatnonzero(rated).tolist():
        value = _number(declared.get(row))
        if not 0 < value <= 1:
            raise UserError(
                f"id {shown(table.ids[row])}: inclusion_probability is {declared.get(row)!r}; "
                "expected a number above 0 and at most 1, for every rated text if for any"
            )
        probabilities[row] = value
    words = "rated texts are weighted by 1 / inclusion_probability"
    return Design("probabilities", words, probabilities=probabilities)


def _design_of_strata(
    table: RatedScores,
    drawn: Mapping[int, Mapping[str, Any]],
    systems: np.ndarray[Any, Any],
    rated: Bools,
) -> Design:
    draws = {(str(extra["drawn_by"]), _number(extra.get("strata"))) for extra in drawn.values()}
    if len(draws) > 1:
        names = ", ".join(f"{metric} in {strata:g} strata" for metric, strata in sorted(draws))
        raise UserError(f"the rated texts were drawn by {names}; expected one metric and number")
    ((metric, strata),) = draws
    if metric not in table.metrics:
        raise UserError(
            f"the rated texts were drawn by {metric}, and the scores have "
            f"{', '.join(table.metrics)}; give the scores of {metric} as well"
        )
    if not strata >= 1:
        raise UserError(
            f"the rated texts were drawn by {metric}, and the number of strata is missing"
        )
    stratum = strata_of(table.metrics[metric], systems, int(strata))
    for row, extra in drawn.items():
        if _number(extra.get("stratum")) != stratum[row]:
            raise UserError(
                f"id {shown(table.ids[row])} was drawn from stratum {extra.get('stratum')} of "
                f"{metric}, and its score is in stratum {stratum[row]}; give the scores of all "
                "texts that were there when it was drawn"
            )
    codes = _cells(systems, stratum, int(strata))
    texts = np.bincount(codes)
    empty = (texts > 0) & (np.bincount(codes[rated], minlength=texts.size) == 0)
    notes = (
        f"{int(empty.sum()):,} of {int((texts > 0).sum()):,} strata have no rated text; means of "
        "ratings leave them out",
    ) * bool(empty.any())
    words = f"rated texts are weighted by strata of {metric} within systems"
    name = f"strata by {metric}/{strata:g}"
    return Design(name, words, (metric, int(strata)), codes, notes=notes)


def _cells(systems: np.ndarray[Any, Any], stratum: Codes, strata: int) -> Codes:
    _, system = np.unique(systems, return_inverse=True)
    return (system * (strata + 1) + stratum).astype(np.intp)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return float("nan")


def drawn_texts(
    table: RatedScores,
    metrics: Sequence[str],
    systems: np.ndarray[Any, Any],
    design: Design,
    samples: Mapping[str, Sample],
    chosen: EstimateOptions,
) -> tuple[DrawnText, ...]:
    """The texts to rate next: a random draw within strata of the scores, by system.

    Strata in which the ratings so far leave the scores' errors large, and large strata, have more
    (`allocation`). The errors of a stratum are those of all systems together, drawn towards those
    of all strata; without ratings, strata have texts in proportion to their size.

    Raises:
        UserError: several metrics, earlier ratings of another design, fewer texts than wanted, or
            texts that nobody has given.
    """
    if len(metrics) > 1:
        raise UserError(
            f"--next draws by one metric, and there are {', '.join(metrics)}; name one with "
            "--metric"
        )
    if design.drawn_by not in (None, (metrics[0], chosen.strata)):
        metric, strata = design.drawn_by
        raise UserError(
            f"the rated texts were drawn by {metric}, in {strata} strata; draw by the same, with "
            f"--metric {metric} --strata {strata}"
        )
    if design.probabilities is not None:
        raise UserError(
            "--next can follow ratings of a random draw or of --next, but these have an "
            "inclusion_probability of their own"
        )
    f = table.metrics[metrics[0]]
    rated = np.zeros(f.size, dtype=np.bool_)
    for values in table.aspects.values():
        rated |= ~np.isnan(values)
    if chosen.next > (left := int((~rated).sum())):
        raise UserError(
            f"--next {chosen.next:,}: {left:,} texts are not rated; expected at most that many"
        )
    stratum = strata_of(f, systems, chosen.strata)
    codes = _cells(systems, stratum, chosen.strata)
    texts = np.bincount(codes)
    done = np.bincount(codes[rated], minlength=texts.size)
    _, system, sizes = np.unique(systems, return_inverse=True, return_counts=True)
    share = np.zeros(texts.size)
    np.add.at(share, codes, 1 / sizes[system])
    deviations = _deviations(table, f, system, stratum, chosen.strata)
    spreads = share * deviations[np.arange(texts.size) % (chosen.strata + 1)]
    draws = allocation(texts.astype(np.intp), done.astype(np.intp), spreads, chosen.next)
    rng = np.random.default_rng(chosen.seed)
    rows: list[int] = []
    for cell in np.flatnonzero(draws):
        unrated = np.flatnonzero((codes == cell) & ~rated)
        rows += rng.choice(unrated, draws[cell], replace=False).tolist()
    rows.sort()
    ids = [table.ids[row] for row in rows]
    whole = {**samples, **whole_samples(chosen.samples, set(ids), mapping=chosen.mapping)}
    lacking = [id for id in ids if not (id in whole and whole[id].text)]
    if lacking:
        raise UserError(
            f"the texts of {len(lacking):,} drawn ids are not known, such as {shown(lacking[0])}; "
            "give the file of all texts with --samples"
        )
    probability = (done + draws) / np.maximum(texts, 1)
    return tuple(
        DrawnText(
            whole[table.ids[row]], metrics[0], chosen.strata, int(stratum[row]),
            float(probability[codes[row]]),
        )
        for row in rows
    )  # fmt: skip


def _deviations(
    table: RatedScores, f: Floats, system: Codes, stratum: Codes, strata: int
) -> Floats:
    """(strata + 1,) deviation of ratings from what the scores say, in units of the ratings'."""
    squares, n = np.zeros(strata + 1), np.zeros(strata + 1)
    for y in table.aspects.values():
        sd = float(np.nanstd(y)) if np.any(~np.isnan(y)) else 0.0
        for code in range(int(system.max()) + 1):
            rows = np.flatnonzero((system == code) & ~np.isnan(y))
            if rows.size < 2 or sd == 0:
                continue
            x = np.where(np.isnan(f[rows]), np.nanmean(f), f[rows])
            mean = powered_mean(y[rows], x, np.arange(rows.size, dtype=np.intp))
            errors = y[rows] - y[rows].mean() - mean.weight * (x - x.mean())
            squares += np.bincount(stratum[rows], (errors / sd) ** 2, minlength=strata + 1)
            n += np.bincount(stratum[rows], minlength=strata + 1)
    if not n.sum() or not squares.sum():
        return np.ones(strata + 1)
    overall = squares.sum() / n.sum()
    return np.asarray(np.sqrt((squares + _PRIOR * overall) / (n + _PRIOR)), dtype=np.float64)

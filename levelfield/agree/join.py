"""Scores and ratings of the same samples, side by side."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from levelfield.agree.design import GroupBy
from levelfield.core.arrays import Codes, Floats
from levelfield.core.corpus import is_group_name
from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.io.ratings import Rated, Rating
from levelfield.io.scores import ScoreColumn

UNNAMED = "(unnamed)"
_SHOWN = 3


@dataclass(frozen=True)
class Unmatched(Document):
    """Ids that only one side has: how many, and the first few."""

    n: int
    ids: tuple[str, ...]

    @classmethod
    def of(cls, ids: Collection[str]) -> Unmatched:
        """Returns the first of ids by name, and their number."""
        return cls(len(ids), tuple(sorted(ids)[:_SHOWN]))


@dataclass(frozen=True)
class RatedScores:
    """Scores and ratings of the same samples, rows sorted by id. Every array is (n,).

    Attributes:
        ids: of the samples that have a row in the scores and, but for `unrated` of `join`, a rating
            on some aspect.
        metrics: name -> values, NaN where undefined.
        aspects: name -> ratings, the mean over raters; NaN where there are none.
        clusters: samples with equal entries share a source, prompt or context.
        systems, datasets: their names; empty where unknown.
        sources: -1 where nothing is shared.
        samples: the samples as far as they are known.
        signatures: of the metrics.
        raters: aspect -> how many different people rated it.
        only_scored, only_rated: ids that the other side lacks.
        flipped: metrics of which lower is better: their values have changed sign.
        same_text: samples whose source and text another sample has as well: one judgement.
        of_groups: metrics that are left out, as their values are of groups and not of texts.
        notes_of_ratings: what a reader must know of the ratings.
    """

    ids: tuple[str, ...]
    metrics: Mapping[str, Floats]
    aspects: Mapping[str, Floats]
    clusters: Codes
    systems: npt.NDArray[np.str_]
    datasets: npt.NDArray[np.str_]
    sources: Codes
    samples: Mapping[str, Sample]
    signatures: Mapping[str, str]
    raters: Mapping[str, int]
    only_scored: Unmatched
    only_rated: Unmatched
    same_text: int
    flipped: frozenset[str] = frozenset()
    of_groups: tuple[str, ...] = ()
    notes_of_ratings: tuple[str, ...] = ()

    def rows(self, aspect: str, *metrics: str) -> npt.NDArray[np.intp]:
        """The samples that have a rating on the aspect and values of all the metrics."""
        defined = ~np.isnan(self.aspects[aspect])
        for metric in metrics:
            defined &= ~np.isnan(self.metrics[metric])
        return np.flatnonzero(defined)

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the join."""
        notes = [*self.notes_of_ratings, *note_of_groups(self.of_groups)]
        for unmatched, who, other in (
            (self.only_scored, "scored", "rating"),
            (self.only_rated, "rated", "score"),
        ):
            if unmatched.n:
                ids = ", ".join(unmatched.ids) + (", …" if unmatched.n > len(unmatched.ids) else "")
                have = "id has" if unmatched.n == 1 else "ids have"
                are = "is" if unmatched.n == 1 else "are"
                notes.append(f"{unmatched.n:,} {who} {have} no {other} and {are} left out: {ids}")
        if self.same_text:
            notes.append(
                f"{self.same_text:,} samples share source and text with another: "
                "one judgement each; they are drawn and swapped together"
            )
        if not self.samples:
            notes.append("nothing but ids is known of the samples: each counts as independent")
        return notes

    @property
    def has_systems(self) -> bool:
        """Whether two or more systems are named, so that a claim may be about others like them."""
        return np.unique(self.systems).size > 1

    def groups(self, group: GroupBy) -> npt.NDArray[Any]:
        """(n,) the group of every sample.

        Raises:
            UserError: nothing is known that could group the samples.
        """
        if group == "source":
            if not np.any(self.sources >= 0):
                raise UserError(_unknown("source, prompt or context", "--group source"))
            alone = -1 - np.arange(len(self.ids))  # nothing shared: a group of one
            return np.where(self.sources >= 0, self.sources, alone)
        names = self.systems if group == "system" else self.datasets
        if not np.any(names != ""):
            raise UserError(_unknown(group, f"--group {group} or --level system"))
        return np.where(names == "", UNNAMED, names)


def _unknown(field: str, option: str) -> str:
    return (
        f"no rated sample has a {field}, which {option} needs; "
        f"name its column with --map {field}=COLUMN, or give a file of the samples with --samples"
    )


def join(
    columns: Sequence[ScoreColumn],
    rated: Rated,
    *,
    aspects: Sequence[str] = (),
    metrics: Sequence[str] = (),
    flip: Sequence[str] = (),
    samples: Mapping[str, Sample] | None = None,
    unrated: bool = False,
) -> RatedScores:
    """Scores and ratings by id.

    Args:
        columns: one a metric. Infinite values have a rank, and no Pearson's r.
        rated: ratings; a sample's rating on an aspect is the mean over its raters.
        aspects, metrics: those to keep, all if empty; `ctrleval` stands for its family.
        flip: metrics of which lower is better; their values change sign, so that every
            correlation is one of agreement.
        samples: id -> sample, over those in `rated`: for systems, sources and datasets.
        unrated: whether scored samples without a rating have rows as well.

    Raises:
        UserError: a name that is not there, two columns of one metric, no id in common, or values
            of groups alone.
    """
    known_samples = {**rated.samples, **(samples or {})}
    by_name = _by_metric(columns)
    chosen, group_metrics = text_metrics(
        by_name, metrics, lambda: {*known_samples, *(r.id for r in rated.ratings)}
    )
    turned = set(chosen_names("metric", list(by_name), flip)) if flip else set()
    means, raters = _mean_ratings(rated.ratings)
    names = chosen_names("aspect", list(means), aspects)
    rated_ids = set().union(*(means[aspect] for aspect in names))
    scored_ids = set().union(*(by_name[metric].values for metric in chosen))
    only_scored, only_rated = scored_ids - rated_ids, rated_ids - scored_ids
    ids = tuple(sorted(scored_ids if unrated else rated_ids & scored_ids))
    if not ids or (rated_ids and not rated_ids & scored_ids):
        raise UserError(
            f"no id is in both: the scores have {_some(only_scored)}, "
            f"the ratings have {_some(only_rated)}; ids must be equal; --map id=COLUMN names "
            "another column, and id=system+segment joins several with /"
        )
    del rated_ids, scored_ids
    row_samples = [known_samples.get(id) for id in ids]
    shared = sorted({s.shared for s in row_samples if s and s.shared})
    codes = {key: i for i, key in enumerate(shared)}
    sources = np.array([codes.get(s.shared, -1) if s else -1 for s in row_samples], dtype=np.intp)

    def column(values: Mapping[str, float]) -> Floats:
        return np.array([values.get(id, math.nan) for id in ids], dtype=np.float64)

    return RatedScores(
        ids=ids,
        metrics={m: column(by_name[m].values) * (-1 if m in turned else 1) for m in chosen},
        aspects={aspect: column(means[aspect]) for aspect in names},
        clusters=np.where(sources >= 0, sources, len(codes) + np.arange(len(ids))),
        systems=np.array([s.system if s else "" for s in row_samples], dtype=np.str_),
        datasets=np.array([s.dataset if s else "" for s in row_samples], dtype=np.str_),
        sources=sources,
        samples={id: s for id, s in zip(ids, row_samples, strict=True) if s},
        signatures={metric: by_name[metric].signature for metric in chosen},
        raters={aspect: raters[aspect] for aspect in names},
        only_scored=Unmatched.of(set() if unrated else only_scored),
        only_rated=Unmatched.of(only_rated),
        same_text=_same_text(row_samples, sources),
        flipped=frozenset(turned),
        of_groups=group_metrics,
        notes_of_ratings=rated.notes,
    )


def _by_metric(columns: Sequence[ScoreColumn]) -> dict[str, ScoreColumn]:
    by_name: dict[str, ScoreColumn] = {}
    for column in columns:
        first = by_name.setdefault(column.metric, column)
        if first is not column:
            raise UserError(
                f"two columns of {column.metric}: {first.signature} and {column.signature}; "
                "correlate one of them at a time"
            )
    return by_name


def _mean_ratings(
    ratings: Sequence[Rating],
) -> tuple[dict[str, Mapping[str, float]], dict[str, int]]:
    """Returns aspect -> id -> mean over its raters, and aspect -> number of raters."""
    aspects: dict[str, dict[str, Any]] = {}  # a number, or a list where several people rated
    raters: dict[str, set[str]] = {}
    for rating in ratings:
        values = aspects.setdefault(rating.aspect, {})
        earlier = values.get(rating.id)
        if earlier is None:
            values[rating.id] = float(rating.value)
        elif isinstance(earlier, list):
            earlier.append(rating.value)
        else:
            values[rating.id] = [earlier, rating.value]
        raters.setdefault(rating.aspect, set()).add(rating.rater)
    for values in aspects.values():
        for id, several in values.items():
            if isinstance(several, list):
                values[id] = math.fsum(several) / len(several)
    return dict(aspects), {aspect: len(names) for aspect, names in raters.items()}


def text_metrics(
    columns: Mapping[str, ScoreColumn],
    choices: Sequence[str],
    texts: Callable[[], Container[str]],
) -> tuple[list[str], tuple[str, ...]]:
    """Returns the chosen metrics of texts, and those that are left out as of groups of texts.

    Args:
        columns: metric -> its values.
        choices: as for `chosen_names`.
        texts: returns ids that are those of texts, whatever form they have.

    Raises:
        UserError: a choice is none of them, or has values of groups, or all metrics have.
    """
    chosen = chosen_names("metric", list(columns), choices)
    group_metrics = [
        m for m in chosen if columns[m].values and all(map(is_group_name, columns[m].values))
    ]
    if group_metrics:
        ids = texts()
        group_metrics = [m for m in group_metrics if not any(id in ids for id in columns[m].values)]
    if group_metrics and (choices or len(group_metrics) == len(chosen)):
        id = next(iter(columns[group_metrics[0]].values))
        raise UserError(
            f"{', '.join(group_metrics)}: values of groups of texts, such as {id!r}; give values "
            "of texts, from a metric that scores each of them"
        )
    return [metric for metric in chosen if metric not in group_metrics], tuple(group_metrics)


def note_of_groups(metrics: Sequence[str]) -> list[str]:
    """Says which metrics are left out, as their values are of groups of texts."""
    return [f"values of groups, not of texts, are left out: {', '.join(metrics)}"] * bool(metrics)


def chosen_names(kind: str, names: Sequence[str], choices: Sequence[str]) -> list[str]:
    """Returns the names that the user chose, themselves or by their family; all without a choice.

    Raises:
        UserError: a choice is none of them.
    """
    if not choices:
        return list(names)
    chosen: list[str] = []
    for name in choices:
        matching = [t for t in names if t == name or t.startswith(f"{name}.")]
        if not matching:
            raise UserError(f"there is no {kind} '{name}'; there are {', '.join(names)}")
        chosen += [m for m in matching if m not in chosen]
    return chosen


def _same_text(samples: Sequence[Sample | None], sources: Codes) -> int:
    """How many samples share source and text with another."""
    order = np.argsort(sources, kind="stable")
    same = 0
    for _, rows in itertools.groupby(order.tolist(), key=sources.__getitem__):
        source_samples = [samples[row] for row in rows if sources[row] >= 0]
        texts = Counter(sample.text for sample in source_samples if sample and sample.text)
        same += sum(n for n in texts.values() if n > 1)
    return same


def _some(ids: set[str]) -> str:
    shown = ", ".join(repr(id) for id in sorted(ids)[:_SHOWN])
    return f"{len(ids):,} ids ({shown}{', …' if len(ids) > _SHOWN else ''})" if ids else "none"


def merged_columns(file_columns: Sequence[tuple[str, ScoreColumn]]) -> list[ScoreColumn]:
    """Returns one column a metric; a metric with two signatures has one of each file.

    Scores from elsewhere may come in several files: columns of one metric without a common id are
    one column, whose signature names all files.

    Args:
        file_columns: the file of each column, or another name that tells two signatures apart.

    Raises:
        UserError: two columns of a file and metric with two signatures, or with two values of an
            id.
    """
    file_columns = _without_common_ids(file_columns)
    signatures: dict[str, list[str]] = {}
    for _, column in file_columns:
        metric_signatures = signatures.setdefault(column.metric, [])
        if column.signature not in metric_signatures:
            metric_signatures.append(column.signature)
    merged: dict[str, ScoreColumn] = {}
    for path, column in file_columns:
        several = len(signatures[column.metric]) > 1
        name = f"{column.metric} ({_stem(path)})" if several else column.metric
        column = replace(column, metric=name)
        if name not in merged:
            merged[name] = column
            continue
        first = merged[name]
        if first.signature != column.signature:
            raise UserError(
                f"{path}: {name} has two signatures, {first.signature} and {column.signature}; "
                "give the files different names"
            )
        common = first.values.keys() & column.values.keys()
        differing = [
            id
            for id in sorted(common)
            if first.values[id] != column.values[id]
            and not (math.isnan(first.values[id]) and math.isnan(column.values[id]))
        ]
        if differing:
            raise UserError(
                f"{path}: {name} of '{differing[0]}' is {column.values[differing[0]]:g}, and "
                f"{first.values[differing[0]]:g} in an earlier file"
            )
        merged[name] = replace(first, values={**first.values, **column.values})
    return list(merged.values())


def _without_common_ids(
    file_columns: Sequence[tuple[str, ScoreColumn]],
) -> list[tuple[str, ScoreColumn]]:
    """The columns, those of one metric from elsewhere put together where no id is in two."""
    whole: list[tuple[str, ScoreColumn]] = []
    for path, column in file_columns:
        for n, (first_path, first) in enumerate(whole):
            joinable = first.elsewhere and column.elsewhere and first.metric == column.metric
            if joinable and not first.values.keys() & column.values.keys():
                signature = f"{first.signature}|{column.signature.partition('|')[2]}"
                values = {**first.values, **column.values}
                whole[n] = (first_path, replace(first, signature=signature, values=values))
                break
        else:
            whole.append((path, column))
    return whole


def _stem(path: str) -> str:
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[0] or name

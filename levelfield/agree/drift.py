"""Does a metric stay reliable when what it measures changes? CTRLEval, sections 4.6 and 4.7.

Model drift: the correlation on the texts of each system. Quality drift: the correlation on subsets
that hold mostly bad or mostly good texts. Evaluators: the correlation of a metric that is made of
parts, with fewer of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from levelfield.agree.correlate import correlation_within
from levelfield.agree.join import RatedScores
from levelfield.core.arrays import Codes
from levelfield.core.documents import Document
from levelfield.core.errors import UserError, first_line
from levelfield.io.reading import PathLike
from levelfield.io.streams import open_bytes
from levelfield.stats.correlation import statistics
from levelfield.stats.estimands import Statistic
from levelfield.stats.estimate import Estimate
from levelfield.stats.resampling import DEFAULT, Resampling

QUARTERS = 4
DRAWS = 20
MOST_K = 16
"""The most numbers k of evaluators that are tried, in steps that grow from 1 to all."""


@dataclass(frozen=True, slots=True)
class CorrelationSpread(Document):
    """Correlations of several draws or systems.

    Attributes:
        mean, deviation: over the defined ones; the deviation is the sample's (n − 1) and NaN for
            fewer than two.
        low, high: the smallest and the largest.
        defined, total: how many were defined, of how many.
        n: mean number of samples that a correlation rests on.
    """

    mean: float
    deviation: float
    low: float
    high: float
    defined: int
    total: int
    n: float


def spread(values: Sequence[float], sizes: Sequence[int] = ()) -> CorrelationSpread:
    """Returns the spread of correlations, each from a sample of the given size.

    >>> spread([0.25, 0.75, float("nan")]).mean
    0.5
    """
    nan = float("nan")
    v = np.asarray(values, dtype=np.float64)
    d = v[~np.isnan(v)]
    return CorrelationSpread(
        mean=float(d.mean()) if d.size else nan,
        deviation=float(d.std(ddof=1)) if d.size > 1 else nan,
        low=float(d.min()) if d.size else nan,
        high=float(d.max()) if d.size else nan,
        defined=d.size,
        total=v.size,
        n=float(np.mean(sizes)) if len(sizes) else nan,
    )


@dataclass(frozen=True, slots=True)
class QualityDrift(Document):
    """Correlations on the four biased subsets, the one of the worst texts first.

    Attributes:
        subsets: of each subset, over the draws.
        shares: (4, 4) mean number of samples that subset j takes from quarter i: `shares[j][i]`.
        bounds: of the ratings of each quarter, lowest and highest.
        between: the four means, as how much the metric changes with quality.
    """

    subsets: tuple[CorrelationSpread, ...]
    shares: tuple[tuple[float, ...], ...]
    bounds: tuple[tuple[float, float], ...]
    between: CorrelationSpread


def quarters(y: npt.ArrayLike, rng: np.random.Generator) -> Codes:
    """(n,) 0 to 3: which quarter of the samples, sorted by rating. Ties fall at random."""
    y = np.asarray(y, dtype=np.float64)
    order = np.lexsort((rng.random(y.size), y))
    quarter = np.empty(y.size, dtype=np.intp)
    quarter[order] = np.arange(y.size) * QUARTERS // max(1, y.size)
    return quarter


def quality_drift(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    quality: npt.ArrayLike | None = None,
    *,
    statistic: Statistic = "pearson",
    draws: int = DRAWS,
    seed: int = 0,
) -> QualityDrift:
    """Correlation on four subsets biased by quality (CTRLEval, section 4.6.2).

    The samples are sorted by their quality and split into quarters 0 to 3. Subset j takes a sample
    of quarter i with probability `1 / (|j − i| + 1)`: all of its own quarter, half of the next, a
    third and a quarter of those farther off. Where ratings tie across a border the samples fall to
    either side at random, so every draw has its own split.

    Args:
        x, y: (n,) metric and ratings, no NaN. The result depends on their order only through
            which samples are drawn.
        quality: (n,) what to sort by; y if None. The paper sorts by the coherence rating.
        draws: how often every subset is drawn.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    q = y if quality is None else np.asarray(quality, dtype=np.float64)
    rng = np.random.default_rng(seed)
    correlations: list[list[float]] = [[] for _ in range(QUARTERS)]
    sizes: list[list[int]] = [[] for _ in range(QUARTERS)]
    shares = np.zeros((QUARTERS, QUARTERS))
    quarter = np.zeros(x.size, dtype=np.intp)
    for _ in range(draws):
        quarter = quarters(q, rng)
        for j in range(QUARTERS):
            subset = rng.random(x.size) < 1 / (np.abs(j - quarter) + 1)
            correlations[j].append(statistics(x[subset], y[subset], (statistic,))[statistic])
            sizes[j].append(int(subset.sum()))
            shares[j] += np.bincount(quarter[subset], minlength=QUARTERS) / draws
    subsets = tuple(spread(f, s) for f, s in zip(correlations, sizes, strict=True))
    nan = float("nan")
    bounds = tuple(
        (float(q[quarter == i].min()), float(q[quarter == i].max()))
        if np.any(quarter == i)
        else (nan, nan)
        for i in range(QUARTERS)
    )
    return QualityDrift(
        subsets=subsets,
        shares=tuple(tuple(row) for row in shares.tolist()),
        bounds=bounds,
        between=spread([s.mean for s in subsets]),
    )


@dataclass(frozen=True, slots=True)
class EvaluatorDrift(Document):
    """Correlation with fewer evaluators.

    Attributes:
        metric: its name.
        shared: whether all samples have the same evaluators (attribute relevance: pattern and
            verbalizer); else each has its own (coherence: one a sentence).
        k: how many evaluators.
        spreads: of each k, over the draws.
    """

    metric: str
    shared: bool
    k: tuple[int, ...]
    spreads: tuple[CorrelationSpread, ...]

    _entries = "shared k=_spreads"

    @property
    def _spreads(self) -> list[dict[str, Any]]:
        by_k = zip(self.k, self.spreads, strict=True)
        return [{"k": k, **s.to_dict()} for k, s in by_k]


def evaluator_drift(
    metric: str,
    parts: pl.DataFrame,
    y: Mapping[str, float],
    *,
    statistic: Statistic = "pearson",
    draws: int = DRAWS,
    seed: int = 0,
) -> EvaluatorDrift:
    """Correlation of a metric recombined from k of its evaluators (CTRLEval, section 4.7).

    For every k, k evaluators are drawn without replacement `draws` times; the value of a sample is
    the mean of their scores by their weights, which are scaled to sum to 1 again. Where all samples
    have the same evaluators, one draw holds for all samples, as in the paper. Where each sample has
    its own, k of them are drawn for each sample, and a sample with no more than k keeps all. A
    sample whose drawn evaluators all weigh nothing has no value in that draw.

    Args:
        parts: one row an evaluator: id, part, score, weight.
        y: id -> rating; parts of other samples are left out.
    """
    rated_parts = parts.filter(pl.col("id").is_in(list(y)) & pl.col("score").is_not_nan())
    rated_parts = rated_parts.drop_nulls(["score", "weight"]).sort(
        "id", "part", maintain_order=True
    )
    names = rated_parts["part"].unique(maintain_order=True).sort()
    ids = rated_parts["id"].unique(maintain_order=True).sort()
    n, m = len(ids), len(names)
    row = (
        np.searchsorted(ids.to_numpy(), rated_parts["id"].to_numpy()) if n else np.zeros(0, np.intp)
    )
    shared = (
        n > 0
        and len(rated_parts) == n * m
        and not rated_parts.select("id", "part").is_duplicated().any()
    )
    rated = np.array([y[id] for id in ids], dtype=np.float64)
    score, weight = rated_parts["score"].to_numpy(), rated_parts["weight"].to_numpy()
    most = m if shared else int(np.bincount(row, minlength=1).max()) if n else 0
    ks = _numbers(most)
    rng = np.random.default_rng(seed)
    starts = np.searchsorted(row, np.arange(n))
    spreads = []
    for k in ks:
        correlations, sizes = [], []
        for _ in range(draws):
            if shared:
                drawn = np.zeros(m, dtype=bool)
                drawn[rng.permutation(m)[:k]] = True
                use = np.tile(drawn, n)  # the rows are sorted by id, then part
            else:
                order = np.lexsort((rng.random(row.size), row))
                place = np.empty(row.size, dtype=np.intp)
                place[order] = np.arange(row.size) - starts[row[order]]
                use = place < k
            w = np.where(use, weight, 0.0)
            total = np.bincount(row, weights=w, minlength=n)
            with np.errstate(invalid="ignore", divide="ignore"):
                value = np.bincount(row, weights=w * score, minlength=n) / total
            defined = total > 0
            correlations.append(statistics(value[defined], rated[defined], (statistic,))[statistic])
            sizes.append(int(defined.sum()))
        spreads.append(spread(correlations, sizes))
    return EvaluatorDrift(metric, shared, tuple(int(k) for k in ks), tuple(spreads))


def _numbers(most: int) -> Codes:
    """The numbers of evaluators to try, from 1 to all."""
    if most <= MOST_K:
        return np.arange(1, most + 1)
    return np.unique(np.geomspace(1, most, MOST_K).round().astype(np.intp))


@dataclass(frozen=True)
class Drift(Document):
    """How one metric's correlation with one aspect changes.

    Attributes:
        metric, aspect: their names.
        by_system: the correlation on the texts of each system; empty if no systems are named.
        systems: the spread of those.
        by_quality: on the four biased subsets.
        by_evaluators: with fewer evaluators; None without parts.
    """

    metric: str
    aspect: str
    by_system: tuple[tuple[str, Estimate], ...]
    systems: CorrelationSpread
    by_quality: QualityDrift
    by_evaluators: EvaluatorDrift | None

    _entries = "metric aspect by_system=_systems systems by_quality by_evaluators"

    @property
    def _systems(self) -> dict[str, Estimate]:
        return dict(self.by_system)


def drift(
    table: RatedScores,
    *,
    parts: Mapping[str, pl.DataFrame] | None = None,
    statistic: Statistic = "pearson",
    draws: int = DRAWS,
    resampling: Resampling = DEFAULT,
) -> list[Drift]:
    """Returns the drift of every metric on every aspect: by system, quality and evaluators.

    Args:
        parts: metric -> its parts, as `load_parts` reads them.
        draws: of each biased subset, and of each number of evaluators.
    """
    return list(_drifts(table, parts or {}, statistic, draws, resampling))


def _drifts(
    table: RatedScores,
    parts: Mapping[str, pl.DataFrame],
    statistic: Statistic,
    draws: int,
    resampling: Resampling,
) -> Iterator[Drift]:
    named = bool(np.any(table.systems != ""))
    for aspect, metric in itertools.product(table.aspects, table.metrics):
        rows = table.rows(aspect, metric)
        x, y = table.metrics[metric][rows], table.aspects[aspect][rows]
        by_system = []
        if named:
            systems = table.groups("system")
            for name in np.unique(systems[rows]):
                correlation = correlation_within(
                    table, metric, aspect, systems == name, str(name), (statistic,), resampling
                )
                by_system.append((str(name), correlation.estimates[statistic]))
        evaluators = None
        if metric in parts:
            sign = -1.0 if metric in table.flipped else 1.0
            evaluators = evaluator_drift(
                metric,
                parts[metric].with_columns(pl.col("score") * sign),
                {table.ids[i]: float(table.aspects[aspect][i]) for i in table.rows(aspect)},
                statistic=statistic, draws=draws, seed=resampling.seed,
            )  # fmt: skip
        yield Drift(
            metric,
            aspect,
            tuple(by_system),
            spread([e.value for _, e in by_system], [e.n for _, e in by_system]),
            quality_drift(x, y, statistic=statistic, draws=draws, seed=resampling.seed),
            evaluators,
        )


def load_parts(path: PathLike) -> dict[str, pl.DataFrame]:
    """Metric -> its parts, from the JSONL that `levelfield score --parts` writes.

    Raises:
        UserError: it can't be read, or lacks a column.
    """
    schema = {"metric": pl.String, "id": pl.String, "part": pl.String,
              "score": pl.Float64, "weight": pl.Float64}  # fmt: skip
    try:
        with open_bytes(Path(path)) as file:
            table = pl.read_ndjson(file, schema=schema)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UserError(
            f"{path}: can't be read as parts ({first_line(error)}); expected the JSONL that "
            "`levelfield score --parts` writes"
        ) from error
    if not len(table) or table["metric"].has_nulls() or table["id"].has_nulls():
        raise UserError(
            f"{path}: holds no parts; expected one object a line with "
            "metric, id, part, score and weight, as `levelfield score --parts` writes"
        )
    return {
        str(metric): rows.drop("metric")
        for (metric,), rows in table.group_by("metric", maintain_order=True)
    }

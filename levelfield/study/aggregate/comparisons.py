"""Comparisons of systems, paired on equal requests and corrected for their number.

With two seeds or more of either system, prompts and seeds are samples (`stats.seeds.contrast`).
With one seed each, the signs of whole prompts are flipped, and a verdict is about these runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.scoring.comparison import (
    ALPHA,
    Comparison,
    UndefinedPair,
    adjusted_comparisons,
    undefined_pair,
)
from levelfield.scoring.seeds import difference_tests, verdict_basis
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.effect import cohen_dz
from levelfield.stats.sign_flip import paired_differences
from levelfield.study.aggregate.control import ControlData, MeasuredTexts
from levelfield.study.observations import ALL, Observed


def comparisons(control: ControlData) -> dict[str, tuple[Comparison, ...]]:
    """Returns measure -> the comparisons of all pairs of systems.

    Measures known for whole cells only, and single judges, are not compared.
    """
    compared = {
        o.measure.name: o
        for o in control.observations.observed
        if o.texts is not None and o.measure.kind != "judge"
    }
    if len(control.systems) < 2:
        return {}
    of_measures = [list(_compared(control, o)) for o in compared.values()]
    return dict(zip(compared, adjusted_comparisons(of_measures, control.resampling), strict=True))


class _Column(NamedTuple):
    """Differences of two systems by input, NaN where an input does not count.

    Attributes:
        pair: the systems.
        d: (inputs,) differences.
        ends: the values of undefined texts of each system, on inputs that are `uneven`.
    """

    pair: tuple[int, int]
    d: Floats
    ends: tuple[float, float] = (math.nan, math.nan)
    uneven: Bools | None = None


def _compared(control: ControlData, observed: Observed) -> Iterator[Comparison]:
    observations = control.observations
    X, texts, lacking = _by_input(control, observed)
    _, first = np.unique(observations.input, return_index=True)
    prompt, dataset = observations.prompt[first], control.codes("dataset")[first]
    complete = _complete(control, X, first)
    pairs = list(itertools.combinations(range(len(control.systems)), 2))
    columns = [_Column((a, b), _paired(X, complete, a, b)) for a, b in pairs]
    bounded: dict[tuple[int, int], tuple[int, UndefinedPair]] = {}
    for p in pairs if not np.isnan(X).all() else ():
        worst, best = float(np.nanmin(X)), float(np.nanmax(X))
        undefined = undefined_pair(X[:, p], texts[:, p], lacking[:, p], worst, best)
        if undefined is not None:
            bounded[p] = len(columns), undefined
            columns.append(_Column(p, undefined.lowest, (worst, best), undefined.uneven))
            columns.append(_Column(p, undefined.highest, (best, worst), undefined.uneven))
    D = np.column_stack([column.d for column in columns])
    use = ~np.isnan(D)
    K, k = coded(prompt)
    w = np.array([control.weights[d] for d in control.datasets])
    n = np.stack([np.bincount(dataset, u, len(w)) for u in use.T], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(n > 0, w[:, None] / n, 0.0) / (w[:, None] * (n > 0)).sum(axis=0)
    omega = np.where(use, share[dataset], 0.0)  # (inputs, columns), sums to 1 over the inputs
    T, W = cluster_sums(omega * np.where(use, D, 0.0), k, K), cluster_sums(omega, k, K)
    means = np.where(use.any(axis=0), T.sum(axis=0), math.nan)
    measured = MeasuredTexts.of(
        control, np.asarray(observed.texts), measured=_measured(control, observed)
    )
    prior = measured.prior()
    sampled = [
        measured.difference(
            *column.pair, weights, prior=prior, filled=column.ends, uneven=column.uneven
        )
        for column, weights in zip(columns, omega.T, strict=True)
    ]
    tests, of_seeds = difference_tests(T, W, sampled, control.resampling)
    bounds = {
        p: undefined.bounds((means[c], means[c + 1]), (tests.p[c], tests.p[c + 1]))
        for p, (c, undefined) in bounded.items()
    }
    for j, (a, b) in enumerate(pairs):
        rows = use[:, j]
        d = D[rows, j]
        least = float(tests.least[j])
        seeds = {control.systems[s]: measured.seeds_of(s) for s in (a, b)}
        shared = [control.datasets[i] for i in np.unique(dataset[rows])]
        notes = [verdict_basis(seeds, bool(of_seeds[j]))]
        if not (complete[a] and complete[b]):
            place = f": {', '.join(shared)}" if len(shared) < len(control.datasets) else ""
            notes.append(f"on the requests that both have{place}")
        clusters = len(np.unique(prompt[rows]))
        notes += _warnings(d, clusters, least)
        yield Comparison(
            a=control.systems[a],
            b=control.systems[b],
            inputs=d.size,
            left_out=int(rows.size - d.size),
            clusters=clusters,
            difference=float(means[j]),
            low=float(tests.low[j]),
            high=float(tests.high[j]),
            effect=cohen_dz(d, omega[rows, j]),
            p=float(tests.p[j]),
            p_adjusted=math.nan,
            note="; ".join(notes) if d.size else "no request has a value from both",
            bounds=bounds.get((a, b)),
            least_p=least if d.size else 0.0,
        )


def _warnings(d: Floats, clusters: int, least: float) -> Iterator[str]:
    if clusters == 1:
        yield "one prompt: no interval"
    if least > ALPHA and np.any(d):
        yield f"too few independent prompts: p can't go below {least:.3g}"


def _complete(control: ControlData, X: Floats, first: Codes) -> Bools:
    """Returns (systems,): whether a system has texts for every dataset and value."""
    values = max(1, len(control.values))
    stratum = control.codes("dataset")[first] * values + control.observations.value[first]
    strata = len(np.unique(stratum))
    return np.array([len(np.unique(stratum[~np.isnan(x)])) == strata for x in X.T])


def _paired(X: Floats, complete: Bools, a: int, b: int) -> Floats:
    """Returns the differences by input: listwise among complete systems, pairwise otherwise."""
    systems = complete if complete[a] and complete[b] else np.isin(range(len(complete)), (a, b))
    rows = ~np.isnan(X[:, systems]).any(axis=1)
    d = np.full(len(X), np.nan)
    d[rows] = paired_differences(X[rows, a], X[rows, b])
    return d


def _measured(control: ControlData, observed: Observed) -> Bools:
    """Returns (texts,): whether a text is of a cell that was measured."""
    cells = len(control.observations.cells)
    measured = np.array([(i, ALL) in observed.cells for i in range(cells)])
    return np.asarray(measured[control.observations.cell])


def _by_input(control: ControlData, observed: Observed) -> tuple[Floats, Codes, Codes]:
    """Returns (inputs, systems): the mean over a system's texts for an input, NaN without a value;
    how many it has that were measured, and how many of those have none."""
    observations = control.observations
    texts = np.asarray(observed.texts)
    shape = (int(observations.input.max(initial=-1)) + 1, len(control.systems))
    places = observations.input * shape[1] + control.codes("system")
    defined = ~np.isnan(texts)
    all_texts, with_value = (
        np.bincount(places[rows], minlength=math.prod(shape)).reshape(shape)
        for rows in (_measured(control, observed), defined)
    )
    sums = np.bincount(places[defined], texts[defined], math.prod(shape)).reshape(shape)
    with np.errstate(invalid="ignore"):
        means = sums / with_value
    return means, all_texts, all_texts - with_value

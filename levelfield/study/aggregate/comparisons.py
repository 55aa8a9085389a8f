"""Comparisons of systems, paired on equal requests and corrected for their number.

With two seeds or more of either system, prompts and seeds are samples (`stats.seeds.contrast`).
With one seed each, the signs of whole prompts are flipped, and a verdict is about these runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

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
    of_measures = [_compared(control, o) for o in compared.values()]
    return dict(zip(compared, adjusted_comparisons(of_measures, control.resampling), strict=True))


@dataclass(frozen=True)
class _Differences:
    """Differences of all pairs of systems under one measure.

    Attributes:
        D: (inputs, pairs) NaN where an input does not count.
        prompt, dataset: (inputs,) codes.
        complete: (pairs,) whether both systems have texts everywhere.
        undefined: position of a pair -> its differences with undefined values bounded.
        ends: the least and the largest value of an input, which bound undefined ones.
    """

    D: Floats
    prompt: Codes
    dataset: Codes
    complete: Bools
    undefined: Mapping[int, UndefinedPair]
    ends: tuple[float, float]


def _compared(control: ControlData, observed: Observed) -> list[Comparison]:
    differences = _differences(control, observed)
    undefined = differences.undefined
    D = np.column_stack(
        [differences.D, *(d for pair in undefined.values() for d in (pair.lowest, pair.highest))]
    )
    prompt, dataset = differences.prompt, differences.dataset
    use = ~np.isnan(D)
    K, k = coded(prompt)
    w = np.array([control.weights[d] for d in control.datasets])
    n = np.stack([np.bincount(dataset, u, len(w)) for u in use.T], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(n > 0, w[:, None] / n, 0.0) / (w[:, None] * (n > 0)).sum(axis=0)
    omega = np.where(use, share[dataset], 0.0)  # (inputs, columns), sums to 1 over the inputs
    T = cluster_sums(omega * np.where(use, D, 0.0), k, K)
    means = np.where(use.any(axis=0), T.sum(axis=0), math.nan)
    pairs = _pairs(control)
    measured = MeasuredTexts.of(
        control, np.asarray(observed.texts), measured=_measured(control, observed)
    )
    worst, best = differences.ends
    sampled = [measured.difference(*p, w) for p, w in zip(pairs, omega.T, strict=False)]
    for (j, pair), c in zip(undefined.items(), itertools.count(len(pairs), 2)):
        for column, ends in ((c, (worst, best)), (c + 1, (best, worst))):
            sampled.append(
                measured.difference(*pairs[j], omega[:, column], filled=ends, uneven=pair.uneven)
            )
    W = cluster_sums(omega, k, K)
    tests, of_seeds = difference_tests(T, W, sampled, control.resampling)
    bounds = {
        j: pair.bounds((means[c], means[c + 1]), (tests.p[c], tests.p[c + 1]))
        for c, (j, pair) in zip(itertools.count(len(pairs), 2), undefined.items())
    }
    results = []
    for j, (a, b) in enumerate(pairs):
        rows = use[:, j]
        d = D[rows, j]
        on = [control.datasets[i] for i in np.unique(dataset[rows])]
        results.append(
            Comparison(
                a=control.systems[a],
                b=control.systems[b],
                inputs=d.size,
                left_out=int(rows.size - d.size),
                clusters=len(np.unique(prompt[rows])),
                difference=float(means[j]),
                low=float(tests.low[j]),
                high=float(tests.high[j]),
                effect=cohen_dz(d, omega[rows, j]),
                p=float(tests.p[j]),
                p_adjusted=math.nan,
                note=_note(
                    d,
                    prompt[rows],
                    float(tests.least[j]),
                    both_complete=bool(differences.complete[j]),
                    where=", ".join(on) if len(on) < len(control.datasets) else "",
                    seeds={control.systems[s]: measured.seeds_of(s) for s in (a, b)},
                    of_seeds=bool(of_seeds[j]),
                ),
                bounds=bounds.get(j),
                least_p=float(tests.least[j]) if d.size else 0.0,
            )
        )
    return results


def _pairs(control: ControlData) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(control.systems)), 2))


def _differences(control: ControlData, observed: Observed) -> _Differences:
    """Returns the differences by input: listwise among complete systems, pairwise otherwise."""
    observations = control.observations
    X, texts, lacking = _by_input(control, observed)
    inputs, first = np.unique(observations.input, return_index=True)
    dataset = control.dataset_codes(first)
    stratum = dataset * max(1, len(control.values)) + observations.value[first]
    has = ~np.isnan(X)
    strata = len(np.unique(stratum))
    complete = np.array([len(np.unique(stratum[has_one])) == strata for has_one in has.T])
    pairs = _pairs(control)
    ends = (float(np.nanmin(X)), float(np.nanmax(X))) if has.any() else (math.nan, math.nan)
    D = np.full((len(inputs), len(pairs)), np.nan)
    undefined: dict[int, UndefinedPair] = {}
    for j, (a, b) in enumerate(pairs):
        systems = complete if complete[a] and complete[b] else np.isin(range(len(complete)), (a, b))
        rows = has[:, systems].all(axis=1)
        D[rows, j] = paired_differences(X[rows, a], X[rows, b])
        if has.any():
            own = [a, b]
            pair = undefined_pair(X[:, own], texts[:, own], lacking[:, own], *ends)
            undefined |= {j: pair} if pair is not None else {}
    both = np.array([complete[a] and complete[b] for a, b in pairs])
    return _Differences(D, observations.prompt[first], dataset, both, undefined, ends)


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
    system = np.array([control.systems.index(c.key.system) for c in observations.cells])
    shape = (int(observations.input.max(initial=-1)) + 1, len(control.systems))
    at = observations.input * shape[1] + system[observations.cell]
    defined = ~np.isnan(texts)
    all_texts, with_value = (
        np.bincount(at[rows], minlength=math.prod(shape)).reshape(shape)
        for rows in (_measured(control, observed), defined)
    )
    sums = np.bincount(at[defined], texts[defined], math.prod(shape)).reshape(shape)
    with np.errstate(invalid="ignore"):
        means = sums / with_value
    return means, all_texts, all_texts - with_value


def _note(
    d: Floats,
    prompts: Codes,
    least: float,
    *,
    both_complete: bool,
    where: str,
    seeds: Mapping[str, int],
    of_seeds: bool,
) -> str:
    if not d.size:
        return "no request has a value from both"
    notes = [verdict_basis(seeds, of_seeds)]
    if not both_complete:
        notes.append(f"on the requests that both have{f': {where}' if where else ''}")
    if np.unique(prompts).size == 1:
        notes.append("one prompt: no interval")
    if least > ALPHA and np.any(d):
        notes.append(f"too few independent prompts: p can't go below {least:.3g}")
    return "; ".join(notes)

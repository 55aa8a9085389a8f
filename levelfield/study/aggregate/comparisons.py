"""Comparisons of systems, paired on equal requests and corrected for their number."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.meta.summary import Comparison
from levelfield.stats.clusters import cluster_sums, coded
from levelfield.stats.effect import cohen_dz
from levelfield.stats.multiplicity import holm
from levelfield.stats.permutation import paired_differences, sign_flip_p, smallest_p
from levelfield.stats.stratified import weighted_mean_ends
from levelfield.study.aggregate.control import ControlData

_PERMUTATIONS_EACH = 100
"""So many permutations a comparison are drawn at least: with fewer, Holm's smallest adjusted p
could be above 0.01 however clear a difference is."""


def comparisons(control: ControlData) -> dict[str, tuple[Comparison, ...]]:
    """Returns measure -> the comparisons of all pairs of systems.

    Measures known for whole cells only, and single judges, are not compared.
    """
    compared = {
        o.measure.name: o.texts
        for o in control.observations.observed
        if o.texts is not None and o.measure.kind != "judge"
    }
    pairs = len(control.systems) * (len(control.systems) - 1) // 2
    if not pairs:
        return {}
    least = _PERMUTATIONS_EACH * pairs * len(compared)
    permutations = max(control.resampling.permutations, least)
    by_measure = {name: _compared(control, t, permutations) for name, t in compared.items()}
    p = iter(holm([c.p for pairs in by_measure.values() for c in pairs]).tolist())
    return {
        name: tuple(replace(c, p_adjusted=next(p)) for c in pairs)
        for name, pairs in by_measure.items()
    }


@dataclass(frozen=True)
class _Differences:
    """Differences of all pairs of systems under one measure.

    Attributes:
        D: (inputs, pairs) NaN where an input does not count.
        prompt, dataset: (inputs,) codes.
        complete: (pairs,) whether both systems have texts everywhere.
    """

    D: Floats
    prompt: Codes
    dataset: Codes
    complete: Bools


def _compared(control: ControlData, texts: Floats, permutations: int) -> list[Comparison]:
    differences = _differences(control, texts)
    D, prompt, dataset = differences.D, differences.prompt, differences.dataset
    use = ~np.isnan(D)
    K, k = coded(prompt)
    w = np.array([control.weights[d] for d in control.datasets])
    n = np.stack([np.bincount(dataset, u, len(w)) for u in use.T], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(n > 0, w[:, None] / n, 0.0) / (w[:, None] * (n > 0)).sum(axis=0)
    omega = np.where(use, share[dataset], 0.0)  # (inputs, pairs), sums to 1 over the inputs
    T = cluster_sums(omega * np.where(use, D, 0.0), k, K)
    r = control.resampling
    p = sign_flip_p(T, permutations=permutations, seed=r.seed)
    low, high = weighted_mean_ends(
        D,
        prompt,
        dataset,
        w,
        resamples=r.resamples,
        level=r.level,
        seeds=[control.draw_seed(name) for name in control.datasets],
    )
    results = []
    for j, (a, b) in enumerate(_pairs(control)):
        rows = use[:, j]
        d, clusters = D[rows, j], len(np.unique(prompt[rows]))
        on = [control.datasets[i] for i in np.unique(dataset[rows])]
        results.append(
            Comparison(
                a=control.systems[a],
                b=control.systems[b],
                inputs=d.size,
                left_out=int(rows.size - d.size),
                clusters=clusters,
                difference=float(T[:, j].sum()) if d.size else math.nan,
                low=float(low[j]) if clusters > 1 else math.nan,
                high=float(high[j]) if clusters > 1 else math.nan,
                effect=cohen_dz(d, omega[rows, j]),
                p=float(p[j]) if d.size else math.nan,
                p_adjusted=math.nan,
                note=_note(
                    d,
                    prompt[rows],
                    both_complete=bool(differences.complete[j]),
                    where=", ".join(on) if len(on) < len(control.datasets) else "",
                ),
            )
        )
    return results


def _pairs(control: ControlData) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(len(control.systems)), 2))


def _differences(control: ControlData, texts: Floats) -> _Differences:
    """Returns the differences by input: listwise among complete systems, pairwise otherwise."""
    observations = control.observations
    X = _by_input(control, texts)  # (inputs, systems)
    inputs, first = np.unique(observations.input, return_index=True)
    dataset = control.dataset_codes(first)
    stratum = dataset * max(1, len(control.values)) + observations.value[first]
    has = ~np.isnan(X)
    strata = len(np.unique(stratum))
    complete = np.array([len(np.unique(stratum[has_one])) == strata for has_one in has.T])
    pairs = _pairs(control)
    D = np.full((len(inputs), len(pairs)), np.nan)
    for j, (a, b) in enumerate(pairs):
        systems = complete if complete[a] and complete[b] else np.isin(range(len(complete)), (a, b))
        rows = has[:, systems].all(axis=1)
        D[rows, j] = paired_differences(X[rows, a], X[rows, b])
    both = np.array([complete[a] and complete[b] for a, b in pairs])
    return _Differences(D, observations.prompt[first], dataset, both)


def _by_input(control: ControlData, texts: Floats) -> Floats:
    """Returns (inputs, systems): the mean over a system's texts for an input; NaN without one."""
    observations, S = control.observations, len(control.systems)
    system = np.array([control.systems.index(c.key.system) for c in observations.cells])
    n = int(observations.input.max(initial=-1)) + 1
    defined = ~np.isnan(texts)
    at = (observations.input * S + system[observations.cell])[defined]
    with np.errstate(invalid="ignore"):
        means = np.bincount(at, texts[defined], n * S) / np.bincount(at, minlength=n * S)
    return means.reshape(n, S)


def _note(d: Floats, prompts: Codes, *, both_complete: bool, where: str) -> str:
    if not d.size:
        return "no request has a value from both"
    notes = []
    if not both_complete:
        notes.append(f"on the requests that both have{f': {where}' if where else ''}")
    if np.unique(prompts).size == 1:
        notes.append("one prompt: no interval")
    least = smallest_p(d, prompts)
    if least > 0.05 and np.any(d):
        notes.append(f"too few independent prompts: p can't go below {least:.3g}")
    return "; ".join(notes)

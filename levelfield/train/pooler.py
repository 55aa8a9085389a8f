"""Momentum of rated texts: what a pooler is trained on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import UserError
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.undefined import Undefined
from levelfield.metrics.cdm import CDMMomentum
from levelfield.metrics.pooling import LENGTH, Kind, LinearPooler, resampled
from levelfield.stats.correlation import spearman

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)
"""Of the squared weights; `select` takes the one that predicts best what was held out."""
SHARE = 0.2
"""Of the groups, held out."""


class Selected(NamedTuple):
    """A pooler and how well one like it predicts what it has not seen.

    Attributes:
        pooler: trained on everything.
        penalty: the penalty that predicted best what was held out.
        n: how many sequences it was trained on.
        held_out: how many of them the choice was made on.
        spearman: of predictions and targets of those, by the pooler that was trained on the rest;
            NaN where one of them is constant. The penalty was chosen on the same ones, so that it
            flatters a little.
    """

    pooler: LinearPooler
    penalty: float
    n: int
    held_out: int
    spearman: float


def fit(
    sequences: Sequence[Floats],
    targets: Sequence[float],
    *,
    kind: Kind,
    length: int = LENGTH,
    penalty: float = 1.0,
) -> LinearPooler:
    """Returns the pooler that minimises (1/n) Σ_i loss_i + (penalty/2) Σ_l w_l².

    The loss is half the squared error (`ridge`, closed form) or the negative log-likelihood of the
    labels (`logistic`, by L-BFGS).

    Args:
        sequences: each of at least one token, all finite.
        targets: ratings, or labels 0 and 1; one a sequence.

    Raises:
        UserError: fewer than two sequences, targets that are all alike or not numbers, or labels
            other than 0 and 1.
    """
    if len(sequences) != len(targets):
        raise ValueError(f"{len(sequences)} sequences and {len(targets)} targets")
    y, X = _targets(targets, kind), resampled(sequences, length)
    mu, sigma = X.mean(0), X.std(0)
    # what is constant but for rounding says nothing, and must not be blown up
    sigma = np.where(sigma > 1e-9 * (1 + np.abs(mu)), sigma, 1.0)
    Z = (X - mu) / sigma
    w, b = (_ridge if kind == "ridge" else _logistic)(Z, y, penalty)
    return LinearPooler(kind, w, b, mu, sigma)


def select(
    sequences: Sequence[Floats],
    targets: Sequence[float],
    *,
    kind: Kind,
    groups: Sequence[Hashable] | None = None,
    length: int = LENGTH,
    seed: int = 0,
) -> Selected:
    """Returns `fit` with the penalty that predicts best a held-out fifth of the groups, drawn by
    the seed.

    Args:
        groups: sequences of one group are held out together or not at all, since what they share
            would be known; each its own group if None.

    Raises:
        UserError: as `fit`, and where too little is left to train on.
    """
    y = _targets(targets, kind)
    out = _held_out(list(range(len(y))) if groups is None else groups, seed)
    kept, held = np.flatnonzero(~out).tolist(), np.flatnonzero(out).tolist()
    if not held or len(set(y[kept])) < 2:
        raise UserError(
            f"{len(y)} rated sequences are too few: a share is held out, and the ratings of the "
            "rest must differ"
        )

    def trained(rows: Sequence[int], penalty: float) -> LinearPooler:
        row_data = [sequences[i] for i in rows], y[list(rows)].tolist()
        return fit(*row_data, kind=kind, length=length, penalty=penalty)

    guesses = {p: trained(kept, p).predict([sequences[i] for i in held]) for p in PENALTIES}
    losses = {p: _loss(guess, y[held], kind) for p, guess in guesses.items()}
    # of equally good ones the strongest penalty
    best = min(PENALTIES, key=lambda p: (losses[p], -p))
    pooler = trained(range(len(y)), best)
    return Selected(pooler, best, len(y), len(held), spearman(guesses[best], y[held]))


def _targets(targets: Sequence[float], kind: Kind) -> Floats:
    y = np.array(targets, np.float64)
    if len(y) < 2 or not np.isfinite(y).all() or len(set(y)) < 2:
        raise UserError(
            f"a pooler needs at least two rated sequences whose ratings differ, got {len(y)} "
            f"with {len(set(y))} different ratings"
        )
    if kind == "logistic" and not set(y) <= {0.0, 1.0}:
        raise UserError("a logistic pooler needs labels 0 and 1; kind=ridge takes any ratings")
    return y


def _ridge(Z: Floats, y: Floats, penalty: float) -> tuple[Floats, float]:
    n, L = Z.shape
    b = float(y.mean())  # the features' means are 0
    w: Floats = np.linalg.solve(Z.T @ Z / n + penalty * np.eye(L), Z.T @ (y - b) / n)
    return w, b


def _logistic(Z: Floats, y: Floats, penalty: float) -> tuple[Floats, float]:
    from scipy.optimize import minimize
    from scipy.special import expit

    n, L = Z.shape

    def objective(wb: Floats) -> tuple[float, Floats]:
        w, b = wb[:L], wb[L]
        z = Z @ w + b
        loss = np.logaddexp(0, z).mean() - (y * z).mean() + penalty / 2 * w @ w
        error = (expit(z) - y) / n
        return float(loss), np.append(Z.T @ error + penalty * w, error.sum())

    optimum = minimize(objective, np.zeros(L + 1), jac=True, method="L-BFGS-B", tol=1e-10)
    return optimum.x[:L], float(optimum.x[L])


def _held_out(groups: Sequence[Hashable], seed: int) -> Bools:
    distinct = list(dict.fromkeys(groups))
    n = min(len(distinct) - 1, max(1, round(SHARE * len(distinct))))
    drawn = np.random.default_rng(seed).permutation(len(distinct))[:n]
    chosen = {distinct[i] for i in drawn}
    return np.array([group in chosen for group in groups], np.bool_)


def _loss(guess: Floats, y: Floats, kind: Kind) -> float:
    if kind == "ridge":
        return float(((guess - y) ** 2).mean())
    p = np.clip(guess, 1e-12, 1 - 1e-12)
    return float(-(y * np.log(p) + (1 - y) * np.log1p(-p)).mean())


class RatedMomentum(NamedTuple):
    """A sequence, a target and a group for each rated text.

    Attributes:
        aspect: of the ratings.
        momentum: signature of what the sequences are of.
        left_out: how many texts have no sequence or rating, by reason.
    """

    aspect: str
    momentum: str
    sequences: list[Floats]
    targets: list[float]
    groups: list[Hashable]
    left_out: Mapping[str, int]


def rated_momentum(
    metric: CDMMomentum,
    samples: Iterable[Sample],
    aspect: str,
    *,
    progress: Progress = no_progress,
) -> RatedMomentum:
    """Computes the momentum of the texts that are rated on an aspect."""
    momentum = metric.momentum_signature  # fails before the work if anything is wrong with a model
    sequences: list[Floats] = []
    targets: list[float] = []
    groups: list[Hashable] = []
    left_out: Counter[str] = Counter()
    for partition in partitions(samples):
        rated = [s for s in partition if math.isfinite(_rating(s, aspect))]
        left_out.update(["not rated"] * (len(partition) - len(rated)))
        for sample, units in zip(rated, metric.momentum(rated), strict=True):
            if isinstance(units, Undefined):
                left_out[units.reason] += 1
                continue
            sequences.append(np.concatenate([unit.m for unit in units]))
            targets.append(_rating(sample, aspect))
            groups.append(_group(sample))
        progress(len(partition))
    return RatedMomentum(aspect, momentum, sequences, targets, groups, left_out)


def train_pooler(
    rated: RatedMomentum,
    *,
    kind: Kind | Literal["auto"] = "auto",
    length: int = LENGTH,
    seed: int = 0,
) -> Selected:
    """Trains a pooler; `auto` takes a logistic one where all ratings are 0 or 1.

    Raises:
        UserError: the ratings are too few, or all alike; says what was left out.
    """
    if kind == "auto":
        kind = "logistic" if set(rated.targets) <= {0.0, 1.0} else "ridge"
    try:
        selected = select(
            rated.sequences,
            rated.targets,
            kind=kind,
            groups=rated.groups,
            length=length,
            seed=seed,
        )
    except UserError as error:
        left = ", ".join(f"{reason}: {n}" for reason, n in rated.left_out.items())
        raise UserError(f"--aspect {rated.aspect}: {error}; left out: {left or 'none'}") from error
    trained_on = f"{len(rated.targets):,} ratings of {rated.aspect}"
    pooler = replace(selected.pooler, momentum=rated.momentum, trained_on=trained_on)
    return selected._replace(pooler=pooler)


def _rating(sample: Sample, aspect: str) -> float:
    """Returns the mean of a sample's ratings; NaN where there is none."""
    ratings = list(sample.ratings.get(aspect, {}).values())
    return math.fsum(ratings) / len(ratings) if ratings else math.nan


def _group(sample: Sample) -> Hashable:
    """Returns what makes texts alike: prompt, source or context, keywords; else the text is
    alone."""
    keywords = sample.control.get("keywords", ())
    return sample.shared or keywords or sample.id

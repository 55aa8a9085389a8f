"""Pooling: from one number a token to one number a sequence.

Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution Methods", section 4.1.1:
sequences of momentum are summed, averaged, reduced to their largest or smallest value, or given to
a small linear model that was trained on rated sequences.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.stats.correlation import spearman

Kind = Literal["logistic", "ridge"]

FORMAT = "levelfield pooler 1"
LENGTH = 32
PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0)
"""Of the squared weights; `select` takes the one that predicts best what was held out."""


def total(m: Floats) -> float:
    """Σ_t m_t."""
    return float(m.sum())


def mean(m: Floats) -> float:
    """(1/T) Σ_t m_t."""
    return float(m.mean())


def largest(m: Floats) -> float:
    """max_t m_t."""
    return float(m.max())


def smallest(m: Floats) -> float:
    """min_t m_t."""
    return float(m.min())


POOLINGS: Mapping[str, Callable[[Floats], float]] = {
    "sum": total,
    "mean": mean,
    "max": largest,
    "min": smallest,
}
"""The poolings that need no training: of sequences (T,) with at least one token."""


def resample(m: Floats, length: int) -> Floats:
    """A sequence (T,) as one of `length` numbers with the same mean.

    Token t of T holds the stretch from t/T to (t+1)/T of the whole; number l is the mean over the
    stretch from l/length to (l+1)/length. So each token counts, however long the sequence is
    (reading it off at `length` places would skip most of a long one), a single token gives a
    constant, and T = length gives the sequence itself.

    >>> resample(np.array([1.0, 3.0]), 4).tolist(), resample(np.array([1.0, 3.0, 5.0]), 1).tolist()
    ([1.0, 1.0, 3.0, 3.0], [3.0])
    """
    T = len(m)
    area = np.concatenate([[0.0], np.cumsum(m) / T])  # under the sequence, up to t/T
    places = np.linspace(0, 1, length + 1)
    means: Floats = np.diff(np.interp(places, np.linspace(0, 1, T + 1), area)) * length
    return means


@dataclass(frozen=True, eq=False)
class LinearPooler:
    """A linear model of resampled sequences: z = b + Σ_l w_l (x_l − μ_l) / σ_l.

    x is the sequence resampled to L numbers (`resample`), μ and σ are of the training sequences.
    The value is z itself (`ridge`, trained on ratings) or 1 / (1 + exp(−z)) (`logistic`, trained
    on labels 0 and 1).

    Attributes:
        kind: `logistic` or `ridge`.
        weights: w, (L,).
        bias: b.
        mean, scale: μ and σ, (L,); σ > 0.
        momentum: signature of what the sequences are of; others can't be pooled with it.
        trained_on: what it was trained on, in words.
    """

    kind: Kind
    weights: Floats
    bias: float
    mean: Floats
    scale: Floats
    momentum: str = ""
    trained_on: str = ""

    def predict(self, sequences: Sequence[Floats]) -> Floats:
        """The values of sequences, each of at least one token: (sequences,)."""
        from scipy.special import expit

        z = self._standard(sequences) @ self.weights + self.bias
        values: Floats = expit(z) if self.kind == "logistic" else z
        return values

    def _standard(self, sequences: Sequence[Floats]) -> Floats:
        return (_features(sequences, len(self.weights)) - self.mean) / self.scale

    @property
    def digest(self) -> str:
        """What signatures name it by: poolers with equal digests give equal values."""
        numbers = np.concatenate([[self.bias], self.weights, self.mean, self.scale])
        content = self.kind.encode() + numbers.astype("<f8").tobytes()
        return hashlib.sha256(content).hexdigest()[:12]

    def save(self, file: TextIO) -> None:
        """Writes it as JSON, for `load`."""
        document = {
            "format": FORMAT,
            "kind": self.kind,
            "length": len(self.weights),
            "bias": self.bias,
            **{name: getattr(self, name).tolist() for name in _ARRAYS},
            "momentum": self.momentum,
            "trained_on": self.trained_on,
        }
        json.dump(document, file, ensure_ascii=False, indent=1, allow_nan=False)
        file.write("\n")

    @classmethod
    def load(cls, path: str) -> LinearPooler:
        """The pooler of a file that `save` wrote.

        Raises:
            UserError: the file can't be read, or is not a pooler; says what is wrong with it.
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"pooler={path}: can't be read: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise UserError(
                f"pooler={path}: expected a file with format '{FORMAT}'; "
                "`levelfield train pooler` makes one"
            )
        try:
            return cls._of(document)
        except (KeyError, TypeError, ValueError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"pooler={path}: {said}") from error

    @classmethod
    def _of(cls, document: Mapping[str, Any]) -> LinearPooler:
        kind, length = document["kind"], document["length"]
        if kind not in ("logistic", "ridge"):
            raise ValueError(f"kind is {kind!r}, expected logistic or ridge")
        if not isinstance(length, int) or length < 1:
            raise ValueError(f"length is {length!r}, expected a whole number of at least 1")
        arrays = {name: np.array(document[name], np.float64) for name in _ARRAYS}
        bias = float(document["bias"])
        for name, array in arrays.items():
            if array.shape != (length,) or not np.isfinite(array).all():
                raise ValueError(f"{name}: expected {length} finite numbers")
        if not (arrays["scale"] > 0).all() or not np.isfinite(bias):
            raise ValueError("expected a finite bias and a scale above 0")
        return cls(
            kind,
            bias=bias,
            momentum=str(document["momentum"]),
            trained_on=str(document["trained_on"]),
            **arrays,
        )


_ARRAYS = ("weights", "mean", "scale")


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
    momentum: str = "",
    trained_on: str = "",
) -> LinearPooler:
    """The pooler that minimises (1/n) Σ_i loss_i + (penalty/2) Σ_l w_l².

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
    y, X = _targets(targets, kind), _features(sequences, length)
    mu, sigma = X.mean(0), X.std(0)
    # what is constant but for rounding says nothing, and must not be blown up
    sigma = np.where(sigma > 1e-9 * (1 + np.abs(mu)), sigma, 1.0)
    Z = (X - mu) / sigma
    w, b = (_ridge if kind == "ridge" else _logistic)(Z, y, penalty)
    return LinearPooler(kind, w, b, mu, sigma, momentum, trained_on)


def select(
    sequences: Sequence[Floats],
    targets: Sequence[float],
    *,
    kind: Kind,
    groups: Sequence[Hashable] | None = None,
    length: int = LENGTH,
    share: float = 0.2,
    seed: int = 0,
    penalties: Sequence[float] = PENALTIES,
    momentum: str = "",
    trained_on: str = "",
) -> Selected:
    """`fit` with the penalty that predicts best a held-out share of the groups, drawn by the seed.

    Args:
        groups: sequences of one group are held out together or not at all, since what they share
            would be known; each its own group if None.

    Raises:
        UserError: as `fit`, and where too little is left to train on.
    """
    y = _targets(targets, kind)
    out = _held_out(list(range(len(y))) if groups is None else groups, share, seed)
    kept, held = np.flatnonzero(~out).tolist(), np.flatnonzero(out).tolist()
    if not held or len(set(y[kept])) < 2:
        raise UserError(
            f"{len(y)} rated sequences are too few: a share is held out, and the ratings of the "
            "rest must differ"
        )

    def trained(at: Sequence[int], penalty: float) -> LinearPooler:
        chosen = [sequences[i] for i in at]
        return fit(
            chosen,
            y[list(at)].tolist(),
            kind=kind,
            length=length,
            penalty=penalty,
            momentum=momentum,
            trained_on=trained_on,
        )

    guesses = {p: trained(kept, p).predict([sequences[i] for i in held]) for p in penalties}
    losses = {p: _loss(guess, y[held], kind) for p, guess in guesses.items()}
    # of equally good ones the strongest penalty
    best = min(penalties, key=lambda p: (losses[p], -p))
    pooler = trained(range(len(y)), best)
    return Selected(pooler, best, len(y), len(held), spearman(guesses[best], y[held]))


def _features(sequences: Sequence[Floats], length: int) -> Floats:
    """(sequences, length)."""
    return np.array([resample(m, length) for m in sequences]).reshape(len(sequences), length)


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

    found = minimize(objective, np.zeros(L + 1), jac=True, method="L-BFGS-B", tol=1e-10)
    return found.x[:L], float(found.x[L])


def _held_out(groups: Sequence[Hashable], share: float, seed: int) -> npt.NDArray[np.bool_]:
    distinct = list(dict.fromkeys(groups))
    n = min(len(distinct) - 1, max(1, round(share * len(distinct))))
    drawn = np.random.default_rng(seed).permutation(len(distinct))[:n]
    chosen = {distinct[i] for i in drawn}
    return np.array([group in chosen for group in groups], np.bool_)


def _loss(guess: Floats, y: Floats, kind: Kind) -> float:
    if kind == "ridge":
        return float(((guess - y) ** 2).mean())
    p = np.clip(guess, 1e-12, 1 - 1e-12)
    return float(-(y * np.log(p) + (1 - y) * np.log1p(-p)).mean())

"""Pooling: from one number a token to one number a sequence.

Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution Methods", section 4.1.1:
sequences of momentum are summed, averaged, reduced to their largest or smallest value, or given to
a small linear model that was trained on rated sequences.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.io.json_input import read_json

Kind = Literal["logistic", "ridge"]

FORMAT = "levelfield pooler 1"
LENGTH = 32


POOLINGS: Mapping[str, Callable[[Floats], float]] = {
    "sum": lambda m: float(m.sum()),
    "mean": lambda m: float(m.mean()),
    "max": lambda m: float(m.max()),
    "min": lambda m: float(m.min()),
}
"""The poolings that need no training: of sequences (T,) with at least one token."""


def resample(m: Floats, length: int) -> Floats:
    """Returns a sequence (T,) as one of `length` numbers with the same mean.

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
        """Returns the values of sequences, each of at least one token: (sequences,)."""
        from scipy.special import expit

        z = self._standard(sequences) @ self.weights + self.bias
        values: Floats = expit(z) if self.kind == "logistic" else z
        return values

    def _standard(self, sequences: Sequence[Floats]) -> Floats:
        return (resampled(sequences, len(self.weights)) - self.mean) / self.scale

    @property
    def digest(self) -> str:
        """The name of the pooler in signatures: poolers with equal digests give equal values."""
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
        """Returns the pooler of a file that `save` wrote.

        Raises:
            UserError: the file can't be read, or is not a pooler; says what is wrong with it.
        """
        try:
            document = read_json(Path(path))
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
            problem = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"pooler={path}: {problem}") from error

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


def resampled(sequences: Sequence[Floats], length: int) -> Floats:
    """Returns every sequence as `length` numbers: (sequences, length)."""
    return np.array([resample(m, length) for m in sequences]).reshape(len(sequences), length)

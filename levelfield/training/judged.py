"""How good a judge is on texts that it was not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.core.arrays import Floats
from levelfield.stats.correlation import spearman
from levelfield.training.labelled import Labelled

BINS = 10


@dataclass(frozen=True)
class Figures:
    """A judge's figures on held-out texts.

    Attributes:
        n: texts.
        labels: in the order of `confusion`.
        accuracy: share of texts given the right label; of rated texts, those not exactly in the
            middle of the scale.
        macro_f1: mean of 2 TP / (2 TP + FP + FN) over the labels that are right or given somewhere.
        confusion: rows are the right labels, columns those given, counts.
        undecided: texts without words, to which no label is given; they count as wrong, and are
            left out of the figures below.
        ece: expected calibration error over 10 bins of equally many texts, by the probability of
            the label given: Σ n_b / n · |share right in b − mean probability in b|.
        brier: mean over texts of Σ over labels of (P − target)², from 0 to 2.
        spearman: of rated texts, rank correlation of P(high) with the rating; else None.
    """

    n: int
    labels: tuple[str, ...]
    accuracy: float
    macro_f1: float
    confusion: tuple[tuple[int, ...], ...]
    undecided: int
    ece: float
    brier: float
    spearman: float | None = None


def figures(p: Floats, rows: Labelled) -> Figures:
    """The figures of probabilities (texts, labels), NaN where there are none."""
    k = len(rows.labels)
    truth, given = rows.targets.argmax(axis=1), np.nan_to_num(p, nan=-1.0).argmax(axis=1)
    top = np.sort(rows.targets, axis=1)
    clear = top[:, -1] > top[:, -2]  # a rating in the middle of the scale is of no label
    decided = ~np.isnan(p).any(axis=1)
    both = clear & decided
    confusion = np.zeros((k, k), np.int64)
    np.add.at(confusion, (truth[both], given[both]), 1)
    hits = np.diag(confusion)
    right, said = np.bincount(truth[clear], minlength=k), confusion.sum(axis=0)
    occurs = right + said > 0
    return Figures(
        n=len(rows),
        labels=rows.labels,
        accuracy=_share(int(hits.sum()), int(right.sum())),
        macro_f1=_share(
            float((2 * hits[occurs] / (right + said)[occurs]).sum()), int(occurs.sum())
        ),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        undecided=int((~decided).sum()),
        ece=calibration_error(p[both].max(axis=1), (given == truth)[both]),
        brier=_share(float(((p - rows.targets)[decided] ** 2).sum()), int(decided.sum())),
        spearman=spearman(p[decided, 1], rows.targets[decided, 1]) if rows.rated else None,
    )


def calibration_error(confidence: Floats, right: npt.NDArray[np.bool_], bins: int = BINS) -> float:
    """Expected calibration error over bins of equally many texts; NaN without texts.

    >>> calibration_error(np.array([0.5, 0.5]), np.array([True, False]), bins=1)
    0.0
    """
    if not len(confidence):
        return float("nan")
    order = np.argsort(confidence, kind="stable")
    gaps = [
        len(one) * abs(float(right[one].mean()) - float(confidence[one].mean()))
        for one in np.array_split(order, bins)
        if len(one)
    ]
    return sum(gaps) / len(confidence)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")

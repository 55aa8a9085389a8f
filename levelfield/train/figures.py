"""How good a judge is on texts that it was not trained on."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import UserError
from levelfield.io.json_input import read_json
from levelfield.stats.correlation import spearman
from levelfield.train.labelled import Labelled

TEST = "test.json"
BINS = 10
SHARES = ("accuracy", "macro_f1", "ece", "brier")
"""Figures that are NaN where no held-out text tells."""


@dataclass(frozen=True)
class Figures:
    """A judge's figures on held-out texts.

    Attributes:
        n: texts.
        labels: in the order of `confusion`.
        accuracy: share of texts whose predicted label is right; of rated texts, those not exactly
            in the middle of the scale.
        macro_f1: mean of 2 TP / (2 TP + FP + FN) over the labels that are right or predicted
            somewhere.
        confusion: rows are the right labels, columns the predicted ones; counts.
        undecided: texts without words, which get no label; they count as wrong, and are
            left out of the figures below.
        ece: expected calibration error over 10 bins of equally many texts, by the probability of
            the predicted label: Σ n_b / n · |share right in b − mean probability in b|.
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

    def facts(self) -> dict[str, str]:
        """Returns rows for a model's card."""
        rank = (
            {} if self.spearman is None else {"Spearman": f"{self.spearman:.4f} with the ratings"}
        )
        confusion = {
            f"Confusion, {label}": ", ".join(
                f"{n:,} as {predicted}" for n, predicted in zip(row, self.labels, strict=True)
            )
            for label, row in zip(self.labels, self.confusion, strict=True)
        }
        return {
            "Accuracy": f"{self.accuracy:.4f} on {self.n:,} held-out texts",
            "Macro F1": f"{self.macro_f1:.4f}",
            **rank,
            "Calibration error": f"{self.ece:.4f} (10 bins of equally many texts)",
            "Brier score": f"{self.brier:.4f} (from 0 to 2)",
            "Without words": f"{self.undecided:,}, counted as wrong",
            **confusion,
        }


def figures(p: Floats, rows: Labelled) -> Figures:
    """Returns the figures of probabilities (texts, labels), NaN where there are none."""
    k = len(rows.labels)
    truth, prediction = rows.targets.argmax(axis=1), np.nan_to_num(p, nan=-1.0).argmax(axis=1)
    top = np.sort(rows.targets, axis=1)
    clear = top[:, -1] > top[:, -2]  # a rating in the middle of the scale is of no label
    decided = ~np.isnan(p).any(axis=1)
    counted = clear & decided
    confusion = np.zeros((k, k), np.int64)
    np.add.at(confusion, (truth[counted], prediction[counted]), 1)
    hits = np.diag(confusion)
    right, predicted = np.bincount(truth[clear], minlength=k), confusion.sum(axis=0)
    occurs = right + predicted > 0
    return Figures(
        n=len(rows),
        labels=rows.labels,
        accuracy=_share(int(hits.sum()), int(right.sum())),
        macro_f1=_share(
            float((2 * hits[occurs] / (right + predicted)[occurs]).sum()), int(occurs.sum())
        ),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        undecided=int((~decided).sum()),
        ece=calibration_error(p[counted].max(axis=1), (prediction == truth)[counted]),
        brier=_share(float(((p - rows.targets)[decided] ** 2).sum()), int(decided.sum())),
        spearman=spearman(p[decided, 1], rows.targets[decided, 1]) if rows.rated else None,
    )


def calibration_error(confidence: Floats, right: Bools, bins: int = BINS) -> float:
    """Returns the expected calibration error over bins of equally many texts; NaN without texts.

    >>> calibration_error(np.array([0.5, 0.5]), np.array([True, False]), bins=1)
    0.0
    """
    if not len(confidence):
        return float("nan")
    order = np.argsort(confidence, kind="stable")
    gaps = [
        len(bin_rows) * abs(float(right[bin_rows].mean()) - float(confidence[bin_rows].mean()))
        for bin_rows in np.array_split(order, bins)
        if len(bin_rows)
    ]
    return sum(gaps) / len(confidence)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def write_figures(figures: Figures, folder: Path) -> None:
    """Writes `test.json` of a model folder; a figure that is NaN is null."""
    rows = {
        name: None if isinstance(value, float) and math.isnan(value) else value
        for name, value in dataclasses.asdict(figures).items()
    }
    (folder / TEST).write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_figures(folder: Path) -> Figures:
    """Returns the figures of a trained judge.

    Raises:
        UserError: the folder has none.
    """
    try:
        rows = read_json(folder / TEST)
        confusion = tuple(map(tuple, rows.pop("confusion")))
        rows |= {name: math.nan for name in SHARES if rows[name] is None}
        return Figures(**{**rows, "labels": tuple(rows["labels"])}, confusion=confusion)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder}: {TEST} is missing or damaged; train into a new folder"
        ) from error

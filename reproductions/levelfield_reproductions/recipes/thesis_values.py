"""Metric values and ratings of the texts of the style-transfer thesis (Mao, 2021).

Texts that two systems gave to one source were shown to the experts once: they are one judgement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from levelfield.core.direction import direction_of
from levelfield.core.registry import create, installed
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io.ratings import Rated, Rating
from levelfield.io.scores import ScoreColumn
from levelfield_reproductions.recipes.released import Scoring, samples_of
from levelfield_reproductions.recipes.thesis import HUMAN
from levelfield_reproductions.verdict import Derived

SET = "formality-judgements"
PLAIN = ("bleu", "chrf", "meteor", "rouge-1", "rouge-2", "rouge-l")
WITH_MODEL = ("bertscore", "wmd", "mover", "cosine")
"""Our measures; each is a metric against sources and one against references."""

_RELEASED = ("content-src", "content-ref", "cls-xformal", "cls-pt16", "reg-pt16", "ppl")
_LOWER_IS_BETTER = ("WMD", "ppl")


@dataclass(frozen=True)
class MetricColumns:
    """Values of metrics for the 720 texts.

    Attributes:
        values: one column per metric.
        flipped: those of which lower is better.
        signatures: of those computed here.
        left_out: metric -> why it is not there.
    """

    values: tuple[ScoreColumn, ...]
    flipped: tuple[str, ...]
    signatures: Mapping[str, str]
    left_out: Mapping[str, str]


def judgements(samples: Sequence[Sample]) -> list[Sample]:
    """Returns a sample per text and source, that of a system rather than the human reference.

    Its ratings are the means where the released ones of the same text differ (2 texts).
    """
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in sorted(samples, key=lambda s: s.system == HUMAN):
        groups.setdefault((sample.source, sample.text), []).append(sample)
    return [
        replace(
            same[0],
            ratings={
                aspect: {rater: fmean(s.ratings[aspect][rater] for s in same) for rater in by}
                for aspect, by in same[0].ratings.items()
            },
        )
        for same in groups.values()
    ]


def rated(samples: Iterable[Sample]) -> Rated:
    """Returns the ratings as meta-evaluation reads them; experts of two surveys are different
    people."""
    samples = list(samples)
    return Rated(
        tuple(
            Rating(s.id, aspect, f"survey {s.extra['survey']}, expert {rater}", value)
            for s in samples
            for aspect, by in s.ratings.items()
            for rater, value in by.items()
        ),
        {s.id: s for s in samples},
    )


def metric_columns(samples: Sequence[Sample], scoring: Scoring) -> MetricColumns:
    """Returns the released values of metrics, and those of our metrics on the same texts."""
    columns: list[ScoreColumn] = []
    flipped: list[str] = []
    signatures: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for part in _RELEASED:
        here = samples_of(SET, part)
        if isinstance(here, Derived):
            left_out[f"released {part}"] = str(here.gap)
            continue
        for name, values in _released(part, here).items():
            columns.append(ScoreColumn(name, "released", values))
            flipped += [name] if any(word in name for word in _LOWER_IS_BETTER) else []
    names_installed = installed()
    for measure in (*PLAIN, *WITH_MODEL):
        for name in (f"{measure}.source", f"{measure}.references"):
            if name not in names_installed:
                left_out[name] = "not installed"
            elif measure in WITH_MODEL and not scoring.model:
                left_out[name] = "needs a model: name it with --model"
            else:
                options = {"model": scoring.model} if measure in WITH_MODEL else {}
                [metric] = create([name], options, {})
                compared = [s for s in samples if _is_compared(name, s)]
                scores = scoring.score(metric, compared)
                columns.append(_column(scores))
                signatures[name] = scores.signature
                flipped += [name] if direction_of(metric) == "lower" else []
    return MetricColumns(tuple(columns), tuple(flipped), signatures, left_out)


def _is_compared(name: str, sample: Sample) -> bool:
    """Returns whether a text counts for a metric: a human reference would compare with itself."""
    return not (name.endswith(".references") and sample.system == HUMAN)


def _column(scores: Scores) -> ScoreColumn:
    values = dict(zip(scores.ids, scores.values.tolist(), strict=True))
    return ScoreColumn(scores.metric, scores.signature, values)


def _released(part: str, samples: Sequence[Sample]) -> dict[str, dict[str, float]]:
    """Returns released metric -> id -> value; for a classifier, the value of the wanted style."""
    kind = part.replace("-", ".")
    if kind.startswith("content"):
        against = {"content.src": ".source", "content.ref": ".references"}[kind]
        return {
            f"released {name.replace('without source', '(no source)')}{against}": {
                s.id: s.extra[kind][name] for s in samples if _is_compared(against, s)
            }
            for name in samples[0].extra[kind]
        }

    def towards(sample: Sample) -> float:
        value = float(np.mean(sample.extra[kind]))
        if kind == "ppl" or sample.control["formality"] == "formal":
            return value
        return 1 - value if kind.startswith("cls") else -value

    return {f"released {kind}": {s.id: towards(s) for s in samples}}

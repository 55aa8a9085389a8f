"""A linear head on an encoder's states as a judge."""

from __future__ import annotations

from levelfield.models.contracts import Classifier
from levelfield.models.small.heads import train_linear
from levelfield.train.builder import Workplace
from levelfield.train.judge import JudgeSpec
from levelfield.train.judge.architectures import Architecture
from levelfield.train.labelled import Labelled
from levelfield.train.loop import HistoryRow


def _train(
    train: Labelled, spec: JudgeSpec, place: Workplace
) -> tuple[Classifier, list[HistoryRow]]:
    judge = train_linear(
        train.texts,
        train.targets,
        train.times,
        train.labels,
        start=spec.start,
        layers=spec.layers,
        l2=spec.l2,
        loading=spec.loading,
        progress=place.progress,
    )
    judge.save(place.out, attribute=spec.attribute)
    return judge, []


def _describe(_: Labelled, spec: JudgeSpec) -> str:
    return f"linear head on {spec.layers} layers of {spec.start}, L2 {spec.l2:g}"


LINEAR = Architecture(_train, _describe)

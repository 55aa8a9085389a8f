"""TextCNN (Kim 2014) as a judge, trained from random weights."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from levelfield.models.contracts import Classifier
from levelfield.models.small.textcnn import PAD, TextCNN, TextCNNClassifier, Vocabulary
from levelfield.models.tokens import padded
from levelfield.train.builder import Workplace
from levelfield.train.judge import JudgeSpec
from levelfield.train.judge.architectures import Architecture, Classification, passes, splitter
from levelfield.train.labelled import Labelled
from levelfield.train.loop import HistoryRow, fit, seeded
from levelfield.train.recipe import Recipe


def recipe_of(train: Labelled, spec: JudgeSpec) -> Recipe:
    """Returns the recipe; the learning rate rises over the first hundredth of the steps."""
    return passes(train, spec, warmup=100, seed=spec.seed)


def _train(
    train: Labelled, spec: JudgeSpec, place: Workplace
) -> tuple[Classifier, list[HistoryRow]]:
    vocabulary = Vocabulary.of(train.texts, most=spec.vocabulary, split=splitter(spec))
    with seeded(spec.seed):
        model = TextCNN(len(vocabulary.words), len(train.labels), spec.shape).to(place.device)

    def logits(ids: Sequence[Sequence[int]]) -> torch.Tensor:
        z: torch.Tensor = model(torch.from_numpy(padded(ids, PAD)).to(place.device))
        return z

    read = str(len(vocabulary.words))
    task = Classification(train, vocabulary.ids(train.texts), logits, read, spec.batch, spec.seed)
    recipe = recipe_of(train, spec)
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    judge = TextCNNClassifier(model, vocabulary, train.labels)
    judge.save(place.out, attribute=spec.attribute, half=spec.half)
    return judge, history


def _describe(train: Labelled, spec: JudgeSpec) -> str:
    shape = spec.shape
    return (
        f"TextCNN: vectors of {shape.dimension}, {shape.channels} convolutions of each of the "
        f"widths {', '.join(map(str, shape.widths))}, dropout {shape.dropout:g}; "
        f"{recipe_of(train, spec).steps:,} steps of {spec.batch} texts"
    )


TEXTCNN = Architecture(_train, _describe)

"""A fine-tuned encoder as a judge."""

from __future__ import annotations

from levelfield.models.contracts import Classifier
from levelfield.models.resolve import resolve
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import load_to_tune
from levelfield.train.builder import Workplace
from levelfield.train.judge import JudgeSpec
from levelfield.train.judge.architectures import Architecture, Classification, passes
from levelfield.train.labelled import Labelled
from levelfield.train.loop import HistoryRow, fit, seeded
from levelfield.train.recipe import Recipe


def recipe_of(train: Labelled, spec: JudgeSpec) -> Recipe:
    """Returns the recipe; the learning rate rises over the first tenth of the steps."""
    return passes(train, spec.tuning, warmup=10, seed=spec.seed)


def _train(
    train: Labelled, spec: JudgeSpec, place: Workplace
) -> tuple[Classifier, list[HistoryRow]]:
    """Trains every weight but the word vectors, of which a few thousand texts show too few."""
    resolved = resolve(spec.start, spec.loading)
    with seeded(spec.seed):
        model, tokenizer = load_to_tune(resolved, train.labels, place.device)
    model.get_input_embeddings().weight.requires_grad_(False)
    judge = TorchClassifier(model, tokenizer)
    ids, cut = judge.read(train.texts)
    if any(cut):
        place.notes(
            f"{sum(cut):,} texts are longer than the encoder reads, and are learnt from in part"
        )
    batch = spec.tuning.batch
    task = Classification(train, ids, judge.logits, resolved.label, batch, spec.seed)
    recipe = recipe_of(train, spec)
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    judge.save(place.out, attribute=spec.attribute)
    return judge, history


def _describe(train: Labelled, spec: JudgeSpec) -> str:
    tuning = spec.tuning
    return (
        f"{spec.start}, fine-tuned but for its word vectors: {recipe_of(train, spec).steps:,} "
        f"steps of {tuning.batch} texts, learning rate {tuning.learning_rate:g}"
    )


TRANSFORMER = Architecture(_train, _describe)

"""What a judge can be: how each architecture is trained."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch

from levelfield.models.contracts import Classifier
from levelfield.models.resolve import resolve
from levelfield.models.small.fasttext import library, train_fasttext
from levelfield.models.small.heads import Encoder, LinearClassifier, States, fit_head
from levelfield.models.small.shapes import PLAIN, WITH_CASE
from levelfield.models.small.textcnn import PAD, TextCNN, TextCNNClassifier, Vocabulary
from levelfield.models.tokens import padded
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import load_to_tune
from levelfield.train.builder import Account, Trained, Workplace, build
from levelfield.train.figures import Figures, figures, read_figures, write_figures
from levelfield.train.judge import JudgeSpec
from levelfield.train.labelled import Labelled, LabelledTexts
from levelfield.train.loop import HistoryRow, Loss, Passes, fit, seeded
from levelfield.train.recipe import PassSettings, Recipe


class TrainedJudge(NamedTuple):
    """A judge that is saved in its folder.

    Attributes:
        judge: the classifier.
        description: of the architecture, for the model card.
        history: of the training; empty if it has no steps.
    """

    judge: Classifier
    description: str
    history: list[HistoryRow]


@dataclass(frozen=True)
class Architecture:
    """One kind of judge.

    Attributes:
        train: trains a judge and saves it in the workplace's folder.
        check: raises a UserError where a library is missing, before a folder is made.
    """

    train: Callable[[Labelled, JudgeSpec, Workplace], TrainedJudge]
    check: Callable[[], object] = lambda: None


def build_judge(
    texts: LabelledTexts, spec: JudgeSpec, out: Path, **account: Unpack[Account]
) -> Figures:
    """Trains a judge, tests it on held-out texts, and leaves a model folder with a card at `out`.

    The folder's `test.json` has the figures. Equal texts, spec and seed give equal models on one
    CPU.

    Args:
        texts: what the judge learns from, and what the figures are of; nothing is chosen by it.
        account: further sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: an encoder or a library that is missing, and as of `build`.
    """
    architecture, train, test = TRAININGS[spec.architecture], texts.train, texts.test
    architecture.check()

    def learn(spec: JudgeSpec, place: Workplace) -> Trained:
        judge, description, history = architecture.train(train, spec, place)
        tried = figures(judge.probabilities(test.texts)[0], test)
        write_figures(tried, out)
        rows = {
            "Attribute": spec.attribute,
            "Labels": ", ".join(train.labels),
            "Architecture": description,
            "Trained on": f"{len(train):,} different texts",
            **texts.facts,
            **tried.facts(),
        }
        return Trained(f"judges the {spec.attribute} of texts", rows, history)

    account["sources"] = (*texts.sources, *account.get("sources", ()))
    build(learn, spec, texts.digest, out, **account)
    return read_figures(out)


CHECKPOINT_STEPS = 500
"""Fewest steps between two checkpoints."""


def recipe_of(rows: Labelled, spec: JudgeSpec) -> Recipe:
    """Returns the recipe of the passes over the texts. The learning rate rises over the first
    hundredth of the steps, of a fine-tuned encoder over the first tenth, and falls to a tenth."""
    tunes = spec.architecture == "transformer"
    settings: PassSettings = spec.tuning if tunes else spec
    steps = max(1, round(settings.epochs * int(rows.times.sum()) / settings.batch))
    return Recipe(
        steps=steps,
        learning_rate=settings.learning_rate,
        warmup=steps // (10 if tunes else 100),
        decay=1.0,
        weight_decay=0.01,
        seed=spec.seed,
        every=max(CHECKPOINT_STEPS, steps // 4),
    )


@dataclass(frozen=True)
class Classification:
    """The task of a model that reads ids.

    Attributes:
        rows: texts and their labels.
        ids: of each text.
        logits: of the ids of some texts: (texts, labels).
        read: names what made the ids, for the identity of the run.
        batch: texts a step.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    logits: Callable[[Sequence[Sequence[int]]], torch.Tensor]
    read: str
    batch: int
    seed: int

    @property
    def identity(self) -> str:
        return f"judge {self.rows.digest} {self.read} {self.batch}"

    def loss(self, _: Any, step: int) -> Loss:
        """Returns the cross-entropy with the targets, in nats."""
        rows = self._passes.rows(step)
        logits = self.logits([self.ids[i] for i in rows])
        targets = torch.from_numpy(self.rows.targets[rows]).float().to(logits.device)
        total = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return Loss(total, len(rows))

    def validation(self, _: Any) -> Mapping[str, float]:
        """Returns nothing: held-out texts decide nothing, and are tested once, at the end."""
        return {}

    @functools.cached_property
    def _passes(self) -> Passes:
        lengths = [len(ids) for ids in self.ids]
        return Passes(self.rows.times, lengths, self.batch, self.seed)


def _splitter(spec: JudgeSpec) -> str:
    """Returns the name of how texts become words."""
    return WITH_CASE if spec.case else PLAIN


def _textcnn(train: Labelled, spec: JudgeSpec, place: Workplace) -> TrainedJudge:
    """Trains a TextCNN (Kim 2014) from random weights."""
    vocabulary = Vocabulary.of(train.texts, most=spec.vocabulary, split=_splitter(spec))
    with seeded(spec.seed):
        model = TextCNN(len(vocabulary.words), len(train.labels), spec.shape).to(place.device)

    def logits(ids: Sequence[Sequence[int]]) -> torch.Tensor:
        z: torch.Tensor = model(torch.from_numpy(padded(ids, PAD)).to(place.device))
        return z

    ids, read = vocabulary.ids(train.texts), str(len(vocabulary.words))
    task = Classification(train, ids, logits, read, spec.batch, spec.seed)
    recipe = recipe_of(train, spec)
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    judge = TextCNNClassifier(model, vocabulary, train.labels)
    judge.save(place.out, attribute=spec.attribute, half=spec.half)
    shape = spec.shape
    description = (
        f"TextCNN: vectors of {shape.dimension}, {shape.channels} convolutions of each of the "
        f"widths {', '.join(map(str, shape.widths))}, dropout {shape.dropout:g}; "
        f"{recipe.steps:,} steps of {spec.batch} texts"
    )
    return TrainedJudge(judge, description, history)


COPIES = 6
"""Lines that a rated text is written as for fastText, which takes one label a line."""


def _fasttext(train: Labelled, spec: JudgeSpec, place: Workplace) -> TrainedJudge:
    """Trains fastText (Joulin et al. 2017)."""
    targets = train.targets
    if not train.rated:  # equal texts with different labels are few: the most frequent counts
        targets = np.eye(len(train.labels))[targets.argmax(axis=1)]
    repeated = np.repeat(np.arange(len(train)), train.times)
    judge = train_fasttext(
        [train.texts[i] for i in repeated],
        targets[repeated],
        train.labels,
        spec.fasttext,
        seed=spec.seed,
        copies=COPIES if train.rated else 1,
        split=_splitter(spec),
    )
    judge.save(place.out, attribute=spec.attribute)
    settings = asdict(spec.fasttext).items()
    description = f"fastText: {', '.join(f'{name} {value}' for name, value in settings)}"
    return TrainedJudge(judge, description, [])


def _linear(train: Labelled, spec: JudgeSpec, place: Workplace) -> TrainedJudge:
    """Trains a linear head on a model's states; texts without tokens are not learnt from."""
    resolved = resolve(spec.start, spec.loading)
    states = States(resolved, spec.layers, spec.loading, depth=spec.depth)
    x, _ = states.of(train.texts, progress=place.progress)
    read = ~np.isnan(x).any(axis=1)
    head = fit_head(x[read], train.targets[read], train.times[read], spec.l2)
    encoder = Encoder.of(spec.start, resolved, spec.layers, spec.depth, bos=states.reads_bos)
    judge = LinearClassifier(head, train.labels, encoder, states)
    judge.save(place.out, attribute=spec.attribute)
    up_to = f" up to layer {spec.depth}" if spec.depth else ""
    description = f"linear head on {spec.layers} layers{up_to} of {spec.start}, L2 {spec.l2:g}"
    return TrainedJudge(judge, description, [])


def _transformer(train: Labelled, spec: JudgeSpec, place: Workplace) -> TrainedJudge:
    """Trains every weight of an encoder but the word vectors, of which a few thousand texts show
    too few."""
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
    tuning, recipe = spec.tuning, recipe_of(train, spec)
    task = Classification(train, ids, judge.logits, resolved.label, tuning.batch, spec.seed)
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    judge.save(place.out, attribute=spec.attribute)
    description = (
        f"{spec.start}, fine-tuned but for its word vectors: {recipe.steps:,} "
        f"steps of {tuning.batch} texts, learning rate {tuning.learning_rate:g}"
    )
    return TrainedJudge(judge, description, history)


TRAININGS: Mapping[str, Architecture] = {
    "textcnn": Architecture(_textcnn),
    "fasttext": Architecture(_fasttext, library),
    "linear": Architecture(_linear),
    "transformer": Architecture(_transformer),
}
"""The architectures of `levelfield.train.judge.ARCHITECTURES`, by the same names."""

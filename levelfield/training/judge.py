"""Style judges: small classifiers of texts, from labelled texts to a model folder.

Section 3.2.2 of the thesis has TextCNN (Kim 2014) and fastText (Joulin et al. 2017); a linear head
on an encoder's states is the third, and the cheapest that has seen more language than its own
training texts; the fourth learns the encoder, too.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.models.resolve import resolve
from levelfield.models.small.fasttext import Settings, describe, library, train_fasttext
from levelfield.models.small.heads import train_linear
from levelfield.models.small.lexis import PLAIN, WITH_CASE
from levelfield.models.small.textcnn import Shape, TextCNN, TextCNNClassifier, Vocabulary, padded
from levelfield.models.torch.classifier import Classifier, TorchClassifier
from levelfield.models.torch.loading import load_to_tune, pick_device, quiet
from levelfield.training.card import Card, write_card
from levelfield.training.folder import close, opened, run_of
from levelfield.training.judged import Figures, figures
from levelfield.training.labelled import Labelled
from levelfield.training.loop import Loss, Recipe, Row, fit

Architecture = Literal["textcnn", "fasttext", "linear", "transformer"]
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)
ON_ENCODERS: tuple[Architecture, ...] = ("linear", "transformer")
Notes = Callable[[str], object]

TEST = "test.json"
SHARES = ("accuracy", "macro_f1", "ece", "brier")
"""Figures that are no number where no held-out text tells."""
COPIES = 6
"""Lines that a rated text is written as for fastText, which takes one label a line."""


@dataclass(frozen=True)
class Tuning:
    """How an encoder is fine-tuned: passes over the texts, texts a step, and the learning rate."""

    epochs: float = 3.0
    batch: int = 16
    learning_rate: float = 1e-4


@dataclass(frozen=True)
class Spec:
    """What to train. Each architecture has settings of its own; those of others say nothing.

    Attributes:
        attribute: what the labels are values of.
        seed: of weights, batches and dropout.
        case: whether TextCNN and fastText see which words are written with capitals.
        shape, vocabulary, epochs, batch, learning_rate, half: of TextCNN: what it is made of, how
            many words it knows, passes over the texts, texts a step, and whether weights are saved
            in half precision.
        fasttext: of fastText.
        tuning: of a transformer.
        start: the encoder below a linear head, or the one that is fine-tuned.
        layers, l2: of a linear head: how many of the encoder's last layers are read (its word
            vectors are one; MiniLM has 7), and the weight of half the squared norm.
    """

    attribute: str
    architecture: Architecture
    seed: int = 0
    case: bool = False
    shape: Shape = field(default_factory=Shape)
    vocabulary: int = 20_000
    epochs: float = 6.0
    batch: int = 64
    learning_rate: float = 1e-3
    half: bool = False
    fasttext: Settings = field(default_factory=Settings)
    tuning: Tuning = field(default_factory=Tuning)
    start: str = "offline/minilm"
    layers: int = 7
    l2: float = 0.3
    device: str = "auto"
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if self.architecture not in ARCHITECTURES:
            raise UserError(
                f"there is no architecture '{self.architecture}'; there are "
                f"{', '.join(ARCHITECTURES)}"
            )
        if self.architecture not in ON_ENCODERS:
            object.__setattr__(self, "start", "")

    @property
    def split(self) -> str:
        """How texts become words."""
        return WITH_CASE if self.case else PLAIN


def build_judge(
    train: Labelled,
    test: Labelled,
    spec: Spec,
    out: Path,
    *,
    sources: Sequence[str],
    facts: Mapping[str, str] = {},
    notes: Notes = lambda _: None,
    progress: Progress = no_progress,
) -> Figures:
    """Trains a judge, tries it on held-out texts, and leaves a model folder with a card at `out`.

    The folder's `test.json` has the figures. A run that was killed is run again (TextCNN and a
    transformer go on from their last checkpoint), and a folder that holds the finished model of the
    same run is left as it is. Equal texts, spec and seed give equal models on one CPU.

    Args:
        train: what is learnt from.
        test: what the figures are of; nothing is chosen by it.
        sources: for the card: what the texts are and their licence, a line each.
        facts: more rows for the card.
        progress: called with steps done.

    Raises:
        UserError, ModelError: nothing to train on, a folder with something else in it, an encoder
            or a library that is not there.
    """
    quiet()
    device = pick_device(spec.device)
    if spec.architecture == "fasttext":
        library()  # before a folder is made
    run = run_of(spec, f"{train.digest} {test.digest}")
    if opened(out, run) is not None:
        notes(f"{out} holds this model already")
        return read_figures(out)
    if spec.architecture == "textcnn":
        judge, history = _textcnn(train, spec, out, device, progress)
    elif spec.architecture == "fasttext":
        judge, history = _fasttext(train, spec, out)
    elif spec.architecture == "transformer":
        judge, history = _transformer(train, spec, out, device, notes, progress)
    else:
        judge, history = _linear(train, spec, out, device, progress)
    found = figures(judge.probabilities(test.texts)[0], test)
    known = {name: _or_null(value) for name, value in dataclasses.asdict(found).items()}
    written = json.dumps(known, indent=1, allow_nan=False)
    (out / TEST).write_text(written + "\n", encoding="utf-8")
    write_card(_card(out, spec, train, found, sources, facts), out)
    close(out, run, history)
    return found


def read_figures(folder: Path) -> Figures:
    """The figures of a trained judge.

    Raises:
        UserError: the folder has none.
    """
    try:
        found = json.loads((folder / TEST).read_text(encoding="utf-8"))
        confusion = tuple(map(tuple, found.pop("confusion")))
        found |= {name: math.nan for name in SHARES if found[name] is None}
        return Figures(**{**found, "labels": tuple(found["labels"])}, confusion=confusion)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder}: {TEST} is missing or damaged; train into a new folder"
        ) from error


def _or_null(value: Any) -> Any:
    """The value; none where it is no number, for which JSON has no word."""
    return None if isinstance(value, float) and math.isnan(value) else value


# -- architectures


def _textcnn(
    train: Labelled, spec: Spec, out: Path, device: torch.device, progress: Progress
) -> tuple[Classifier, list[Row]]:
    vocabulary = Vocabulary.of(train.texts, most=spec.vocabulary, split=spec.split)
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(spec.seed)
        model = TextCNN(len(vocabulary.words), len(train.labels), spec.shape).to(device)

    def logits(ids: Sequence[Sequence[int]]) -> torch.Tensor:
        found: torch.Tensor = model(padded(ids).to(device))
        return found

    read = str(len(vocabulary.words))
    task = Classification(train, vocabulary.ids(train.texts), logits, read, spec.batch, spec.seed)
    history = fit(model, task, recipe_of(train, spec), out / "training", progress=progress)
    judge = TextCNNClassifier(model, vocabulary, train.labels)
    judge.save(out, attribute=spec.attribute, half=spec.half)
    return judge, history


def _transformer(
    train: Labelled,
    spec: Spec,
    out: Path,
    device: torch.device,
    notes: Notes,
    progress: Progress,
) -> tuple[Classifier, list[Row]]:
    """Every weight but the word vectors, of which a few thousand texts show too few."""
    resolved = resolve(spec.start, allow_pickle=spec.allow_pickle)
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(spec.seed)
        model, tokenizer = load_to_tune(resolved, train.labels, device)
    model.get_input_embeddings().weight.requires_grad_(False)
    judge = TorchClassifier.of(model, tokenizer)
    ids, cut = judge.read(train.texts)
    if any(cut):
        notes(f"{sum(cut):,} texts are longer than the encoder reads, and are learnt from in part")
    tuning = spec.tuning
    task = Classification(train, ids, judge.logits, resolved.label, tuning.batch, spec.seed)
    history = fit(model, task, recipe_of(train, spec), out / "training", progress=progress)
    judge.save(out, attribute=spec.attribute)
    return judge, history


def recipe_of(train: Labelled, spec: Spec) -> Recipe:
    """How a TextCNN or a transformer is trained: the rate falls to a tenth over all steps; it
    rises over the first hundredth of them for a TextCNN, the first tenth for a transformer."""
    tuned = spec.architecture == "transformer"
    how = spec.tuning if tuned else spec
    steps = max(1, round(how.epochs * int(train.times.sum()) / how.batch))
    return Recipe(
        steps=steps,
        learning_rate=how.learning_rate,
        warmup=steps // (10 if tuned else 100),
        decay=1.0,
        weight_decay=0.01,
        seed=spec.seed,
        every=max(500, steps // 4),
    )


def _fasttext(train: Labelled, spec: Spec, out: Path) -> tuple[Classifier, list[Row]]:
    targets = train.targets
    if not train.rated:  # equal texts with different labels are few: the most frequent counts
        targets = np.eye(len(train.labels))[targets.argmax(axis=1)]
    often = np.repeat(np.arange(len(train)), train.times)
    judge = train_fasttext(
        [train.texts[i] for i in often],
        targets[often],
        train.labels,
        spec.fasttext,
        seed=spec.seed,
        copies=COPIES if train.rated else 1,
        split=spec.split,
    )
    judge.save(out, attribute=spec.attribute)
    return judge, []


def _linear(
    train: Labelled, spec: Spec, out: Path, device: torch.device, progress: Progress
) -> tuple[Classifier, list[Row]]:
    judge = train_linear(
        train.texts,
        train.targets,
        train.times,
        train.labels,
        start=spec.start,
        layers=spec.layers,
        l2=spec.l2,
        device=device,
        allow_pickle=spec.allow_pickle,
        progress=progress,
    )
    judge.save(out, attribute=spec.attribute)
    return judge, []


@dataclass(frozen=True)
class Classification:
    """The task of a model that reads ids; a batch is a function of the seed and the step's number.

    Every pass has all texts, each as often as it is to be learnt from, in an order of its own.
    Texts of `POOL` batches are sorted by length, so that little of a batch is padding, and the
    batches of a pool come in random order.

    Attributes:
        rows: texts and their labels.
        ids: of each text.
        logits: what the model says of the ids of some texts, (texts, labels).
        read: what made the ids, for the run's identity.
        batch: texts a step.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    logits: Callable[[Sequence[Sequence[int]]], torch.Tensor]
    read: str
    batch: int
    seed: int

    POOL = 50

    @property
    def identity(self) -> str:
        return f"judge {self.rows.digest} {self.read} {self.batch}"

    def loss(self, _: Any, step: int) -> Loss:
        """Cross-entropy with the targets, in nats."""
        rows = self._batch(step)
        logits = self.logits([self.ids[i] for i in rows])
        targets = torch.from_numpy(self.rows.targets[rows]).float().to(logits.device)
        total = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return Loss(total, len(rows))

    def validation(self, _: Any) -> Mapping[str, float]:
        """Nothing: held-out texts decide nothing, and are tried once, at the end."""
        return {}

    @functools.cached_property
    def _often(self) -> npt.NDArray[np.intp]:
        return np.repeat(np.arange(len(self.rows)), self.rows.times)

    @functools.cached_property
    def _passes(self) -> dict[int, list[npt.NDArray[np.intp]]]:
        return {}

    def _batch(self, step: int) -> npt.NDArray[np.intp]:
        each = -(-len(self._often) // self.batch)
        epoch, at = divmod(step, each)
        if epoch not in self._passes:
            self._passes.clear()
            self._passes[epoch] = self._pass(np.random.default_rng([self.seed, epoch]))
        return self._passes[epoch][at]

    def _pass(self, rng: np.random.Generator) -> list[npt.NDArray[np.intp]]:
        order = rng.permutation(self._often)
        batches = []
        for begin in range(0, len(order), self.POOL * self.batch):
            pool = order[begin : begin + self.POOL * self.batch]
            pool = pool[np.argsort([len(self.ids[i]) for i in pool], kind="stable")]
            of_pool = [pool[i : i + self.batch] for i in range(0, len(pool), self.batch)]
            batches += [of_pool[i] for i in rng.permutation(len(of_pool))]
        return batches


# -- the card


def _card(
    out: Path,
    spec: Spec,
    train: Labelled,
    test: Figures,
    sources: Sequence[str],
    facts: Mapping[str, str],
) -> Card:
    on = f"on {test.n:,} held-out texts"
    rows = {
        "Attribute": spec.attribute,
        "Labels": ", ".join(train.labels),
        "Architecture": _described(train, spec),
        "Trained on": f"{len(train):,} different texts",
        **facts,
        "Accuracy": f"{test.accuracy:.4f} {on}",
        "Macro F1": f"{test.macro_f1:.4f}",
        **({} if test.spearman is None else {"Spearman": f"{test.spearman:.4f} with the ratings"}),
        "Calibration error": f"{test.ece:.4f} (10 bins of equally many texts)",
        "Brier score": f"{test.brier:.4f} (from 0 to 2)",
        "Without words": f"{test.undecided:,}, counted as wrong",
        **{
            f"Confusion, {label}": ", ".join(
                f"{n:,} as {given}" for n, given in zip(row, test.labels, strict=True)
            )
            for label, row in zip(test.labels, test.confusion, strict=True)
        },
        "Seed": str(spec.seed),
        "Made with": f"PyTorch {torch.__version__}, Python {platform.python_version()}",
    }
    return Card(out.name, f"judges the {spec.attribute} of texts", rows, tuple(sources))


def _described(train: Labelled, spec: Spec) -> str:
    if spec.architecture == "textcnn":
        shape = spec.shape
        return (
            f"TextCNN: vectors of {shape.dimension}, {shape.channels} convolutions of each of the "
            f"widths {', '.join(map(str, shape.widths))}, dropout {shape.dropout:g}; "
            f"{recipe_of(train, spec).steps:,} steps of {spec.batch} texts"
        )
    if spec.architecture == "fasttext":
        return f"fastText: {describe(spec.fasttext)}"
    if spec.architecture == "transformer":
        tuning = spec.tuning
        return (
            f"{spec.start}, fine-tuned but for its word vectors: {recipe_of(train, spec).steps:,} "
            f"steps of {tuning.batch} texts, learning rate {tuning.learning_rate:g}"
        )
    return f"linear head on {spec.layers} layers of {spec.start}, L2 {spec.l2:g}"

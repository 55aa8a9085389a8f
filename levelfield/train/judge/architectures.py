"""What a judge can be: the contract of an architecture."""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import torch

from levelfield.core.arrays import Codes
from levelfield.models.small.shapes import PLAIN, WITH_CASE
from levelfield.train.builder import Account, Trained, Workplace, build
from levelfield.train.figures import Figures, figures, read_figures, write_figures
from levelfield.train.judge import ARCHITECTURES, JudgeSpec
from levelfield.train.labelled import Labelled, LabelledTexts
from levelfield.train.loop import Loss, Passes
from levelfield.train.recipe import PassSettings, Recipe

if TYPE_CHECKING:
    from levelfield.models.contracts import Classifier
    from levelfield.train.loop import HistoryRow


@dataclass(frozen=True)
class Architecture:
    """One kind of judge.

    Attributes:
        train: trains a judge and saves it in the workplace's folder; gives the judge and the
            history of its training, empty where there are no steps.
        describe: what the model card says of the architecture.
        check: raises a UserError where a library is missing, before a folder is made.
    """

    train: Callable[[Labelled, JudgeSpec, Workplace], tuple[Classifier, list[HistoryRow]]]
    describe: Callable[[Labelled, JudgeSpec], str]
    check: Callable[[], object] = lambda: None


def architecture_of(spec: JudgeSpec) -> Architecture:
    """Returns the architecture of a judge."""
    architecture: Architecture = pkgutil.resolve_name(ARCHITECTURES[spec.architecture].target)
    return architecture


def splitter(spec: JudgeSpec) -> str:
    """Returns the name of how texts become words."""
    return WITH_CASE if spec.case else PLAIN


def build_judge(
    train: Labelled,
    test: Labelled,
    spec: JudgeSpec,
    out: Path,
    *,
    facts: Mapping[str, str] = {},
    **account: Unpack[Account],
) -> Figures:
    """Trains a judge, tests it on held-out texts, and leaves a model folder with a card at `out`.

    The folder's `test.json` has the figures. Equal texts, spec and seed give equal models on one
    CPU.

    Args:
        train: what the judge learns from.
        test: what the figures are of; nothing is chosen by it.
        facts: more rows for the card.
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: an encoder or a library that is missing, and as of `build`.
    """
    architecture = architecture_of(spec)
    architecture.check()

    def learn(spec: JudgeSpec, place: Workplace) -> Trained:
        judge, history = architecture.train(train, spec, place)
        tried = figures(judge.probabilities(test.texts)[0], test)
        write_figures(tried, out)
        rows = {
            "Attribute": spec.attribute,
            "Labels": ", ".join(train.labels),
            "Architecture": architecture.describe(train, spec),
            "Trained on": f"{len(train):,} different texts",
            **facts,
            **tried.facts(),
        }
        return Trained(f"judges the {spec.attribute} of texts", rows, history)

    build(learn, spec, LabelledTexts(train, test, {}, ()).digest, out, **account)
    return read_figures(out)


CHECKPOINT_STEPS = 500
"""Fewest steps between two checkpoints."""


def passes(rows: Labelled, settings: PassSettings, *, warmup: int, seed: int) -> Recipe:
    """Returns the recipe of the passes over the texts; the learning rate falls to a tenth.

    Args:
        warmup: the rate rises over the first step in so many.
    """
    steps = max(1, round(settings.epochs * int(rows.times.sum()) / settings.batch))
    return Recipe(
        steps=steps,
        learning_rate=settings.learning_rate,
        warmup=steps // warmup,
        decay=1.0,
        weight_decay=0.01,
        seed=seed,
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
    def _passes(self) -> Passes:
        lengths = [len(ids) for ids in self.ids]
        return Passes(self.rows.times, lengths, self.batch, self.seed)

    def _batch(self, step: int) -> Codes:
        return self._passes.rows(step)

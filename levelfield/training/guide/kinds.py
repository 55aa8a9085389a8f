"""What a guide can be: the contract of a kind, and the tables of kinds and techniques."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from levelfield.core.errors import UserError
from levelfield.core.options import choices, parsed
from levelfield.models.guides import GuideKind
from levelfield.models.resolve import OFFLINE_LM

if TYPE_CHECKING:
    import torch

    from levelfield.training.builder import Workplace
    from levelfield.training.labelled import LabelledTexts
    from levelfield.training.loop import HistoryRow

TECHNIQUES: Mapping[str, GuideKind] = {
    "gedi": "class-lm",
    "dexperts": "class-lm",
    "ctrl-lite": "class-lm",
    "fudge": "future",
    "pplm": "head",
    "discup": "soft-prompt",
    "multictg": "latent",
    "priorctg": "latent",
}
"""Technique -> the kind of guide that it needs."""

KINDS: Mapping[GuideKind, str] = {
    "class-lm": "levelfield.training.guide.class_lm:CLASS_LM",
    "future": "levelfield.training.guide.future:FUTURE",
    "head": "levelfield.training.guide.head:HEAD",
    "soft-prompt": "levelfield.training.guide.soft_prompt:SOFT_PROMPT",
    "latent": "levelfield.training.guide.latent:LATENT",
}
"""Kind -> where its `GuideTraining` is; none is imported before it is used."""

OF_SEVERAL: frozenset[GuideKind] = frozenset({"latent"})
"""Kinds of guides that serve several attributes at once."""


@dataclass(frozen=True)
class GuideSpec:
    """What to train.

    Attributes:
        kind: a name in `KINDS`.
        attribute: what the labels are values of; several names with commas between them where
            the kind allows it.
        settings: those of the kind.
        start: the base.
        seed: of weights and batches.
        precision: of products; weights and their updates are float32.
        allow_pickle: take a base whose weights are pickled.
    """

    kind: GuideKind
    attribute: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: str = OFFLINE_LM
    seed: int = 0
    device: str = "auto"
    precision: str = "float32"
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if "," in self.attribute and self.kind not in OF_SEVERAL:
            raise UserError(
                f"guides of kind {self.kind} have one attribute, not {self.attribute}; train one "
                "for each"
            )


@dataclass(frozen=True)
class TrainedGuide:
    """What training leaves.

    Attributes:
        settings: what `guide.json` says beside attribute, labels and base; held-out figures are
            under `figures`, a number each.
        tensors: of `guide.safetensors`.
        facts: rows for the card.
        history: of the training.
    """

    settings: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]
    facts: Mapping[str, str]
    history: list[HistoryRow]


@dataclass(frozen=True)
class GuideTraining:
    """How guides of one kind are trained.

    Attributes:
        choices: the dataclass of its settings, by the names of the options of `levelfield train
            guide`; all have defaults.
        train: trains a guide and tries it on the held-out texts.
        summary: what the guide does, in a few words, for the card.
    """

    choices: type[Any]
    train: Callable[[LabelledTexts, GuideSpec, Workplace], TrainedGuide]
    summary: str

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults, and what the user gave in their place; None is not given.

        Args:
            given: values, or words as the user wrote them.

        Raises:
            UserError: a setting that the kind does not have, or a word that is no value of it.
        """
        own = {name: value for name, value in given.items() if value is not None}
        known = choices(self.choices)
        if foreign := sorted(own.keys() - known.keys()):
            option = {"lam": "lambda"}.get(foreign[0], foreign[0].replace("_", "-"))
            raise UserError(f"--{option} is no option of this kind of guide; leave it out")
        return {**asdict(self.choices()), **parsed("guide", known, own)}


def guide_training(kind: GuideKind) -> GuideTraining:
    """How guides of this kind are trained."""
    training = pkgutil.resolve_name(KINDS[kind])
    assert isinstance(training, GuideTraining)
    return training

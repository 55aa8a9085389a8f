"""What a guide can be: the contract of a kind."""

# Annotations of options stay objects here, since options are read from them.

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from levelfield.core.errors import UserError
from levelfield.core.options import Options, group, option
from levelfield.models.guides import GuideKind
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.training.guide.settings import KINDS, OF_SEVERAL

if TYPE_CHECKING:
    import torch

    from levelfield.training.builder import Workplace
    from levelfield.training.labelled import LabelledTexts
    from levelfield.training.loop import HistoryRow


@dataclass(frozen=True)
class GuideSpec(Options):
    """How a guide is trained."""

    kind: GuideKind = option(help="Kind of guide.", positional=True)
    attribute: str = option(
        help="Attribute whose labels are learnt: control.ATTRIBUTE of the samples; several, "
        "separated by commas, where the kind allows it.",
        positional=True,
    )
    settings: Mapping[str, Any] = option({}, "Settings of the kind.")
    start: str = option(
        OFFLINE_LM, "Base of the guide: a causal model.", flags=("--model",), metavar="NAME"
    )
    seed: int = option(0, "Seed of weights and batches.", least=0)
    precision: Literal["float32", "bfloat16"] = option(
        "float32", "Precision of matrix products; weights and their updates are always float32."
    )
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))

    def __post_init__(self) -> None:
        super().__post_init__()
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
    tensors: "Mapping[str, torch.Tensor]"
    facts: Mapping[str, str]
    history: "list[HistoryRow]"


@dataclass(frozen=True)
class GuideTraining:
    """How guides of one kind are trained.

    Attributes:
        train: trains a guide and tries it on the held-out texts.
        summary: what the guide does, in a few words, for the card.
    """

    train: "Callable[[LabelledTexts, GuideSpec, Workplace], TrainedGuide]"
    summary: str


def guide_training(kind: GuideKind) -> GuideTraining:
    """How guides of this kind are trained."""
    training = pkgutil.resolve_name(KINDS[kind])
    assert isinstance(training, GuideTraining)
    return training

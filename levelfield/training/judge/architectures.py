"""What a judge can be: the contract of an architecture, and the table of all."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.models.contracts import Classifier
    from levelfield.training.builder import Workplace
    from levelfield.training.judge.spec import JudgeSpec
    from levelfield.training.labelled import Labelled
    from levelfield.training.loop import HistoryRow

ARCHITECTURES: Mapping[str, str] = {
    "textcnn": "levelfield.training.judge.textcnn:TEXTCNN",
    "fasttext": "levelfield.training.judge.fasttext:FASTTEXT",
    "linear": "levelfield.training.judge.linear:LINEAR",
    "transformer": "levelfield.training.judge.transformer:TRANSFORMER",
}
"""Name -> where the `Architecture` is; none is imported before it is used."""


@dataclass(frozen=True)
class Architecture:
    """One kind of judge.

    Attributes:
        train: trains a judge and saves it in the workplace's folder; gives the judge and the
            history of its training, empty where there are no steps.
        describe: what the model card says of the architecture.
        options: those of `levelfield train judge` that are its own.
        settings: the field of `JudgeSpec` that holds its settings; empty where they are fields of
            the spec itself.
        on_encoder: whether training begins from an encoder.
        check: raises a UserError where a library is missing, before a folder is made.
    """

    train: Callable[[Labelled, JudgeSpec, Workplace], tuple[Classifier, list[HistoryRow]]]
    describe: Callable[[Labelled, JudgeSpec], str]
    options: tuple[str, ...]
    settings: str = ""
    on_encoder: bool = False
    check: Callable[[], object] = lambda: None


def architecture_named(name: str) -> Architecture:
    """The architecture of this name.

    Raises:
        UserError: there is none.
    """
    if name not in ARCHITECTURES:
        raise UserError(f"there is no architecture '{name}'; there are {', '.join(ARCHITECTURES)}")
    architecture: Architecture = pkgutil.resolve_name(ARCHITECTURES[name])
    return architecture

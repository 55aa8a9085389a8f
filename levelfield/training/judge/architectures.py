"""What a judge can be: the contract of an architecture."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from levelfield.models.small.shapes import PLAIN, WITH_CASE
from levelfield.training.judge import ARCHITECTURES, JudgeSpec

if TYPE_CHECKING:
    from levelfield.models.contracts import Classifier
    from levelfield.training.builder import Workplace
    from levelfield.training.labelled import Labelled
    from levelfield.training.loop import HistoryRow


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

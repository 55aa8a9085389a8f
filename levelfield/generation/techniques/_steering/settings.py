"""Settings of guides of kind `vector`."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.options import option
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import TOKENS, GuideSettings


@dataclass(frozen=True)
class VectorSettings(GuideSettings):
    """How steering vectors are measured."""

    kind: ClassVar[GuideKind] = "vector"
    states: Literal["mean", "last"] = option(
        "mean", "State of a text in each layer: the mean over its tokens, or that of the last."
    )
    layer: int | None = option(
        None,
        "Layer whose vector techniques use unless they name another, counted from 0.",
        least=0,
        otherwise="the one two thirds of the way up",
    )
    texts: int = option(
        0, "Maximum number of texts per label to read, drawn by the seed; 0 for all.", least=0
    )
    tokens: int = option(128, TOKENS, least=1)


SETTINGS = VectorSettings

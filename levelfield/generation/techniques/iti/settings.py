"""Settings of guides of kind `heads`."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.options import option
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import TOKENS, GuideSettings


@dataclass(frozen=True)
class HeadsSettings(GuideSettings):
    """How directions of attention heads are measured."""

    kind: ClassVar[GuideKind] = "heads"
    states: Literal["mean", "last"] = option(
        "mean",
        "Output of each head that represents a text: the mean over its tokens, or that of the "
        "last one, as in ITI.",
    )
    texts: int = option(
        0, "Maximum number of texts per label to read, drawn by the seed; 0 for all.", least=0
    )
    tokens: int = option(128, TOKENS, least=1)


SETTINGS = HeadsSettings

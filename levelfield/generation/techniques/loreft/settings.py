"""Settings of guides of kind `reft`."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import BATCH, EPOCHS, RATE, TOKENS, GuideSettings


@dataclass(frozen=True)
class ReftSettings(GuideSettings):
    """How edits of states are trained."""

    kind: ClassVar[GuideKind] = "reft"
    rank: int = option(4, "Rank r of an edit.", least=1, most=1024)
    edited_layers: str = option(
        "",
        "Layers whose states are edited: numbers and ranges, counted from 0, as in 8-12,15.",
        otherwise="all",
        metavar="LAYERS",
    )
    tokens: int = option(48, TOKENS, least=1)
    epochs: float = option(1.0, EPOCHS, above=0, most=10_000)
    batch: int = option(16, BATCH, least=1)
    learning_rate: float = option(4e-3, RATE.format("twentieth"), above=0)


SETTINGS = ReftSettings

"""Settings of guides of kind `class-lm`."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import BATCH, EPOCHS, RATE, TOKENS, GuideSettings


@dataclass(frozen=True)
class ClassLMSettings(GuideSettings):
    """How a class-conditional model is trained."""

    kind: ClassVar[GuideKind] = "class-lm"
    lam: float = option(
        0.8,
        "Share λ of the generative loss of a class-conditional model; the rest is the weight of "
        "telling labels apart.",
        least=0,
        most=1,
        flags=("--lambda",),
    )
    layers: int = option(15, "Number of the base's upper layers that are trained.", least=1)
    rank: int = option(8, "Rank of the adapter.", least=1, most=1024)
    tokens: int = option(48, TOKENS, least=1)
    epochs: float = option(1.0, EPOCHS, above=0, most=10_000)
    batch: int = option(16, BATCH, least=1)
    learning_rate: float = option(1e-3, RATE.format("twentieth"), above=0)


SETTINGS = ClassLMSettings

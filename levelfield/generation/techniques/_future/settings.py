"""Settings of guides of kind `future`."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import BATCH, EPOCHS, RATE, TOKENS, GuideSettings


@dataclass(frozen=True)
class FutureSettings(GuideSettings):
    """How a future discriminator is trained."""

    kind: ClassVar[GuideKind] = "future"
    width: int = option(
        64,
        "Width of FUDGE's network, with one attention head per 16.",
        fits=lambda width: width >= 16 and width % 16 == 0,
        expected="a multiple of 16",
    )
    layers: int = option(2, "Number of layers of the network.", least=1)
    dropout: float = option(0.2, "Dropout of FUDGE's network, in training.", least=0, below=1)
    tokens: int = option(128, TOKENS, least=1)
    epochs: float = option(1.0, EPOCHS, above=0, most=10_000)
    batch: int = option(64, BATCH, least=1)
    learning_rate: float = option(1e-3, RATE.format("tenth"), above=0)


SETTINGS = FutureSettings

"""Settings of guides of kind `latent`."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import BATCH, EPOCHS, RATE, TOKENS, GuideSettings


@dataclass(frozen=True)
class LatentSettings(GuideSettings):
    """How latents, prefixes and the flow are trained."""

    kind: ClassVar[GuideKind] = "latent"
    serves_several: ClassVar[bool] = True
    encoder: str = option(
        "offline/minilm", "Model of sentence embeddings; its weights stay as they are."
    )
    size: int = option(64, "Size d of a latent.", least=2)
    positions: int = option(8, "Number P of virtual positions of a prefix.", least=1)
    rank: int = option(
        64, "Rank of the map from latents to keys and values; 0 for full rank.", least=0
    )
    texts: int = option(
        0, "Maximum number of texts per label to learn from, drawn by the seed; 0 for all.", least=0
    )
    noise: float = option(
        1e-3, "Standard deviation of the noise added to latents in training.", least=0
    )
    kept: int = option(
        2000,
        "Maximum number of latents per label that stay in the guide, for the search of MultiCTG.",
        least=1,
    )
    tokens: int = option(20, TOKENS, least=1)
    epochs: float = option(0.5, EPOCHS, above=0, most=10_000)
    batch: int = option(16, BATCH, least=1)
    learning_rate: float = option(5e-3, RATE.format("twentieth"), above=0)
    head_steps: int = option(
        300, "Number of steps for encoder and head alone, before those with the base.", least=0
    )
    flow_blocks: int = option(8, "Number of affine couplings of the flow.", least=1)
    flow_width: int = option(128, "Width of a coupling's network.", least=1)
    flow_steps: int = option(2000, "Number of steps of the flow's own training.", least=1)


SETTINGS = LatentSettings

"""Settings of guides of kind `head`."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import option
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import TOKENS, GuideSettings


@dataclass(frozen=True)
class HeadSettings(GuideSettings):
    """How a head is trained."""

    kind: ClassVar[GuideKind] = "head"
    tokens: int = option(128, TOKENS, least=1)
    l2: float = option(
        0.03, "Weight of |W|² / 2, for W on states of mean 0 and deviation 1.", least=0
    )


SETTINGS = HeadSettings

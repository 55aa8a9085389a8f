"""What the settings of all kinds of guides have in common."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass
from typing import ClassVar

from levelfield.core.options import Options, option
from levelfield.models.guides import GuideKind
from levelfield.train.recipe import HeldOutOptions

EPOCHS = "Number of passes over the texts."
BATCH = "Texts per step."
TOKENS = "Maximum number of tokens per text; longer texts are cut."
RATE = "Learning rate after the warm-up, a {} of the steps; falls to a tenth."


@dataclass(frozen=True)
class GuideData(HeldOutOptions):
    """Which texts a guide learns, and which are held out."""

    held_out: tuple[str, ...] = option(
        (),
        "File of texts to test the guide on, or a data set, whose part test is used; may be given "
        "again.",
        is_file=True,
        metavar="NAME|FILE",
    )
    share: float | None = option(
        0.05,
        "Share of the texts to test the guide on, if nothing is held out.",
        above=0,
        below=1,
    )
    sentences: int = option(
        1, "Number of sentences per passage that is cut from the reviews of a data set.", least=1
    )


@dataclass(frozen=True)
class GuideSettings(Options):
    """Settings of a kind of guide, in `settings.py` of the folder whose `training.py` trains it.

    Attributes:
        kind: of guide.
        serves_several: whether a guide serves several attributes at once.
    """

    kind: ClassVar[GuideKind]
    serves_several: ClassVar[bool] = False

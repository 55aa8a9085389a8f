"""Settings of guides of kind `soft-prompt`."""

# Annotations stay objects here, since options are read from them.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.io.problems import shown
from levelfield.models.guides import GuideKind
from levelfield.train.guide.settings import BATCH, EPOCHS, RATE, TOKENS, GuideSettings

Normalised = Literal["candidates", "vocabulary"]


@dataclass(frozen=True)
class SoftPromptSettings(GuideSettings):
    """How soft prompts are distilled; `Distillation` has the loss."""

    kind: ClassVar[GuideKind] = "soft-prompt"
    prompt: str = option(
        "10",
        "Number m of embeddings per prompt, or LABEL=NUMBER for each label, separated by commas.",
    )
    start: str = option(
        " {label}",
        "Text whose embeddings a prompt begins with, repeated up to m tokens; {label} and "
        "{attribute} are replaced. Empty for zeros, as the authors have it.",
    )
    teacher: str = option(
        "class-lm",
        "Discriminator: a guide by name or folder, or a kind of guide (class-lm, future), for "
        "which the one that comes with the package is used.",
    )
    candidates: int = option(110, "Number K of likely next tokens to learn from.", least=2)
    temperature: float = option(0.03, "Temperature τ of the targets softmax(y / τ).", above=0)
    anchor: float = option(
        1.0, "Weight β of the base's own log p in the targets softmax(y / τ + β log p).", least=0
    )
    unlikelihood: float = option(1.0, "Weight of the sum over unlikely tokens.", least=0)
    normalised: Normalised = option(
        "vocabulary", "Tokens over which the probabilities of the base sum to 1."
    )
    tokens: int = option(30, TOKENS, least=1)
    epochs: float = option(0.2, EPOCHS, above=0, most=10_000)
    batch: int = option(8, BATCH, least=1)
    learning_rate: float = option(2e-3, RATE.format("twentieth"), above=0)

    def lengths(self, labels: Sequence[str]) -> dict[str, int]:
        """Returns m of each label.

        Raises:
            UserError: a label without a number or a number without a label, or none at all.
        """
        parts = [part.rpartition("=") for part in self.prompt.split(",")]
        words = {label.strip(): number.strip() for label, _, number in parts}
        if words.keys() == {""}:
            words = dict.fromkeys(labels, words[""])
        if words.keys() != set(labels) or not all(n.isdecimal() and int(n) for n in words.values()):
            raise UserError(
                f"prompt is {shown(self.prompt)}; expected a number of at least 1, or one for each "
                f"label, as in {','.join(f'{label}=10' for label in labels)}"
            )
        return {label: int(words[label]) for label in labels}


SETTINGS = SoftPromptSettings

"""How a model is trained: updates, rates, seed and precision."""

from __future__ import annotations

# Annotations stay objects here, since options are read from them.
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, Self

from levelfield.core.limits import SEED
from levelfield.core.options import Options, group, option
from levelfield.core.sample import Sample

# Annotations stay objects here, since options are read from them.
from levelfield.io.reading import ReadingOptions

DETAILS = ("warmup", "decay", "weight_decay", "embeddings", "clip")
"""Choices of a recipe that commands leave as they are."""


@dataclass(frozen=True)
class Recipe(Options):
    """How a model is trained; together with the task it decides every number.

    A new T5 has embeddings of deviation 1, about fifteen times its other weights, and was made for
    an optimizer whose updates grow with what they update (Raffel et al. 2020, 3.1.2): `embeddings`
    is for it.
    """

    steps: int = option(help="Number of updates.", least=1, most=1_000_000_000, positional=True)
    learning_rate: float = option(
        1e-3,
        "Learning rate after the warm-up; falls linearly to a tenth at the end.",
        least=0,
        key="learning-rate",
    )
    warmup: int | None = option(
        100,
        "Number of updates over which the learning rate rises from 0.",
        least=0,
        otherwise="a twentieth of the steps, at most 100",
    )
    decay: float = option(
        0.5,
        "Share of the steps, from the end, over which the learning rate falls.",
        least=0,
        most=1,
    )
    weight_decay: float = option(
        0.01,
        "Weight decay of AdamW, on matrices other than the embeddings.",
        least=0,
        key="weight-decay",
    )
    embeddings: float | None = option(
        1.0,
        "Learning rate of the input embeddings, as a multiple of that of the other weights.",
        least=0,
        otherwise="15 for a t5 from random weights, else 1",
    )
    clip: float = option(1.0, "Largest norm of the gradient.", above=0)
    seed: int = option(0, "Seed of weights, batches and dropout.", least=0, most=SEED)
    precision: Literal["auto", "float32", "bfloat16"] = option(
        "float32",
        "Precision of matrix products; auto is bfloat16 on a GPU. Weights and their updates are "
        "float32 either way.",
    )
    every: int = option(
        500, "Number of steps between validations; each leaves a checkpoint.", least=1
    )

    def settled(self, on_gpu: bool, *, embeddings: float = 1.0) -> Recipe:
        """Returns the recipe with a value for each choice that was left to the machine or model.

        Args:
            embeddings: where the recipe says none.
        """
        automatic: Literal["bfloat16", "float32"] = "bfloat16" if on_gpu else "float32"
        return dataclasses.replace(
            self,
            warmup=self.rise,
            embeddings=embeddings if self.embeddings is None else self.embeddings,
            precision=automatic if self.precision == "auto" else self.precision,
        )

    @property
    def rise(self) -> int:
        """Updates over which the learning rate rises."""
        return min(100, self.steps // 20) if self.warmup is None else self.warmup

    def rate(self, step: int) -> float:
        """Returns the learning rate of a step, counted from 0."""
        up = min(1.0, (step + 1) / max(1, self.rise))
        left = (self.steps - step) / max(1, round(self.steps * self.decay))
        return self.learning_rate * up * (0.1 + 0.9 * min(1.0, left))


class PassSettings(Protocol):
    """Settings of a training: passes over the texts, texts a step, and the learning rate."""

    @property
    def epochs(self) -> float: ...
    @property
    def batch(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...


def by_command(steps: int, learning_rate: float, embeddings: float | None = 1.0) -> Recipe:
    """Returns the recipe that a kind begins from: what it does not say is settled by the machine.

    Args:
        embeddings: None where the model that is begun from decides.
    """
    return Recipe(steps, learning_rate, warmup=None, embeddings=embeddings, precision="auto")


@dataclass(frozen=True)
class Stepwise(Options):
    """Base of what says how a model of one kind is trained step by step."""

    recipe: Recipe = group(by_command(1_000, 1e-3))

    def settled(self, on_gpu: bool) -> Self:
        """Returns it with a value for each choice that was left to the machine or model."""
        return dataclasses.replace(self, recipe=self.recipe.settled(on_gpu))


ONE_FILE = (*("source_file", "reference_files", "control", "system", "prompt", "thoughts", "ids"),)
"""Choices of reading that files of labelled texts and of pairs do not have."""


@dataclass(frozen=True)
class HeldOutOptions(Options):
    """How files are read, and what of them is held out."""

    held_out: tuple[str, ...] = option(
        (), "File to test the model on; may be given again.", is_file=True, metavar="FILE"
    )
    share: float | None = option(
        0.1,
        "Share of the pairs to test the model on, if no file is held out.",
        least=0,
        below=1,
    )
    seed: int = option(0, "Seed of the choice of what is held out.", least=0, most=SEED)
    reading: ReadingOptions = group(ReadingOptions(), without=ONE_FILE)

    def samples(self, files: Sequence[str]) -> list[Sample]:
        """Returns the samples of files.

        Raises:
            UserError, InputError: a file can't be read; with everything that is wrong in it.
        """
        from levelfield.io import open_samples

        source = open_samples(files, self.reading, ids="any")
        source.check()
        return list(source)

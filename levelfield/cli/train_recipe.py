"""Options that commands of training share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from levelfield.cli.options import FiniteNumber, WholeNumber

if TYPE_CHECKING:
    from levelfield.training.loop import Recipe

F = TypeVar("F", bound=Callable[..., Any])

SOURCE = click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="TEXT",
    help="Line of the card that says what the corpus is and its licence; may be given again.",
)


@dataclass(frozen=True)
class RecipeOptions:
    """The options of `recipe_options`."""

    steps: int
    learning_rate: float
    every: int
    seed: int
    device: str
    precision: str

    def recipe(self, embeddings: float = 1.0) -> Recipe:
        """The recipe of these options; the warm-up is a twentieth of the steps, 100 at most."""
        from levelfield.models.torch.loading import pick_device
        from levelfield.training.loop import Recipe

        on_gpu = self.precision == "auto" and pick_device(self.device).type == "cuda"
        return Recipe(
            steps=self.steps,
            learning_rate=self.learning_rate,
            embeddings=embeddings,
            warmup=min(100, self.steps // 20),
            every=self.every,
            seed=self.seed,
            precision="bfloat16" if on_gpu or self.precision == "bfloat16" else "float32",
        )


def recipe_options(*, steps: int, learning_rate: float) -> Callable[[F], Callable[..., Any]]:
    """Adds the options of a recipe; the command gets them as `recipe: RecipeOptions`."""
    options = [
        click.option(
            "--steps",
            type=WholeNumber(1),
            default=steps,
            show_default=True,
            help="Number of updates.",
        ),
        click.option(
            "--learning-rate",
            type=FiniteNumber(0),
            default=learning_rate,
            show_default=True,
            help="Learning rate after the warm-up.",
        ),
        click.option(
            "--every",
            type=WholeNumber(1),
            default=500,
            show_default=True,
            help="Steps between validations; each leaves a checkpoint.",
        ),
        click.option(
            "--seed",
            type=WholeNumber(0),
            default=0,
            show_default=True,
            help="Seed of weights, batches and dropout.",
        ),
        click.option(
            "--device",
            default="auto",
            show_default=True,
            help="Device that computes: auto (a GPU where there is one), cpu, cuda, cuda:1, mps or "
            "xpu.",
        ),
        click.option(
            "--precision",
            type=click.Choice(["auto", "float32", "bfloat16"]),
            default="auto",
            help="Precision of products; auto is bfloat16 on a GPU.",
        ),
    ]

    def add(command: F) -> Callable[..., Any]:
        @functools.wraps(command)
        def with_recipe(**values: Any) -> Any:
            recipe = RecipeOptions(**{f.name: values.pop(f.name) for f in fields(RecipeOptions)})
            return command(recipe=recipe, **values)

        return functools.reduce(lambda c, option: option(c), reversed(options), with_recipe)

    return add

"""`levelfield generate`: from requests to texts under control."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, Delivery, Writing, delivers, is_forced, out_option
from levelfield.cli.terminal import console, progress_bar, say_note
from levelfield.core.errors import UserError
from levelfield.datasets.prompts import PROMPT_SETS, STUDY_SETS, prompts
from levelfield.generation.contract import GenerationOptions
from levelfield.show.terminal import plain_table

if TYPE_CHECKING:
    from levelfield.generation.run import Generation, Requests


class PromptSetName(click.Choice[str]):
    """The name of a set of prompts; a file says where it belongs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name; fails with what was expected."""
        if value not in self.choices and Path(value).is_file():
            self.fail("this is a file; give it as REQUESTS, without --prompts", param, ctx)
        return super().convert(value, param, ctx)


PROMPTS = click.option(
    "--prompts",
    "prompt_set",
    type=PromptSetName([*PROMPT_SETS, *STUDY_SETS]),
    help="Set of prompts to use: PPLM's, or sts from the LPF study.",
)


@click.command(cls=Writing)
@click.argument("requests", required=False, metavar="[REQUESTS]", type=INPUT)
@PROMPTS
@click.option(
    "--technique",
    required=True,
    help="Name of a technique listed by `levelfield techniques`, or a class in a file, "
    "my_technique.py:Class.",
)
@takes(GenerationOptions, "chosen")
@out_option(
    "texts of `levelfield generate`", "Write one text per line; - is stdout.", "texts.jsonl"
)
@delivers(json="Print the cost of the texts as one JSON document.")
def generate(
    requests: str | None,
    prompt_set: str | None,
    technique: str,
    chosen: GenerationOptions,
    out: str,
    delivery: Delivery,
) -> None:
    """Generate a text for each request with a technique of controlled generation.

    REQUESTS is a file of objects with `prompt` and `control`, optionally `id`, in any format that
    `levelfield score` reads; in plain text, each line is a prompt. Techniques that rewrite read
    `source` instead of `prompt`, optionally with `references`. Each text is written as soon as it
    is complete, and the same command resumes after an interruption. `levelfield score` reads the
    output.
    """
    from levelfield.generation.run import GenerationCost
    from levelfield.generation.run import generate as run

    cost = GenerationCost()
    result = run(
        asked(requests, prompt_set, "generate"),
        technique,
        chosen,
        out=out,
        force=is_forced(),
        each=cost.add,
        stages=lambda stage, total: progress_bar(
            stage, total, lambda: f"{cost.tokens_per_second or 0:,.0f} tokens/s"
        ),
        note=say_note,
    )
    kept = [f"{result.kept:,} texts were in {out} already and are kept"] * bool(result.kept)
    delivery.give(result, _show, written=(out,), notes=kept)


def asked(requests: str | None, prompt_set: str | None, command: str) -> Requests:
    """Returns the file of requests, or the prompts of a set.

    Raises:
        UserError: both are given, or neither.
    """
    if (requests is None) == (prompt_set is None):
        raise UserError(f"{command}: give a file of requests, or --prompts")
    return requests if requests is not None else prompts(prompt_set or "")


def _show(result: Generation) -> None:
    from rich.text import Text

    cost = result.cost
    heads = (">texts", ">tokens", ">tokens per second", ">forward passes per token")
    table = plain_table("system", *heads)
    rates = (cost.tokens_per_second, cost.passes_per_token)
    numbers = [f"{len(result.answers):,}", f"{cost.tokens:,}"]
    numbers += ["–" if rate is None else f"{rate:,.2f}" for rate in rates]
    table.add_row(*map(Text, (result.choices.system, *numbers)))
    console().print(table)

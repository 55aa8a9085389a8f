"""`levelfield generate`: from requests to texts under control."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import FORMAT, MAP, FiniteNumber, WholeNumber
from levelfield.cli.outputs import INPUT, OutputType, Writing, is_forced
from levelfield.cli.terminal import console, progress_bar, say, tell_json
from levelfield.core.errors import UserError
from levelfield.datasets.prompts import PROMPT_SETS, prompts
from levelfield.io.reading import columns, pairs
from levelfield.systems.contract import Decoding

if TYPE_CHECKING:
    from levelfield.systems.run import Generation


@click.command(cls=Writing)
@click.argument("requests", required=False, metavar="[REQUESTS]", type=INPUT)
@click.option("--prompts", "prompt_set", type=click.Choice(list(PROMPT_SETS)), help="Of PPLM.")
@click.option("--technique", required=True, help="`levelfield techniques` lists them.")
@click.option("--model", help="The base: a hub name, a folder. [default: offline/smollm2]")
@click.option("--guide", help="A folder; [default: the one that ships for the attribute]")
@click.option(
    "--option",
    "-o",
    "words",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of the technique, as `levelfield techniques NAME` lists them.",
)
@click.option(
    "--control",
    multiple=True,
    metavar="ATTR=LABEL[,LABEL]",
    help="For requests that name none; with several labels, each prompt is asked for with each.",
)
@FORMAT
@MAP
@click.option(
    "--out",
    type=OutputType("texts of `levelfield generate`"),
    default="texts.jsonl",
    show_default=True,
    help="One text a line; - is stdout.",
)
@click.option("--system", default="", help="Name of the system. [default: the technique]")
@click.option("--seed", type=WholeNumber(0), default=0, show_default=True, help="Of the draws.")
@click.option(
    "--max-new-tokens",
    type=WholeNumber(1),
    default=Decoding.max_new_tokens,
    show_default=True,
    help="Of a continuation.",
)
@click.option(
    "--temperature",
    type=FiniteNumber(0, min_open=True),
    default=Decoding.temperature,
    show_default=True,
    help="Divides the log-probabilities of the base.",
)
@click.option(
    "--top-k",
    type=WholeNumber(0),
    default=Decoding.top_k,
    show_default=True,
    help="Choose among so many most likely tokens of the base; 0 is all.",
)
@click.option(
    "--top-p",
    type=FiniteNumber(0, 1, min_open=True),
    default=Decoding.top_p,
    show_default=True,
    help="Choose among the fewest of them with this probability.",
)
@click.option(
    "--repetition-penalty",
    type=FiniteNumber(0, min_open=True),
    default=Decoding.repetition_penalty,
    show_default=True,
    help="On tokens that the text has already.",
)
@click.option("--greedy", is_flag=True, help="Choose the most likely token; draw none.")
@click.option("--json", "as_json", is_flag=True, help="What it cost, as one JSON document.")
def generate(
    requests: str | None,
    prompt_set: str | None,
    words: tuple[str, ...],
    control: tuple[str, ...],
    mapping: tuple[str, ...],
    out: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Generate a text for each request with a technique of controlled generation.

    REQUESTS is a file of objects with `prompt` and `control`, perhaps `id`, in any format that
    `levelfield score` reads; of plain text each line is a prompt. Techniques that rewrite read
    `source` in place of `prompt`, perhaps with `references`. Each text is written as soon as it is
    there, and the same command goes on after an interruption. `levelfield score` reads what is
    written.
    """
    from levelfield.systems.run import GenerationCost
    from levelfield.systems.run import generate as run

    if (requests is None) == (prompt_set is None):
        raise UserError("generate: give a file of requests, or --prompts")
    cost = GenerationCost()
    result = run(
        requests if requests is not None else prompts(prompt_set or ""),
        control={a: tuple(v.split(",")) for a, v in pairs("--control", control).items()},
        options=pairs("--option", words),
        mapping=columns(mapping),
        out=out,
        force=is_forced(),
        each=cost.add,
        stages=lambda what, total: progress_bar(
            what, total, lambda: f"{cost.tokens_per_second or 0:,.0f} tokens/s"
        ),
        note=lambda note: say(f"note: {note}"),
        **options,
    )
    if result.kept:
        say(f"note: {result.kept:,} texts were in {out} already and are kept")
    if as_json:
        tell_json(result.to_dict())
    elif out != "-":
        _show(result)
    if out != "-":
        say(f"wrote {out}")


def _show(result: Generation) -> None:
    from rich.table import Table
    from rich.text import Text

    cost = result.cost
    table = Table("system", box=None, pad_edge=False)
    titles = ("texts", "tokens", "tokens a second", "forward passes a token")
    for title in titles:
        table.add_column(title, justify="right")
    rates = (cost.tokens_per_second, cost.passes_per_token)
    numbers = [f"{len(result.answers):,}", f"{cost.tokens:,}"]
    numbers += ["–" if rate is None else f"{rate:,.2f}" for rate in rates]
    table.add_row(*map(Text, (result.choices.system, *numbers)))
    console().print(table)

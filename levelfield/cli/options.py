"""Options that commands share, and what users write after them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

import click

from levelfield.core.errors import UserError
from levelfield.core.numerals import finite_number
from levelfield.stats.multiplicity import FAMILIES


class WholeNumber(click.IntRange):
    """A whole number in a range; `1_0` is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or what is wrong with the word."""
        if isinstance(value, str) and "_" in value:
            self.fail(f"{value!r} is not a valid integer.", param, ctx)
        return super().convert(value, param, ctx)


class FiniteNumber(click.FloatRange):
    """A finite number in a range; `nan`, `inf` and `1_0` are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or what is wrong with the word."""
        if isinstance(value, str):
            try:
                value = finite_number(value)
            except ValueError:
                self.fail(f"{value!r} is not a finite number.", param, ctx)
        return super().convert(value, param, ctx)


FORMAT = click.option("--format", "format", help="Of the files; else their suffix says it.")
MAP = click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
FAMILY = click.option(
    "--family",
    type=click.Choice(FAMILIES),
    default="metric",
    show_default=True,
    help="The comparisons that p is adjusted over: those of a metric, or of the run.",
)
TIME_LIMIT = click.option(
    "--time-limit",
    type=FiniteNumber(0, 10**8, min_open=True),
    metavar="SECONDS",
    help="End the run if a metric takes longer for one call (64 texts at most).",
)


class WorkersType(click.ParamType):  # type: ignore[type-arg]  # generic in its stubs only
    """A number of processes, or `auto`."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | Literal["auto"]:
        if value == "auto":
            return "auto"
        count: int = WholeNumber(1).convert(value, param, ctx)
        return count


DTYPE = click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "int8"]),
    default="float32",
    show_default=True,
    help="Of weights; int8 needs an --engine that has it.",
)
ENGINE = click.option(
    "--engine",
    default="auto",
    show_default=True,
    metavar="NAME",
    help="What computes: torch (auto), openvino, ctranslate2, where it serves the models.",
)
WORKERS = click.option(
    "--workers",
    type=WorkersType(),
    metavar="N",
    help="Processes that score, or actors of --ray; auto: what processors, memory and GPUs allow. "
    "[default: 1; auto with --ray]",
)


class RayAddressType(click.ParamType):  # type: ignore[type-arg]  # generic in its stubs only
    """The address of a Ray cluster."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from levelfield.run.places import check_address

        try:
            return check_address(str(value))
        except UserError as error:
            self.fail(str(error), param, ctx)


RAY = click.option(
    "--ray",
    type=RayAddressType(),
    is_flag=False,
    flag_value="local",
    metavar="[ADDRESS]",
    help="Score by a Ray cluster: auto, HOST:PORT or ray://HOST:PORT; without an address Ray is "
    "started on this machine.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def pairs(
    option: str, words: Sequence[str], *, alternatives: Collection[str] = ()
) -> dict[str, str]:
    """NAME=VALUE words as a mapping; several values of a name in `alternatives` are joined."""
    from levelfield.io.guesses import ALTERNATIVE

    found: dict[str, str] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not (equals and name and value):
            raise UserError(f"{option} {word}: expected NAME=VALUE")
        if name in found and name not in alternatives:
            raise UserError(f"{option} {name} is given twice")
        found[name] = f"{found[name]}{ALTERNATIVE}{value}" if name in found else value
    return found


def columns(words: Sequence[str]) -> dict[str, str]:
    """The words of `--map`; what names samples may have other columns in other files."""
    from levelfield.io.guesses import NAMES

    return pairs("--map", words, alternatives=NAMES)

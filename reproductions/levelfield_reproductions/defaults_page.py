"""The page of the docs with the agreement of all defaults: a head by hand, tables by command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources

from levelfield.io.tables import code_block, escape_markdown, markdown_table
from levelfield.stats.resampling import Resampling
from levelfield_reproductions.agreement import (
    SetAgreement,
    in_no_table,
    left_out,
    left_out_here,
    notes,
    size,
    table_of,
)


def head() -> str:
    """Returns what is written by hand: how the tables are read."""
    return (resources.files("levelfield_reproductions") / "defaults.md").read_text("utf-8")


def page(sets: Sequence[SetAgreement], command: str, resampling: Resampling) -> str:
    """Returns the whole page, the same bytes for the same values.

    Args:
        command: makes the page again.
        resampling: of the intervals.
    """
    here = [agreement for agreement in sets if agreement.gap is None]
    blocks = [head().rstrip("\n"), *_overview(sets)]
    for agreement in here:
        blocks += _section(agreement, here)
    nowhere = left_out(in_no_table(here))
    if nowhere:
        blocks += ["## In no table", _listed(nowhere)]
    blocks += ["## Signatures", code_block(_signatures(here))]
    blocks.append(
        f"Made by `{command} --markdown FILE`, with {resampling.level * 100:g} % intervals of "
        f"{resampling.resamples:,} resamples, seed {resampling.seed}."
    )
    return "\n\n".join(blocks) + "\n"


def _overview(sets: Sequence[SetAgreement]) -> Iterator[str]:
    yield "## The sets"
    rows = [
        [
            f"`{agreement.rated.id}`",
            ", ".join(agreement.rated.roles),
            f"not here: `{agreement.gap.command}`" if agreement.gap else size(agreement),
        ]
        for agreement in sets
    ]
    yield markdown_table(["set", "role", "texts"], rows, words=[True] * 3)


def _section(agreement: SetAgreement, here: Sequence[SetAgreement]) -> Iterator[str]:
    yield f"## {agreement.rated.id}"
    roles = ", ".join(agreement.rated.roles)
    yield f"{escape_markdown(agreement.rated.title)}. {size(agreement)}."
    yield f"Role: **{roles}**; {agreement.rated.why}."
    if agreement.metrics:
        table = table_of(agreement)
        coefficients = [f"{aspect} {name}" for aspect in agreement.aspects for name in "rρ"]
        rows = [
            [_code(row[0].text), row[1].text, row[2].text]
            + [text for cell in row[3:] for text in (cell.text, cell.beside)]
            for row in table.cells
        ]
        heads = ["metric", "n", "undefined", *map(escape_markdown, coefficients)]
        yield markdown_table(heads, rows)
    lines = [
        *notes(agreement),
        *(f"no row, {line}" for line in left_out(left_out_here(agreement, here))),
    ]
    if lines:
        yield _listed(lines)


def _code(name: str) -> str:
    metric, space, mark = name.partition(" ")
    return f"`{metric}`{space}{mark}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _listed(lines: Sequence[str]) -> str:
    return "\n".join(f"- {escape_markdown(_sentence(line))}" for line in lines)


def _signatures(sets: Sequence[SetAgreement]) -> list[str]:
    """Returns each signature once; a metric may have several, on different sets."""
    every = {m.metric + m.signature: m.signature for agreement in sets for m in agreement.metrics}
    return [every[name] for name in sorted(every)]

"""The page of the docs with the agreement of all defaults: a head by hand, tables by command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import resources

from levelfield.io.tables import code_block, escape_markdown, markdown_table
from levelfield_reproductions.defaults import DefaultsReport, SetAgreement
from levelfield_reproductions.defaults_table import (
    columns,
    in_no_table,
    left_out,
    left_out_here,
    names,
    notes,
    size,
)


def head() -> str:
    """What is written by hand: how the tables are read."""
    return (resources.files("levelfield_reproductions") / "defaults.md").read_text("utf-8")


def page(report: DefaultsReport) -> str:
    """The whole page; nothing in it depends on when or where it was made."""
    here = [one for one in report.sets if one.gap is None]
    blocks = [head().rstrip("\n"), *_overview(report.sets)]
    for one in here:
        blocks += _section(one, here)
    nowhere = left_out(in_no_table(here))
    if nowhere:
        blocks += ["## In no table", _listed(nowhere)]
    blocks += ["## Signatures", code_block(_signatures(here))]
    r = report.resampling
    blocks.append(
        f"Made by `{report.command} --markdown FILE`, with {r.level * 100:g} % intervals of "
        f"{r.resamples:,} resamples, seed {r.seed}."
    )
    return "\n\n".join(blocks) + "\n"


def _overview(sets: Sequence[SetAgreement]) -> Iterator[str]:
    yield "## The sets"
    rows = [
        [
            f"`{one.rated.id}`",
            ", ".join(one.rated.roles),
            f"not here: `{one.gap.command}`" if one.gap else size(one),
        ]
        for one in sets
    ]
    yield markdown_table(["set", "role", "texts"], rows, words=True)


def _section(one: SetAgreement, here: Sequence[SetAgreement]) -> Iterator[str]:
    yield f"## {one.rated.id}"
    roles = ", ".join(one.rated.roles)
    yield f"{escape_markdown(one.rated.title)}. {size(one)}."
    yield f"Role: **{roles}**; {one.rated.why}."
    if one.metrics:
        table = columns(one)
        heads = ["metric", *(escape_markdown(f"{c.aspect} {c.head}".strip()) for c in table)]
        rows = zip(map(_code, names(one)), *(c.cells for c in table), strict=True)
        yield markdown_table(heads, rows)
    lines = [*notes(one), *(f"no row, {why}" for why in left_out(left_out_here(one, here)))]
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
    """Each once; a metric may have other signatures on other sets."""
    every = {m.metric + m.signature: m.signature for one in sets for m in one.metrics}
    return [every[name] for name in sorted(every)]

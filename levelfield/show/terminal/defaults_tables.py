"""Agreement of defaults with people on a terminal."""

from __future__ import annotations

from rich.text import Text

from levelfield.papers import DefaultsReport
from levelfield.papers.defaults_table import (
    columns,
    in_no_table,
    left_out,
    left_out_here,
    names,
    notes,
    role,
    size,
)
from levelfield.show.terminal import console
from levelfield.show.terminal.blocks import BlockColumn, print_blocks, print_wrapped


def print_defaults(report: DefaultsReport) -> None:
    """A table a set that is here, a line a set that is not, and what is in no table."""
    out = console()
    here = [one for one in report.sets if one.gap is None]
    for one in report.sets:
        if one.gap:
            print_wrapped(
                out, f"{one.rated.id}  not here: {one.gap.command}", bold=len(one.rated.id)
            )
            print_wrapped(out, f"  {role(one)}")
            out.print()
            continue
        print_wrapped(out, f"{one.rated.id}  {one.rated.title}", bold=len(one.rated.id))
        print_wrapped(out, f"  {size(one)}; {role(one)}")
        if one.metrics:
            counts, of_aspects = columns(one)[:2], columns(one)[2:]
            table = [BlockColumn("", c.head, [[Text(cell)] for cell in c.cells]) for c in counts]
            # r and ρ of an aspect stay in one block
            for r, ρ in zip(of_aspects[::2], of_aspects[1::2], strict=True):
                both = [[Text(f"{a} {b:>6}")] for a, b in zip(r.cells, ρ.cells, strict=True)]
                table.append(BlockColumn(r.aspect, f"{r.head}, {ρ.head}", both))
            print_blocks(out, "metric", names(one), table)
        for line in notes(one):
            print_wrapped(out, f"  {line}")
        for line in left_out(left_out_here(one, here)):
            print_wrapped(out, f"  no row, {line}")
        out.print()
    for line in left_out(in_no_table(here)):
        print_wrapped(out, f"in no table, {line}")
    level = f"{report.resampling.level * 100:g} %"
    print_wrapped(out, f"r with its {level} interval, and ρ; --json has reasons and signatures")

"""Writes the tables of options in the documentation: `python tools/option_tables.py [PAGE...]`.

A page has pairs of comments, and this script writes the table between them:

    <!-- options: levelfield.scoring.options:ScoreOptions -->
    <!-- end of options -->

`flags` after the class names options as the command line does; `beyond MODULE:CLASS` leaves out the
options that another class declares in the same way.
"""

from __future__ import annotations

import pkgutil
import re
import sys
from pathlib import Path

from levelfield.core.options import Declaration, choices

ROOT = Path(__file__).parent.parent
_PLACE = re.compile(
    r"(?P<begin><!-- options: (?P<name>[\w.]+:\w+)(?P<flags> flags)?"
    r"(?: beyond (?P<other>[\w.]+:\w+))? -->\n)"
    r".*?(?P<end><!-- end of options -->)",
    re.DOTALL,
)
HEAD = ("| option | values | default | |", "|---|---|---|---|")


def updated(text: str) -> str:
    """Returns a page with its tables made from the declarations."""
    return _PLACE.sub(_with_table, text)


def _with_table(place: re.Match[str]) -> str:
    declared = choices(pkgutil.resolve_name(place["name"]))
    other = choices(pkgutil.resolve_name(place["other"])) if place["other"] else {}
    listed = [choice for name, choice in declared.items() if choice != other.get(name)]
    table = "\n".join([*HEAD, *(row(choice, flags=bool(place["flags"])) for choice in listed)])
    return f"{place['begin']}\n{table}\n\n{place['end']}"


def row(choice: Declaration, *, flags: bool, metavars: bool = False) -> str:
    """Returns the row of a choice.

    Args:
        choice: the declaration.
        flags: whether it is named as on the command line, not as in a file.
        metavars: whether what stands for a text in `--help` stands for it here.
    """
    names = choice.flags if flags else (choice.key,)
    values = _values(choice)
    if metavars and choice.rule.metavar and values in ("", "text"):
        values = f"`{choice.rule.metavar}`"
    cells = (
        ", ".join(f"`{name}`" for name in names),
        "" if flags and choice.is_flag else values,
        "" if flags and choice.is_flag else _default(choice),
        choice.flag_help if flags else choice.rule.help,
    )
    line = " | ".join(cell.replace("|", r"\|") for cell in cells)
    return f"| {line} |"


def _values(choice: Declaration) -> str:
    if choice.is_flag:
        return "`true`, `false`"
    kinds = {"int": "whole number", "float": "number", "str": "" if choice.names else "text"}
    words = [kinds.get(getattr(kind, "__name__", ""), "") for kind in choice.item_kinds]
    numbers = f"{' or '.join(dict.fromkeys(filter(None, words)))} {choice.bounds}".strip()
    names = [*choice.names, *(["true", "false"] if bool in choice.item_kinds else [])]
    return ", ".join([*(f"`{name}`" for name in names), *([numbers] if numbers else [])])


def _default(choice: Declaration) -> str:
    if choice.required:
        return "required"
    words = choice.shown_default.lower() if choice.is_flag else choice.shown_default
    return f"`{words}`" if words and not choice.rule.otherwise else words


if __name__ == "__main__":
    pages = [Path(name) for name in sys.argv[1:]] or [
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "levelfield").rglob("page.md")),
    ]
    for page in pages:
        text = page.read_text("utf-8")
        if (new := updated(text)) != text:
            page.write_text(new, "utf-8")
            print(page)

"""Text and tables for Markdown documents, as GitHub and most converters read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_\[\]|~<>&$])")


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, on one line.

    >>> escape_markdown("a|b *c*")
    'a\\\\|b \\\\*c\\\\*'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, words: bool = False
) -> str:
    """A table whose first column is set left and all others right; cells are escaped already.

    Args:
        words: the others hold words and are set left as well.
    """
    lines = [head, [":--", *[":--" if words else "--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(lines: Iterable[str]) -> str:
    """Lines that Markdown shows as they are, with a fence that none of them ends."""
    text = "\n".join(" ".join(line.splitlines()) for line in lines)
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"

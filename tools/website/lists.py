"""Lists: on GitHub, the text of an item begins where its first word does; Python-Markdown wants
four spaces for each level."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEM = re.compile(r" *(?P<marker>[-*+]|\d{1,9}[.)]) {1,4}(?=\S)")
_FENCE = re.compile(r" *(`{3,}|~{3,})")
_LEVEL = 4


def with_wide_lists(text: str) -> str:
    """Returns a page whose lists have four spaces for each level.

    >>> print(with_wide_lists("1. One,\\n   still one.\\n   - Two."))
    1. One,
        still one.
        - Two.
    """
    return "\n".join(_widened(text.split("\n")))


def _widened(lines: list[str]) -> Iterator[str]:
    columns: list[int] = []  # where the text of each open item begins
    fence = ""
    is_after_blank = True
    has_paragraphs = False  # whether an open item has a blank line
    for line in lines:
        content = line.lstrip(" ")
        indent = len(line) - len(content)
        if not content:
            is_after_blank = True
            has_paragraphs = bool(columns)
            yield line
            continue
        item = None if fence else _ITEM.match(line)
        levels = len(columns)
        while columns and indent < columns[-1] and not fence and (item or is_after_blank):
            columns.pop()
        base = columns[-1] if columns else 0
        prefix = " " * (_LEVEL * len(columns) + max(indent - base, 0))
        if item and indent - base < _LEVEL:
            is_sibling = len(columns) < levels
            if is_after_blank or is_sibling or item["marker"] in ("-", "*", "+", "1.", "1)"):
                if is_sibling and has_paragraphs and not is_after_blank:
                    yield ""
                columns.append(item.end())
            else:  # a number with which a line of prose begins
                content = re.sub(r"^(\d+)", r"\1\\", content)
        if mark := _FENCE.match(line):
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        is_after_blank = False
        yield prefix + content

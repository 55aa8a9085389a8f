"""How problems of the input are worded: one line each, whatever the input holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from levelfield.core.errors import InputError

MOST_SHOWN = 20
"""So many problems are shown; the rest are counted."""


class Wrong(ValueError):  # noqa: N818 (a finding that rows carry along, seldom raised)
    """What is wrong with a value, a line or a file.

    Attributes:
        what: the finding, with what was expected and the mend.
        path: where inside a record, such as `control.sentiment`; whoever knows more puts it first.
    """

    def __init__(self, finding: str, path: str = "") -> None:
        super().__init__(finding, path)
        self.what = finding
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what

    def inside(self, step: object) -> Wrong:
        """Returns the same finding, one step further out."""
        name = f"[{step}]" if isinstance(step, int) else printable(str(step))
        joint = "." if self.path and not self.path.startswith("[") else ""
        return Wrong(self.what, f"{name}{joint}{self.path}")


class Problems:
    """Collects problems; keeps the first `MOST_SHOWN` and counts all."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.total = 0

    def add(self, problem: str) -> None:
        self.total += 1
        if self.total <= MOST_SHOWN:
            self.shown.append(problem)

    def raise_if_any(self) -> None:
        if self.total:
            raise InputError(self.shown, total=self.total)


def shown(value: object, most: int = 60) -> str:
    """Returns a value for a line: cut, strings in quotes, unprintable characters escaped."""
    if not isinstance(value, str):
        whole = repr(value)
        return whole if len(whole) <= most else whole[:most] + "…"
    cut = value if len(value) <= most else value[:most] + "…"
    return f'"{printable(cut)}"'


def printable(text: str) -> str:
    """Returns the text with line breaks, control characters and lone surrogates escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def listed(names: Iterable[object], most: int = 12) -> str:
    """Names for a line: quoted, with commas, cut after `most`."""
    quoted = [shown(name) for name in names]
    return ", ".join([*quoted[:most], *(["…"] if len(quoted) > most else [])])


def kind(value: object) -> str:
    """Returns what a value is, in the words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return f"the number {shown(value, 20)}"
        case str():
            return f"the string {shown(value, 30)}"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a value of type {type(value).__name__}"

"""Names, numbers and JSON as people and programs read them."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping

_NUMBER = re.compile("([0-9]+)")


def natural(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """Returns a key that sorts `model-2` before `model-10`.

    >>> sorted(["r10", "r9", "a", "r"], key=natural)
    ['a', 'r', 'r9', 'r10']
    """
    # texts have even places and numbers odd ones, so that no text is compared with a number
    parts: list[str | tuple[int, str]] = []
    for i, part in enumerate(_NUMBER.split(name)):
        digits = part.lstrip("0")
        parts.append((len(digits), digits) if i % 2 else part)
    return parts, name


def did_you_mean(
    name: str,
    names: Iterable[str],
    *,
    most: int = 1,
    cutoff: float = 0.6,
    form: Callable[[str], str] = str,
    otherwise: str | None = None,
) -> str:
    """Returns a question with the known names that an unknown one resembles.

    Args:
        most: names in the question.
        cutoff: how alike they are, from 0 to 1.
        form: how the question writes a name.
        otherwise: what is returned if no name is alike; a list of all names by default.

    >>> did_you_mean("blue", ["bleu", "chrf"]), did_you_mean("ter", ["bleu", "chrf"])
    ('did you mean bleu?', 'there are bleu, chrf')
    """
    choices = list(names)
    if near := difflib.get_close_matches(name, choices, n=most, cutoff=cutoff):
        return f"did you mean {' or '.join(map(form, near))}?"
    return f"there are {', '.join(choices)}" if otherwise is None else otherwise


_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Returns the text with control characters and changes of direction escaped.

    Line breaks and tabs stay.

    >>> visible("\x1b[31mred\n")
    '\\x1b[31mred\n'
    """
    return _UNSEEN.sub(lambda match: repr(match[0])[1:-1], text)


def one_line(value: object) -> str:
    """Returns what a value is in words, with a space in place of line breaks and other blanks."""
    return " ".join(str(value).split())


def shortened(text: str, most: int, ending: str = "…") -> str:
    """Returns a text of at most `most` characters; the ending stands for what is cut.

    >>> shortened("the court sits", 10), shortened("the court", 10)
    ('the court…', 'the court')
    """
    return text if len(text) <= most else text[: most - len(ending)].rstrip() + ending


def whole_number(text: str) -> int:
    """Returns the whole number that a word is; `1_0`, which Python takes for 10, is none.

    Raises:
        ValueError: it is none.
    """
    if "_" in text:
        raise ValueError(text)
    return int(text)


def finite_number(text: str) -> float:
    """Returns the number that a word is; `nan`, `inf` and `1_0` are none.

    Raises:
        ValueError: it is none.
    """
    number = math.nan if "_" in text else float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def number_document(value: float) -> float | str | None:
    """Returns a number as JSON documents have it: None for NaN, "inf" or "-inf" if infinite.

    >>> number_document(0.5), number_document(-math.inf), number_document(math.nan)
    (0.5, '-inf', None)
    """
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else "inf" if value > 0 else "-inf"


def json_text(value: object, *, indent: int | None = None) -> str:
    """Returns a JSON document; numbers that JSON has none of, NaN and the infinite, become null."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, indent=indent)


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return None
        case Mapping():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
        case _:
            return value

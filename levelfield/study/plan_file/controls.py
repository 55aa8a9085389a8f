"""Kinds of control in a study file."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable

from levelfield.core.limits import CELL_REQUESTS
from levelfield.io.problems import shown
from levelfield.io.toml import TomlTable, toml_kind
from levelfield.study.cells import value_name
from levelfield.study.plan import ControlKind
from levelfield.study.plan_file.checks import MISPLACED, check_name, product


def read_controls(tables: Iterable[TomlTable]) -> tuple[ControlKind, ...]:
    """Returns the kinds of control with all combinations of their values."""
    kinds = []
    for table in tables:
        check_name(table, table.name)
        wanted = {a: _values(table, a) for a in table if a not in MISPLACED}
        table.finish(elsewhere=MISPLACED)
        if not wanted:
            table.wrong('expected an attribute, such as sentiment = ["positive", "negative"]')
        counts = [len(values) for values in wanted.values()]
        if math.prod(counts) > CELL_REQUESTS:
            table.wrong(
                f"{product(counts)} combinations of its values; at most {CELL_REQUESTS:,} are "
                "asked for; leave out values, or make several kinds of control of it"
            )
            # each value by itself: what else is wrong with the file is said all the same
            singles = tuple({a: value} for a, values in wanted.items() for value in values)
            kinds.append(ControlKind(table.name, singles))
            continue
        combinations = tuple(
            dict(zip(wanted, combination, strict=True))
            for combination in itertools.product(*wanted.values())
        )
        for alike, n in Counter(map(value_name, combinations)).items():
            if n > 1:
                table.wrong(f"{n} of its values read {shown(alike)}; each has to be another")
        kinds.append(ControlKind(table.name, combinations))
    return tuple(kinds)


def _values(table: TomlTable, attribute: str) -> list[str | tuple[str, ...]]:
    values = table.take(attribute)
    expected = 'a list of values, such as ["positive", "negative"] or [["court", "culture"]]'
    if not attribute.strip():
        table.wrong("the name of an attribute is empty")
    if not isinstance(values, list) or not values:
        table.wrong_field(attribute, f"expected {expected}; found {toml_kind(values)}")
        return []
    wanted: list[str | tuple[str, ...]] = []
    for n, value in enumerate(values, 1):
        words = value if isinstance(value, list) else [value]
        if words and all(isinstance(word, str) and word.strip() for word in words):
            wanted.append(tuple(words) if isinstance(value, list) else value)
        else:
            what = "a string, or a list of strings, none of them empty"
            table.wrong_field(f"{attribute}[{n}]", f"expected {what}; found {toml_kind(value)}")
    return wanted

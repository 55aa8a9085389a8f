"""Values that a declared choice refuses, and what is wrong with a declaration.

A test of all declarations is one loop over the distinct ones, which names every violation: a
test item for each owner of each declaration would be thousands of items for a few hundred rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import Declaration

Maker = Callable[[Mapping[str, Any]], object]
"""Makes an owner of options from values."""


def outside(choice: Declaration) -> Iterator[Any]:
    """Values just outside the range, a name that is none, and a word in place of a number."""
    rule = choice.rule
    if choice.names or rule.fits:
        yield "no such name"
    if rule.least is not None:
        yield rule.least - 1
    if rule.most is not None:
        yield rule.most + 1
    yield from (bound for bound in (rule.above, rule.below) if bound is not None)
    if not {int, float}.isdisjoint(choice.kinds):
        yield math.nan
    if not {bool, int, float}.isdisjoint(choice.kinds):
        yield "many"


def distinct(declared: Iterable[tuple[str, Declaration]]) -> list[tuple[str, Declaration]]:
    """Returns each declaration once, with the first of its owners."""
    first: dict[tuple[str, int], tuple[str, Declaration]] = {}
    for owner, choice in declared:
        first.setdefault((choice.name, id(choice.rule)), (owner, choice))
    return list(first.values())


def accepted_outside(
    declared: Iterable[tuple[str, Declaration]], makers: Callable[[str], Iterable[Maker]]
) -> list[str]:
    """Returns the values outside a range that some door accepts or refuses in other words.

    Args:
        declared: owner and declaration.
        makers: owner -> its doors.
    """
    violations = []
    for owner, choice in declared:
        for value in outside(choice):
            expected = f"{choice.name}={value}: expected {choice.expected}"
            for number, make in enumerate(makers(owner)):
                try:
                    make({choice.name: value})
                except UserError as error:
                    if expected in str(error):
                        continue
                    violations.append(f"{owner}, door {number}: {expected!r} is not in {error}")
                else:
                    violations.append(f"{owner}, door {number}: accepts {choice.name}={value}")
    return violations


def unclear_help(declared: Iterable[tuple[str, Declaration]]) -> list[str]:
    """Returns the declarations whose help is not a sentence that begins with a verb or a noun."""
    vague = ("Of ", "Whether ", "What ", "How ", "A ")
    return [
        f"{owner} {choice.name}: {choice.rule.help!r}"
        for owner, choice in declared
        if not (choice.rule.help[:1].isupper() and choice.rule.help.endswith("."))
        or choice.rule.help.startswith(vague)
        or "  " in choice.rule.help
    ]

"""Values that a declared choice refuses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from levelfield.core.options import Declaration


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

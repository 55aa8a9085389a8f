"""The verdict on a printed number, from the value derived again."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from levelfield_reproductions.published_tables import Gap, Number

# float64 noise in a sum of some thousand values; far below any printed digit
_NOISE = Decimal("1e-9")


class Verdict(StrEnum):
    """The outcomes of a derivation."""

    SAME = "same"
    DIFFERS = "differs"
    CANNOT = "can't be derived"
    OTHER = "not comparable"


@dataclass(frozen=True, slots=True)
class Derived:
    """A recipe's value for a printed number.

    Attributes:
        value: the value from the released data, or None.
        why: a remark on the value, or empty.
        gap: what is missing where there is no value.
        comparable: whether it should be the printed number to the digit.
    """

    value: float | None = None
    why: str = ""
    gap: Gap | None = None
    comparable: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """A printed number beside its derivation."""

    number: Number
    derived: Derived
    verdict: Verdict

    @property
    def difference(self) -> float | None:
        """Derived minus printed."""
        if self.derived.value is None:
            return None
        return self.derived.value - float(self.number.value)


def judge(number: Number, derived: Derived) -> Outcome:
    """Compares: `same` if the derived value rounds to the printed digits, whichever way halves go.

    That is, |derived − printed| ≤ half a unit of the last place the number is rounded to.
    """
    if derived.value is None or not math.isfinite(derived.value):
        undefined = Gap(
            "its value, which is undefined on these data", f"levelfield reproduce {number.table}"
        )
        lacking = replace(derived, value=None, gap=derived.gap or undefined)
        return Outcome(number, lacking, Verdict.CANNOT)
    if not derived.comparable:
        return Outcome(number, derived, Verdict.OTHER)
    half = Decimal(5).scaleb(-number.places - 1)
    same = abs(Decimal(derived.value) - number.value) <= half + _NOISE
    return Outcome(number, derived, Verdict.SAME if same else Verdict.DIFFERS)

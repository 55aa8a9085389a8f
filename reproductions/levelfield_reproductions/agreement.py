"""How far metrics agree with the ratings of a set, and which metrics can't be compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from levelfield.agree.correlate import Correlation
from levelfield_reproductions.published_tables import Gap
from levelfield_reproductions.rated import RatedSet

Kind = Literal["without", "many texts", "lacking", "field", "few", "failed"]
"""Why a metric is in no table: the user goes without it; its value is of many texts; it lacks
something on this machine; the texts lack a field; it has fewer than `FEWEST` values; it failed."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A metric that is not in the table of a set.

    Attributes:
        why: in one line.
    """

    metric: str
    kind: Kind
    why: str


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """How far one metric, with its defaults, agrees with the ratings of one set.

    Attributes:
        is_default: `levelfield score FILE` runs it when no metric is named.
        turned: lower values are better, and their sign is turned.
        undefined: reason -> how many texts have no value.
        of_aspects: aspect -> its correlation; only those with `FEWEST` values or more.
    """

    metric: str
    signature: str
    is_default: bool
    turned: bool
    undefined: Mapping[str, int]
    of_aspects: Mapping[str, Correlation]


@dataclass(frozen=True, slots=True)
class SetAgreement:
    """One rated set with every metric that can be compared with it.

    Attributes:
        gap: what is missing where the set is not on this machine; the rest is then empty.
        aspects: what is rated.
        texts, of: how many texts were scored, and how many the set has.
        clusters: into how many groups of dependent texts the scored ones fall.
        metrics: the default of `levelfield score FILE` first, then by name.
    """

    rated: RatedSet
    gap: Gap | None = None
    aspects: tuple[str, ...] = ()
    texts: int = 0
    of: int = 0
    clusters: int = 0
    metrics: tuple[MetricAgreement, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def no_text_has(fields: Sequence[str]) -> str:
    """Returns why a metric can't be scored on a set whose texts lack fields."""
    return f"no text has {' and '.join(fields)}"

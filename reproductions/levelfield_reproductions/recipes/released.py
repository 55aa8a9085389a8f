"""What of the released data is on this machine, and how to say that something is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from levelfield.core.sample import Sample
from levelfield.datasets import choices, dataset, load
from levelfield.io.comparisons import PairChoice
from levelfield.io.fetch import fetch, local_copy
from levelfield.io.toml import read_toml
from levelfield_reproductions.published_tables import Gap
from levelfield_reproductions.verdict import Derived

if TYPE_CHECKING:
    from levelfield.core.metric import Metric
    from levelfield.core.scores import Scores

NAMES: Mapping[str, Mapping[str, Any]] = read_toml(resources.files(__package__) / "names.toml")
"""Paper -> name in its tables -> name in the releases."""

Cells = Mapping[tuple[str, str], Derived]
"""(row, column) -> what a recipe makes of it; the table itself says what the others lack."""


def _score(metric: Metric, samples: Sequence[Sample]) -> Scores:
    return metric.score(samples)


@dataclass(frozen=True)
class Scoring:
    """How tables that need a model are derived.

    Attributes:
        model: by name; empty: such tables are not derived.
        score: what scores; the place for a cache.
        pairs: the thesis's correlations over pairs of a text and a rater, with ROUGE of raw texts.
    """

    model: str = ""
    score: Callable[[Metric, Sequence[Sample]], Scores] = field(default=_score)
    pairs: bool = False


NO_MODEL = Scoring()


def samples_of(set: str, part: str) -> Sequence[Sample] | Derived:
    """Returns a part of a data set, or no value because files of it are not on this machine."""
    absent = missing(set, [file.path for file in dataset(set).part(part)])
    return not_here(set, absent) if absent else load(set, part=part)


def choices_of(set: str, part: str) -> Sequence[PairChoice] | Derived:
    """Returns the choices of a part, or no value because files of it are not on this machine."""
    absent = missing(set, [file.path for file in dataset(set).part(part)])
    return not_here(set, absent) if absent else choices(set, part=part)


def missing(set: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Returns the paths of a data set that are not on this machine."""
    data = dataset(set)
    return tuple(path for path in paths if local_copy(data.file(path)) is None)


def not_here(set: str, paths: Sequence[str]) -> Derived:
    """Returns no value, because these files are not on this machine."""
    first = PurePosixPath(paths[0]).name
    more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
    return Derived(gap=Gap(f"{first}{more}", f"levelfield data fetch {set}", tuple(paths)))


def lines_of(set: str, path: str) -> Sequence[str]:
    """Returns the lines of a file that is on this machine, without the empty ones."""
    text = fetch(dataset(set).file(path)).read_text("utf-8")
    return [line for line in text.splitlines() if line.strip()]

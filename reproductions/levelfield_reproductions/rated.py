"""The rated sets that defaults are compared with: how each was used here, what its texts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.strings import did_you_mean
from levelfield.datasets import dataset, load
from levelfield.io.toml import read_toml
from levelfield_reproductions.published_tables import Gap
from levelfield_reproductions.recipes.released import missing

PREFIX = "defaults"
"""Begins the ids of `levelfield reproduce` that name rated sets."""

Role = Literal["chosen on", "looked at", "never looked at", "trained on", "not people"]
"""How a set was used: a default was chosen with its ratings in view; they were seen, and no default
was chosen by them; they were kept back; a model that comes with the package was trained on them;
its raters are models."""


@dataclass(frozen=True, slots=True)
class RatedSet:
    """One or several parts of a data set, with ratings on one scale.

    Attributes:
        set, parts: as the registry has them.
        roles: how the ratings were used here.
        why: the roles in a sentence.
        shared: the name of what a text shares with others, where that is none of its source, prompt
            and context (`Sample.shared`).
    """

    set: str
    parts: tuple[str, ...]
    roles: tuple[Role, ...]
    why: str
    shared: Callable[[Sample], str] | None = None

    @property
    def id(self) -> str:
        """As in `ctrleval.sentiment`."""
        return f"{self.set}.{'+'.join(self.parts)}"

    @property
    def names(self) -> tuple[str, ...]:
        """The ids of `levelfield reproduce` that name it, alone or with others."""
        return PREFIX, f"{PREFIX}.{self.set}", f"{PREFIX}.{self.id}"

    @property
    def title(self) -> str:
        """Of the data set, for people."""
        return dataset(self.set).title

    def gap(self) -> Gap | None:
        """Returns what of it is not on this machine, and the command that fetches it."""
        files = dict.fromkeys(
            file.path for part in self.parts for file in dataset(self.set).part(part)
        )
        absent = missing(self.set, files)
        parts = "".join(f" --part {part}" for part in self.parts)
        command = f"levelfield data fetch {self.set}{parts}"
        return Gap("files that are not on this machine", command, absent) if absent else None

    def cluster(self, sample: Sample) -> str:
        """Returns the name of the texts that intervals draw together with this one."""
        if self.shared:
            return self.shared(sample)
        return "\n".join(sample.shared) or f"only {sample.id}"

    def samples(self) -> list[Sample]:
        """Its texts with their ratings."""
        return load(self.set, part=self.parts)


_SHARED: Mapping[str, Callable[[Sample], str]] = {
    "concept set": lambda sample: str(sample.extra["concept_set"]),
    # rows n, n + 500, … of the test set of pt16 are versions of one source
    "source of six": lambda sample: str(int(sample.id.rpartition(":")[2]) % 500),
    "text": lambda sample: sample.text,
}
"""Name of what texts share -> its value for a text."""

RATED_SETS = tuple(
    RatedSet(
        set=entry["set"],
        parts=tuple(entry["parts"]),
        roles=tuple(entry["roles"]),
        why=entry["why"],
        shared=_SHARED.get(entry.get("shared", "")),
    )
    for entry in read_toml(resources.files("levelfield_reproductions") / "rated.toml")["sets"]
)


def is_of_defaults(id: str) -> bool:
    """Returns whether an id of `levelfield reproduce` names rated sets."""
    return id.lower().partition(".")[0] == PREFIX


def rated_sets(id: str = PREFIX) -> list[RatedSet]:
    """Returns the rated sets that an id names: all, those of a data set, or one.

    >>> [one.id for one in rated_sets("defaults.ctrleval")]
    ['ctrleval.sentiment', 'ctrleval.topic']

    Raises:
        UserError: it names none.
    """
    chosen = [rated for rated in RATED_SETS if id.lower() in rated.names]
    if not chosen:
        ids = list(dict.fromkeys(name for rated in RATED_SETS for name in rated.names))
        every = f"did you mean {' or '.join(ids)}?"
        hint = did_you_mean(id.lower(), ids, most=3, cutoff=0.5, otherwise=every)
        raise UserError(f"there is no rated set '{id}'; {hint}")
    return chosen

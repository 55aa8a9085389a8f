"""The rated sets that defaults are compared with: how each was used here, what its texts share."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.datasets import dataset, load
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


def _concept_set(sample: Sample) -> str:
    return str(sample.extra["concept_set"])


def _source_of_six(sample: Sample) -> str:
    """Rows n, n + 500, … of the test set of pt16 are versions of one source."""
    return str(int(sample.id.rpartition(":")[2]) % 500)


def _text(sample: Sample) -> str:
    return sample.text


_LLM = "the ratings are an LLM judge's"

RATED_SETS = (
    RatedSet(
        "ctrleval",
        ("sentiment",),
        ("chosen on",),
        "the word weights of `ctrleval.*` and the forms of `composite.*` were chosen with these "
        "ratings in view",
    ),
    RatedSet("ctrleval", ("topic",), ("never looked at",), "kept back to try what was chosen"),
    RatedSet(
        "deam",
        ("fed",),
        ("chosen on",),
        "the pair of models of `cdm.momentum` was chosen with these ratings in view",
    ),
    RatedSet("deam", ("dstc9",), ("never looked at",), "kept back to try what was chosen"),
    RatedSet(
        "formality-judgements",
        ("ratings",),
        ("looked at",),
        "`levelfield reproduce thesis.rq1` compares metrics on it; no default was chosen by it",
    ),
    RatedSet(
        "commongen-trinity",
        ("gpt-4",),
        ("not people", "looked at"),
        f"{_LLM}, GPT-4; no default was chosen by them",
        _concept_set,
    ),
    RatedSet(
        "commongen-trinity",
        ("flan-t5",),
        ("not people", "looked at"),
        f"{_LLM}, Flan-T5; no default was chosen by them",
        _concept_set,
    ),
    RatedSet(
        "commongen-trinity",
        ("vicuna",),
        ("not people", "never looked at"),
        f"{_LLM}, Vicuna",
        _concept_set,
    ),
    RatedSet(
        "pt16",
        ("train", "tune"),
        ("looked at",),
        "no default was chosen by it; `levelfield train judge` can train on it, and nothing that "
        "comes with the package was",
        _text,
    ),
    RatedSet(
        "pt16",
        ("test",),
        ("looked at",),
        "no default was chosen by it; judges that `levelfield train judge` makes are tried on it",
        _source_of_six,
    ),
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
        near = difflib.get_close_matches(id.lower(), ids, n=3, cutoff=0.5) or ids
        raise UserError(f"there is no rated set '{id}'; did you mean {' or '.join(near)}?")
    return chosen

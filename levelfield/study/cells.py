"""The cells of a study: one system, one dataset, one kind of control, one seed.

A study is a grid of cells. A cell is asked as requests, answered as texts, and measured as
samples; all parts of a study speak of it in these words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from levelfield.core.direction import Direction
from levelfield.core.documents import Document
from levelfield.core.sample import Control, Sample, wanted_name
from levelfield.stats.resampling import Draws

K = TypeVar("K")
V = TypeVar("V")


class CellKey(NamedTuple):
    """Which cell: `control` is the name of a kind of control, e.g. `sentiment`."""

    system: str
    dataset: str
    control: str
    seed: int

    def __str__(self) -> str:
        return f"{self.system} / {self.dataset} / {self.control} / seed {self.seed}"

    @property
    def folder(self) -> PurePosixPath:
        """Where it is kept below the study's folder; any name is safe and stays readable."""
        names = (self.system, self.dataset, self.control)
        return PurePosixPath("cells", *(_safe(name) for name in names), f"seed-{self.seed}")


def _safe(name: str) -> str:
    quoted = quote(name, safe=" ()+,=@")
    return quoted if quoted.strip(". ") else quoted.replace(".", "%2E").replace(" ", "%20")


@dataclass(frozen=True)
class CellRequest:
    """A request to a system for one text.

    Attributes:
        id: unique in the cell, and the same for every system and seed.
        prompt: what the text has to continue; may be empty.
        control: attribute -> wanted value or values, in the study's words.
        labels: the same in the words of the system (its label mapping).
        dataset: where the prompt comes from.
        seed: the cell's.
        source: the sentence to rewrite; empty where a prompt is to be continued.
        references: what people wrote for the source; no system sees them.
    """

    id: str
    prompt: str
    control: Control
    labels: Control
    dataset: str
    seed: int
    source: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True)
class SystemAnswer:
    """The answer of a system to a request, before any post-processing.

    Attributes:
        id: of the request.
        text: as the system gave it.
        input: the input of its model as the system reports it; empty if it does not.
        tokens: how many tokens it generated; None if it does not say.
        forward_passes: rows sent through any model for it; None if it does not say.
    """

    id: str
    text: str
    input: str = ""
    tokens: int | None = None
    forward_passes: int | None = None


@dataclass(frozen=True)
class Cost(Document):
    """The cost of answering (Tables 14 and 15 of the study).

    Attributes:
        wall_s: seconds from the first request sent to the last answer, all attempts together;
            of a technique without `loading_s`.
        texts: answers obtained in that time.
        tokens: tokens generated, as the system counts them; None if it does not.
        peak_bytes: most memory its process and their children held at once; None if unknown.
        forward_passes: rows sent through any model, as the system counts them; None if it does
            not.
        loading_s: seconds until a technique was ready for the cell, in the last run that asked it.
            It loads its models for the first cell of a run. None of other systems.
    """

    wall_s: float
    texts: int
    tokens: int | None = None
    peak_bytes: int | None = None
    forward_passes: int | None = None
    loading_s: float | None = None

    _entries = "wall_s texts tokens peak_bytes forward_passes? loading_s?"


def passes_per_token(costs: Iterable[Cost]) -> float | None:
    """Returns forward passes per token, of the cells that record both; None if none does."""
    counts = [(c.forward_passes, c.tokens) for c in costs if c.forward_passes and c.tokens]
    return sum(n for n, _ in counts) / sum(t for _, t in counts) if counts else None


@dataclass(frozen=True)
class Rate:
    """The share of a cell's texts that a judge found right.

    Attributes:
        judge: its name; `majority` for the vote of all.
        value: the requested value of the texts.
        percent: as computed or as published, whatever its scale.
    """

    judge: str
    value: str
    percent: float


class GroupValue(NamedTuple):
    """A corpus metric's value of the texts of a cell that were requested with one value."""

    metric: str
    value_asked: str
    value: float
    n: int


@dataclass(frozen=True)
class Cell:
    """A cell as it was answered and measured.

    Attributes:
        key: which cell.
        samples: the post-processed texts. A sample's `id` is unique in the study; `extra` has
            `request` (the request's id), `raw` (the text before post-processing, if that
            changed it) and `input` (what the model was given, if known).
        ignores_control: whether its technique ignores control by design, as the base alone does.
        draws: what its seed draws for. Texts of several seeds that each have a draw of their own
            are several texts of a prompt, and seeds are not a sample.
        asked: number of texts requested; None if unknown.
        missing: ids of the requests without an answer.
        failure: why the cell lacks some or all of its texts; empty if it is complete.
        problems: what was wrong with answers, in words, e.g. `3 answers with unknown ids`.
        cost: what answering took; None if unknown.
        scores: metric -> sample id -> value; NaN where undefined.
        votes: attribute -> judge -> sample id -> the label it gave; an undecided judge gave ``, and
            an output that is empty has the label `(empty)`, which is wrong.
        ties: metric -> how many texts it counts as a share, as its judges are divided on them.
        groups: values of corpus metrics.
        rates: how judges found the texts; of published runs, where no votes are known.
        signatures: metric -> signature.
        directions: metric -> direction as the results say it; of metrics that are not installed.
    """

    key: CellKey
    samples: tuple[Sample, ...] = ()
    ignores_control: bool = False
    draws: Draws = "run"
    asked: int | None = None
    missing: tuple[str, ...] = ()
    failure: str = ""
    problems: tuple[str, ...] = ()
    cost: Cost | None = None
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    votes: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    ties: Mapping[str, int] = field(default_factory=dict)
    groups: tuple[GroupValue, ...] = ()
    rates: tuple[Rate, ...] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)
    directions: Mapping[str, Direction] = field(default_factory=dict)


def grouped(values: Iterable[V], key: Callable[[V], K]) -> dict[K, list[V]]:
    """Returns key -> the values that have it, both in the order of first appearance.

    >>> grouped(["b1", "a1", "b2"], lambda name: name[0])
    {'b': ['b1', 'b2'], 'a': ['a1']}
    """
    groups: dict[K, list[V]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def value_name(control: Control) -> str:
    """Returns a control's values as one name: `positive`, `positive + World`, `court, culture`.

    >>> value_name({"sentiment": "positive", "topic": "World"})
    'positive + World'
    """
    return " + ".join(map(wanted_name, control.values()))


def bytes_in_words(n: int | None) -> str:
    """Returns an amount of memory, as the operating system counts it; a dash if it is unknown.

    >>> bytes_in_words(850_000_000), bytes_in_words(3_200_000_000), bytes_in_words(None)
    ('811 MiB', '3.0 GiB', '–')
    """
    if n is None:
        return "–"
    return f"{n / 2**30:,.1f} GiB" if n >= 2**30 else f"{n / 2**20:,.0f} MiB"

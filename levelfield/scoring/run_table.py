"""The scores of a run as columns, whatever order and partition they come in."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats, Hashes
from levelfield.core.direction import Direction
from levelfield.core.documents import Document
from levelfield.core.sample import INPUT_FIELDS, Sample, wanted_name
from levelfield.core.scores import Scores, tie_note, ties
from levelfield.core.strings import natural
from levelfield.scoring.seeds import SeededTexts
from levelfield.scoring.unpaired import SeparateTexts
from levelfield.stats.clusters import coded
from levelfield.stats.resampling import Draws

_WORDS = 3
"""Texts whose first words are equal, as many as these, may continue one prompt."""

_SUFFIX = re.compile(r"[-_./:#][0-9A-Za-z]{1,3}$")
"""What tells ids of texts of one prompt apart."""

_FEWEST_TEXTS = 10
"""Among fewer texts nothing is suggested."""

K = TypeVar("K", bound=Hashable)

Input = tuple[object, ...]
"""As `Sample.input` gives it."""

NONE = 0
"""The hash of nothing: no input, no cluster."""


@dataclass(frozen=True)
class SystemTable:
    """A run as columns of equal length.

    Attributes:
        ids, clusters, inputs: (n,) hashes; `NONE` where there is none.
        strata: (n,) hashes of data set and control.
        groups: (n,) positions in `names`.
        seeds: (n,) positions among all seeds of the run, none being one of them; None if no
            sample has a seed.
        names: of the groups.
        labels: (n,) positions in `label_names`.
        label_names: what texts were asked for, by name.
        empty: (n,) whether a text is blank.
        values: metric -> (n,).
        examples: name -> one input of the group; none of a group whose texts have no input.
            Groups with the same prompts have examples with the same prompt.
    """

    ids: Hashes
    clusters: Hashes
    inputs: Hashes
    strata: Hashes
    groups: Codes
    seeds: Codes | None
    names: tuple[str, ...]
    labels: Codes
    label_names: tuple[str, ...]
    empty: Bools
    values: Mapping[str, Floats]
    examples: Mapping[str, Input]

    @cached_property
    def own_clusters(self) -> Codes:
        """(n,) numbers of the clusters; what was generated from nothing shared is one of its
        own."""
        return coded(np.where(self.clusters == NONE, self.ids, self.clusters))[1]


class RunTable:
    """What summaries need of the samples and scores of a run, and nothing more.

    Samples and scores may come in any order and in any partition; memory is 45 bytes a sample, 16
    more where it names no prompt, and 16 a value; of texts, one input a group is kept. Ids, inputs
    and clusters are kept as 8-byte hashes: among a million of them the chance that any two collide
    is 3 in 100 million.

    Args:
        parts: metric -> the names of the parts that its values are made of, in the order to show
            them; of other metrics no parts are kept.
        draws: the unit that seeds draw for; with `text`, no sample has a seed that others share.

    >>> from levelfield.core.sample import Sample
    >>> table = RunTable()
    >>> table.add([Sample(id="1", text="The court sat.", prompt="The court", system="x")], ["x"])
    """

    def __init__(
        self, parts: Mapping[str, Sequence[str]] | None = None, *, draws: Draws = "run"
    ) -> None:
        self._draws = draws
        self._hashes = {name: array("Q") for name in ("ids", "clusters", "inputs", "strata")}
        self._groups, self._labels = _NamedColumn[str](), _NamedColumn[str]()
        self._seeds = _NamedColumn[int | None]()
        self._empty = array("B")
        self._columns: dict[str, MetricColumn] = {}
        self._part_names = parts or {}
        self._parts: dict[tuple[str, str, str], Floats] = {}
        self._corpora: dict[str, dict[tuple[str, str, str], None]] = {}
        self._examples: dict[str, tuple[int, str, Input]] = {}
        self._beginnings, self._stems = array("Q"), array("Q")

    def __len__(self) -> int:
        """How many samples were added."""
        return len(self._empty)

    def add(
        self,
        samples: Sequence[Sample],
        groups: Sequence[str],
        labels: Sequence[str] = (),
        corpora: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Takes in samples with their groups.

        Args:
            labels: what the texts were asked for, if groups are to be split by that.
            corpora: corpus metric -> the corpus that each sample is in.
        """
        labels = labels or [""] * len(samples)
        shared = [sample.shared for sample in samples]
        inputs = [sample.input for sample in samples]
        self._hashes["ids"].extend(_hash_of_id(sample.id) for sample in samples)
        self._hashes["clusters"].extend(_hash(b"cluster", s) if s else NONE for s in shared)
        self._hashes["inputs"].extend(_hash(b"input", i) if i else NONE for i in inputs)
        self._hashes["strata"].extend(map(_stratum, samples))
        self._groups.extend(groups)
        self._labels.extend(labels)
        self._seeds.extend(sample.seed if self._draws == "run" else None for sample in samples)
        self._empty.extend(not sample.text.strip() for sample in samples)
        for metric, names in (corpora or {}).items():
            members = zip(names, groups, labels, strict=True)
            self._corpora.setdefault(metric, {}).update(dict.fromkeys(members))
        for sample, group, sharing, input in zip(samples, groups, shared, inputs, strict=True):
            if not sharing:
                self._add_unshared(sample, group)
            if input:
                self._keep_example(group, sharing, input)

    def _add_unshared(self, sample: Sample, group: str) -> None:
        """Remembers what texts that name no prompt have in common with others all the same."""
        words = sample.text.split()
        is_longer = len(words) > _WORDS  # a text of its beginning alone tells nothing
        self._beginnings.append(_hash(b"begins", (group, *words[:_WORDS])) if is_longer else NONE)
        self._stems.append(_hash(b"stem", (group, _SUFFIX.sub("", sample.id))))

    def sharing_note(self) -> str:
        """What suggests that texts share prompts that they do not name; empty if nothing does.

        That is so where half of the texts without source, prompt and context begin with the same
        three words as another of their group, or where their ids without a short suffix are half as
        many as the texts or fewer, yet five a group or more.
        """
        n = len(self._stems)
        if n < _FEWEST_TEXTS:
            return ""
        begin = np.array(self._beginnings, dtype=np.uint64)
        _, counts = np.unique(begin[begin != NONE], return_counts=True)
        alike = int(counts[counts > 1].sum())
        stems = np.unique(np.array(self._stems, dtype=np.uint64)).size
        if 2 * alike >= n:
            sign = f"{alike:,} of them begin with the same words as another of their group"
        elif 5 * len(self._groups.codes) <= stems <= n / 2:
            sign = f"their ids are {stems:,} but for a suffix"
        else:
            return ""
        return (
            f"{n:,} texts name no prompt, and {sign}: if these share prompts, name them in the "
            "file (`prompt`); if taken as independent, they make intervals and p too small"
        )

    def _keep_example(self, group: str, shared: tuple[str, ...], input: Input) -> None:
        """Keeps the input whose prompt has the smallest hash, which is the same in every group
        that has this prompt, whatever its case and white space."""
        place = _hash_of_example(" ".join(shared))
        kept = self._examples.get(group)
        if kept is None or place <= kept[0]:
            example = (place, repr(input), input)
            if kept is None or example[:2] < kept[:2]:
                self._examples[group] = example

    def add_scores(self, scores: Scores, groups: Sequence[str] = ()) -> None:
        """Takes in the values of one metric for some of the samples.

        Args:
            groups: of these samples, if the means of parts are wanted.
        """
        column = self._columns.setdefault(scores.metric, MetricColumn(scores))
        if column.signature != scores.signature:
            raise ValueError(
                f"{scores.metric}: one summary, two signatures: "
                f"{column.signature} and {scores.signature}"
            )
        column.ids.extend(map(_hash_of_id, scores.ids))
        column.values.frombytes(scores.values.tobytes())
        column.reasons.update(scores.undefined.values())
        column.truncated += len(scores.truncated)
        column.ties += ties(scores)
        if groups and scores.metric in self._part_names:
            group_of = dict(zip(scores.ids, groups, strict=True))
            for id, part, score, weight in scores.part_rows or ():
                sums = self._parts.setdefault((scores.metric, group_of[id], part), np.zeros(3))
                sums += (score, weight, 1)

    def rows_of_corpora(self, metric: str) -> tuple[dict[str, str], dict[str, str]]:
        """Returns the group and the label of each corpus of a metric; none of a corpus whose texts
        are in several groups, or were asked for several labels."""
        groups: dict[str, set[str]] = defaultdict(set)
        labels: dict[str, set[str]] = defaultdict(set)
        for corpus, group, label in self._corpora.get(metric, ()):
            groups[corpus].add(group)
            labels[corpus].add(label)
        return _single(groups), _single(labels)

    def part_means(self) -> dict[str, tuple[PartMean, ...]]:
        """Returns metric -> the means of its parts, groups by name."""
        groups = sorted({group for _, group, _ in self._parts}, key=natural)
        means = {
            metric: tuple(
                PartMean(group, part, score / n, weight / n, int(n))
                for group in groups
                for part in names
                if (metric, group, part) in self._parts
                for score, weight, n in [self._parts[metric, group, part].tolist()]
            )
            for metric, names in self._part_names.items()
        }
        return {metric: metric_means for metric, metric_means in means.items() if metric_means}

    def notes(self) -> list[str]:
        """Returns what a reader must know of the values: ties, and prompts that are not named."""
        columns = self._columns.values()
        notes = [tie_note(c.metric, c.ties, len(self)) for c in columns if c.ties]
        return [*notes, *filter(None, [self.sharing_note()])]

    def table(self) -> SystemTable:
        """All that was added, as arrays with rows in the order of the ids' hashes.

        Raises:
            ValueError: two samples with one id, or a metric that lacks values for some samples or
                has values for others.
        """
        hashes = {name: np.array(column, np.uint64) for name, column in self._hashes.items()}
        rows = np.argsort(hashes["ids"])
        hashes = {name: column[rows] for name, column in hashes.items()}
        ids = hashes["ids"]
        if np.any(ids[1:] == ids[:-1]):
            raise ValueError("two samples have one id")
        names, groups = self._groups.sorted()
        label_names, labels = self._labels.sorted()
        seeds, seed_positions = self._seeds.sorted(lambda seed: (seed is None, seed or 0))
        values = {}
        for metric, column in self._columns.items():
            scored = np.array(column.ids, dtype=np.uint64)
            order = np.argsort(scored)
            if not np.array_equal(scored[order], ids):
                raise ValueError(
                    f"{metric} must have one value for each of the {len(ids)} samples; "
                    f"it has {len(scored)}, or they are of other samples"
                )
            values[metric] = np.array(column.values)[order]
        return SystemTable(
            **hashes,
            groups=groups[rows],
            seeds=None if seeds in ((), (None,)) else seed_positions[rows],
            names=names,
            labels=labels[rows],
            label_names=label_names,
            empty=np.array(self._empty, dtype=np.bool_)[rows],
            values=values,
            examples={name: example for name, (*_, example) in self._examples.items()},
        )

    def columns(self) -> Iterable[MetricColumn]:
        """The metrics, in the order in which their scores first came."""
        return self._columns.values()


@dataclass(frozen=True)
class PartMean(Document):
    """The mean of one part over the defined values of a group.

    Attributes:
        group: its name, e.g. the system.
        part: the part's name.
        mean: of its scores.
        weight: the mean weight of the part in the values that have it.
        n: how many values have it.
    """

    group: str
    part: str
    mean: float
    weight: float
    n: int


@dataclass
class MetricColumn:
    """The scores of one metric as they come in."""

    metric: str
    signature: str
    direction: Direction

    def __init__(self, first: Scores) -> None:
        self.metric, self.signature = first.metric, first.signature
        self.direction = first.direction
        self.ids = array("Q")
        self.values = array("d")
        self.reasons: Counter[str] = Counter()
        self.truncated = self.ties = 0


class _NamedColumn(Generic[K]):
    """A column of names, each of which is kept once.

    Attributes:
        codes: name -> its number, in the order in which names first came.
    """

    def __init__(self) -> None:
        self.codes: dict[K, int] = {}
        self._rows = array("i")

    def extend(self, names: Iterable[K]) -> None:
        """Appends rows."""
        codes = self.codes
        self._rows.extend(codes.setdefault(name, len(codes)) for name in names)

    def sorted(self, key: Callable[[K], Any] | None = None) -> tuple[tuple[K, ...], Codes]:
        """Returns the names in order, and for each row the position of its name."""
        ordered: list[Any] = [*self.codes]
        ordered.sort(key=key)
        names = tuple(ordered)
        rank = np.empty(len(names), dtype=np.intp)
        rank[[self.codes[name] for name in names]] = np.arange(len(names))
        return names, rank[np.array(self._rows, dtype=np.intp)]


def _single(names: Mapping[str, set[str]]) -> dict[str, str]:
    return {key: next(iter(members)) for key, members in names.items() if len(members) == 1}


def _stratum(sample: Sample) -> int:
    """Returns the hash of what samples of one stratum have in common: data set and control."""
    control = sorted(sample.control.items())
    if not control:
        return _hash_of_dataset(sample.dataset)
    return _hash(b"stratum", (sample.dataset, *control))


def _hash(kind: bytes, key: object) -> int:
    """8 bytes that stand for a key, the same in every process; never `NONE`.

    Keys are strings or nested tuples of strings, for which `repr` is unambiguous.
    """
    digest = hashlib.blake2b(
        repr(key).encode("utf-8", "backslashreplace"), digest_size=8, person=kind
    )
    return int.from_bytes(digest.digest(), "little") or 1


_RECENT = 1 << 12
"""Hashes that are remembered: metrics see the samples of a partition one after the other, and
systems answer the same prompts."""


@functools.lru_cache(_RECENT)
def _hash_of_id(id: str) -> int:
    return _hash(b"id", id)


@functools.lru_cache(_RECENT)
def _hash_of_dataset(dataset: str) -> int:
    return _hash(b"stratum", (dataset,))


@functools.lru_cache(_RECENT)
def _hash_of_example(shared: str) -> int:
    return _hash(b"example", shared.casefold().split())


class Pairing:
    """Which rows of a table answer the same input.

    Attributes:
        has_seeds: whether some texts of the run have seeds.
        clusters: (inputs,) hashes of what texts on an input share.
        texts: (inputs, systems): how many texts of a system answer an input.
    """

    def __init__(self, table: SystemTable) -> None:
        self._table = table
        self._rows = np.flatnonzero(table.inputs != NONE)
        inputs = table.inputs[self._rows]
        distinct, first, code = np.unique(inputs, return_index=True, return_inverse=True)
        shared = table.clusters[self._rows][first]
        self.clusters: Hashes = np.where(shared == NONE, distinct, shared)
        self._cluster = coded(self.clusters)[1]
        self._seeds = None if table.seeds is None else table.seeds[self._rows]
        self.has_seeds = table.seeds is not None
        self._shape = (distinct.size, len(table.names))
        self._cell = code * len(table.names) + table.groups[self._rows]
        self.texts: Codes = np.bincount(self._cell, minlength=math.prod(self._shape)).reshape(
            self._shape
        )  # (inputs, systems)
        self._names = table.names
        self._examples = table.examples

    def why_empty(self, a: str, b: str) -> str:
        """Why two systems have no input in common on which they can be compared."""
        if self._share_inputs(a, b):
            return "no input has a value from both"
        return f"no shared inputs: {_difference(a, b, self._examples)}"

    def _share_inputs(self, a: str, b: str) -> bool:
        columns = [self._names.index(a), self._names.index(b)]
        return bool(np.any(self.texts[:, columns].all(axis=1)))

    def seeded(self, values: Floats, group: int | None = None) -> SeededTexts | None:
        """The texts of all groups, or those of one that have a value, each with its seed.

        None if no text of the run has a seed.
        """
        if self._seeds is None:
            return None
        rows = np.arange(self._rows.size)
        if group is not None:
            use = ~np.isnan(values[self._rows]) & (self._cell % self._shape[1] == group)
            rows = np.flatnonzero(use)
        inputs, systems = np.divmod(self._cell[rows], self._shape[1])
        return SeededTexts(
            values=values[self._rows[rows]],
            systems=systems,
            seeds=self._seeds[rows],
            inputs=inputs,
            clusters=self._cluster,
            strata=np.zeros(self._shape[0], np.intp),
        )

    def separate(self, values: Floats) -> SeparateTexts:
        """The texts of all groups, those without an input included."""
        table = self._table
        seeds = np.zeros(table.groups.size, np.intp) if table.seeds is None else table.seeds
        return SeparateTexts(
            values=values,
            systems=table.groups,
            seeds=seeds,
            inputs=coded(np.where(table.inputs == NONE, table.ids, table.inputs))[1],
            clusters=table.own_clusters,
            strata=self._strata,
        )

    @cached_property
    def _strata(self) -> Codes:
        return coded(self._table.strata)[1]

    def shares_of_inputs(self, values: Floats) -> Floats:
        """(n,): 1 over the number of texts of a row's system on its input that have a value."""
        defined = ~np.isnan(values[self._rows])
        counts = np.bincount(self._cell[defined], minlength=math.prod(self._shape))
        shares = np.ones(values.size)
        shares[self._rows] = 1 / np.maximum(counts[self._cell], 1)
        return shares

    def lacking(self, values: Floats) -> Codes:
        """(inputs, systems): how many texts of a system on an input are undefined."""
        undefined = self._cell[np.isnan(values[self._rows])]
        return np.bincount(undefined, minlength=math.prod(self._shape)).reshape(self._shape)

    def means(self, values: Floats) -> Floats:
        """(inputs, systems): mean of the defined values of a system on an input; NaN if none."""
        v = values[self._rows]
        defined = ~np.isnan(v)
        cells = math.prod(self._shape)
        sums = np.bincount(self._cell[defined], weights=v[defined], minlength=cells)
        counts = np.bincount(self._cell[defined], minlength=cells)
        means = np.full(cells, np.nan)
        np.divide(sums, counts, out=means, where=counts > 0)
        return means.reshape(self._shape)


_SHOWN = 40
"""Characters of a field that a message shows."""


def _difference(a: str, b: str, examples: Mapping[str, Input]) -> str:
    """The first field in which an input of one system differs from one of the other."""
    without = [name for name in (a, b) if name not in examples]
    if without:
        return f"texts of {' and '.join(without)} name no {', '.join(INPUT_FIELDS[1:])}"
    parts = zip(INPUT_FIELDS, examples[a], examples[b], strict=True)
    differing = [(field, x, y) for field, x, y in parts if x != y]
    (field, x, y), *rest = sorted(differing, key=lambda part: part[0] == "dataset")
    names = ", ".join(name for name, *_ in rest)
    also = f"; {names} {'differs' if len(rest) == 1 else 'differ'} as well" if rest else ""
    return f"{a} has {_shown(field, x)}, {b} has {_shown(field, y)}{also}"


def _shown(field: str, value: object) -> str:
    if not value:
        return f"no {field}"
    if isinstance(value, tuple):
        items = [
            f"{item[0]}={wanted_name(item[1])}" if field == "control" else item for item in value
        ]
        value = " / ".join(items)
    text = str(value)
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 2].rstrip() + " …"
    return f"{field} {json.dumps(text, ensure_ascii=False)}"

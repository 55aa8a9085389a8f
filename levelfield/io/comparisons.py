"""Choices between texts of two systems, and rankings of several, as paired comparisons."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from levelfield.core import limits
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.strings import json_text
from levelfield.io import fields
from levelfield.io.fields import MISSING, Record, field_of
from levelfield.io.problems import Problems, Wrong, kind, listed, shown
from levelfield.io.reading import PathLike
from levelfield.io.rows import Rows, TableRow, inputs, table_rows
from levelfield.io.samples import Input
from levelfield.io.writing import atomic_writer

FIELDS = ("a", "b", "better", "aspect", "rater", "prompt", "sample_a", "sample_b", "item")
"""Fields of a record of a table of choices. `better` is required, and of each text its system or,
where the samples say the system, its id."""

TIES = ("both", "neither", "tie", "equal", "same", "draw")
"""Words of `better` for a tie, in any case; more may follow, as in `tie (bothbad)`."""

_TIE = re.compile(rf"(?:{'|'.join(TIES)})(?![^\W_]|-)|both(?:good|bad)", re.IGNORECASE)
"""A word of `TIES` that is not the beginning of another, such as a system's name."""


class PairChoice(NamedTuple):
    """Two systems' texts, compared by one rater on one aspect.

    Attributes:
        a, b: the systems.
        outcome: 1 where a is better, 0 where b is, 0.5 for a tie.
        aspect, rater: their names; empty where unknown.
        prompt: what the texts share: source, prompt or context, else the item.
        sample_a, sample_b: ids of the two texts; empty where unknown.
        item: the item of a rating study or the pair, where the record names it. Choices between
            the same two texts have item, sample_a and sample_b in common.
        tie: `both`, `neither` or `equal` where the outcome is 0.5; else empty.
    """

    a: str
    b: str
    outcome: float
    aspect: str
    rater: str
    prompt: str
    sample_a: str = ""
    sample_b: str = ""
    item: str = ""
    tie: str = ""


def load_comparisons(
    paths: Rows,
    samples: Mapping[str, Sample],
    *,
    format: str | None = None,
    mapping: Mapping[str, str] = {},
) -> list[PairChoice]:
    """Returns the comparisons in files, in their order.

    A record with `samples` and `better` or `ranks` is one of `pairs.jsonl` or `rankings.jsonl` of
    `levelfield rate export`; a ranking is all pairs of its texts, and a text of several systems
    stands for each of them. Any other record is one choice: `a` and `b` are systems, and `better`
    is one of them, `a`, `b`, or a word of `TIES`. Where a choice names its texts, `sample_a` and
    `sample_b`, the samples say what it leaves out: `a`, `b` and `prompt`. A choice without a prompt
    has its item there. A system compared with itself is left out of pairs and rankings.

    Args:
        paths: files, data frames or records.
        samples: id -> sample, for systems and prompts.
        mapping: our field -> their field, of the latter.

    Raises:
        InputError: with all problems there are.
    """
    reader, problems = _ChoiceReader(samples, mapping), Problems()
    choices = [
        choice
        for source in inputs(paths, "choices", format, ids_named=True)
        for row in table_rows(source, "comparisons", problems)
        for choice in reader.choices(row)
    ]
    problems.raise_if_any()
    return choices


def write_comparisons(path: PathLike, comparisons: Iterable[PairChoice]) -> None:
    """Writes choices as JSON lines that `load_comparisons` reads back equal.

    Raises:
        UserError: as `choice_record` does.
    """
    with atomic_writer(path) as file:
        for comparison in comparisons:
            file.write(json_text(choice_record(comparison)) + "\n")


def choice_record(choice: PairChoice) -> dict[str, str]:
    """Returns a choice as a record of a table of choices, which `load_comparisons` reads.

    It has `FIELDS`, those that are empty aside; `better` is the better system's name, or `both`,
    `neither` or `equal`. A choice between two texts of one system has `a` or `b` instead.

    Raises:
        UserError: a system without a name, or a tie whose word is a system's name.
    """
    c = choice
    better = c.tie or "equal"
    if c.outcome != 0.5:
        better = ("b", "a")[int(c.outcome)] if c.a == c.b else (c.b, c.a)[int(c.outcome)]
    elif better in (c.a, c.b, "a", "b"):
        raise UserError(f"a choice can't say {shown(better)} if a system has that name")
    if not (c.a and c.b):
        raise UserError("a choice has a system without a name; name both systems")
    values = (c.a, c.b, better, c.aspect, c.rater, c.prompt, c.sample_a, c.sample_b, c.item)
    return {name: value for name, value in zip(FIELDS, values, strict=True) if value}


class _ChoiceReader:
    """Takes choices and rankings from records."""

    def __init__(self, samples: Mapping[str, Sample], mapping: Mapping[str, str]) -> None:
        self._samples = samples
        self._mapping = mapping

    def choices(self, row: TableRow) -> Iterable[PairChoice]:
        """Returns the choices of a record; none, and a problem, if it has no valid ones."""
        record, source = row.record, row.source
        is_export = "samples" in record and ("better" in record or "ranks" in record)
        if not is_export:
            lacking = [
                name
                for name in FIELDS[:3]
                if self._field(record, name, source) is MISSING
                and self._field(record, f"sample_{name}", source) is MISSING
            ]
            if lacking:
                row.refuse(
                    f"not a comparison: there is no {listed(lacking)}; the fields are "
                    f"{listed(record)}; expected pairs.jsonl or rankings.jsonl of `levelfield rate "
                    "export`, or columns a, b and better, named as in --map a=COLUMN"
                )
                return []
        try:
            return (
                [*self._exported(record, source)] if is_export else [self._choice(record, source)]
            )
        except Wrong as wrong:
            row.report(wrong)
            return []

    def _field(self, record: Record, name: str, source: Input) -> Any:
        return field_of(record, name, self._mapping.get(name, name), source.cells)

    def _choice(self, record: Record, source: Input) -> PairChoice:
        names = dict.fromkeys(FIELDS, "")
        for name in FIELDS:
            value = self._field(record, name, source)
            if value is not MISSING and not fields.absent(value):
                try:
                    names[name] = fields.name(value, source.cells)
                except Wrong as wrong:
                    raise wrong.inside(name) from None
        samples = [self._samples.get(names[name]) for name in ("sample_a", "sample_b")]
        for name, sample in zip(("a", "b"), samples, strict=True):
            id = names[f"sample_{name}"]
            system = sample.system if sample else ""
            if id and not names[name] and not system:
                raise Wrong(
                    f"{name}: nothing says which system wrote {shown(id)}; name it, or give the "
                    "samples with --samples"
                )
            if system and names[name] not in ("", system):
                raise Wrong(
                    f"{name}: expected {shown(system)}, which wrote {shown(id)}, found "
                    f"{shown(names[name])}"
                )
            names[name] = names[name] or system
        shared = next((sample.shared for sample in samples if sample and sample.shared), ())
        names["prompt"] = names["prompt"] or " / ".join(shared) or names["item"]
        for name in FIELDS[:3]:
            if not names[name]:
                raise Wrong(f"{name}: is empty; name it")
        a, b, better = (names[name] for name in FIELDS[:3])
        column_a, column_b = (self._mapping.get(name, name) for name in ("a", "b"))
        outcomes = {"a": 1.0, "b": 0.0, column_a: 1.0, column_b: 0.0, b: 0.0, a: 1.0}
        outcome = outcomes.get(better, 0.5)
        if better not in outcomes and not _TIE.match(better):
            raise Wrong(
                f"better: expected {shown(a)}, {shown(b)}, a, b or tie, found {shown(better)}"
            )
        choice = PairChoice(a, b, outcome, *(names[name] for name in FIELDS[3:]))
        return choice if better in outcomes else choice._replace(tie=_tie(better))

    def _exported(self, record: Record, source: Input) -> Iterator[PairChoice]:
        texts = [self._systems(ids) for ids in _nested(record["samples"], source.cells)]
        ranks = _ranks(record, len(texts), source.cells)
        names = {}
        for field in ("aspect", "rater", "item"):
            value = record.get(field)
            try:
                names[field] = "" if fields.absent(value) else fields.name(value, source.cells)
            except Wrong as wrong:
                raise wrong.inside(field) from None
        shared = self._samples[next(iter(texts[0].values()))].shared
        prompt = " / ".join(shared) or names["item"]
        for i, k in itertools.combinations(range(len(texts)), 2):
            outcome = 0.5 if ranks[i] == ranks[k] else float(ranks[i] < ranks[k])
            tie = "equal" if outcome == 0.5 else ""
            for (a, id_a), (b, id_b) in itertools.product(texts[i].items(), texts[k].items()):
                if a != b:
                    yield PairChoice(
                        a, b, outcome, names["aspect"], names["rater"], prompt, id_a, id_b,
                        names["item"], tie,
                    )  # fmt: skip

    def _systems(self, ids: Sequence[str]) -> dict[str, str]:
        """Returns system -> id of the first of its samples among those of a text."""
        unknown = [id for id in ids if not (id in self._samples and self._samples[id].system)]
        if unknown:
            raise Wrong(
                f"nothing says which system wrote {shown(unknown[0])}; give the samples with "
                "--samples, such as ratings.jsonl of the export"
            )
        first: dict[str, str] = {}
        for id in ids:
            first.setdefault(self._samples[id].system, id)
        return first


def _nested(samples: Any, cells: bool) -> list[list[str]]:
    """Returns the ids of each text of an export."""
    samples = fields.array(samples, cells)
    is_nested = isinstance(samples, list) and all(isinstance(ids, list) for ids in samples)
    if not is_nested or not samples or not all(samples):
        raise Wrong("expected a list of lists of ids, one a text", "samples")
    if (n := sum(map(len, samples))) > limits.RANKED_TEXTS:
        raise Wrong(f"{n:,} ids; at most {limits.RANKED_TEXTS:,} are compared in pairs", "samples")
    try:
        return [[fields.name(id, cells) for id in ids] for ids in samples]
    except Wrong as wrong:
        raise wrong.inside("samples") from None


def _ranks(record: Record, texts: int, cells: bool) -> list[float]:
    """Returns a number for each text of an export, the lowest for the best."""
    if "ranks" not in record:
        expected = "the number 0 or 1 for a text of the pair, or -1 for a tie"
        try:
            better = fields.whole(record["better"], cells)
        except Wrong:
            better = texts
        if texts != 2 or better not in (-1, 0, 1):
            raise Wrong(f"expected {expected}, found {kind(record['better'])}", "better")
        return [0, 0] if better == -1 else [better, 1 - better]
    ranks = fields.array(record["ranks"], cells)
    if not isinstance(ranks, list) or len(ranks) != texts:
        raise Wrong(f"expected {texts:,} numbers, one a text", "ranks")
    read = []
    for n, rank in enumerate(ranks, 1):
        try:
            read.append(fields.number(rank, cells))
        except Wrong as wrong:
            raise wrong.inside(n).inside("ranks") from None
        if math.isnan(read[-1]):
            raise Wrong("expected a number, found NaN", "ranks")
    return read


def _tie(word: str) -> str:
    return next((tie for tie in ("both", "neither") if word.lower().startswith(tie)), "equal")

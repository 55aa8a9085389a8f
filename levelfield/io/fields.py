"""Fields of samples: what each may hold, and how the records of every format hold them.

The functions for single values take the value and whether its strings are cells of a table without
types, such as CSV: cells that are numbers or JSON are read as such. Each raises `Wrong` for a value
that the field can't hold.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, TypeGuard, TypeVar

import numpy as np

from levelfield.core import limits
from levelfield.core.continuation import without_thought
from levelfield.core.errors import UserError
from levelfield.core.sample import Control, Sample
from levelfield.core.strings import whole_number
from levelfield.io.guesses import NAMES, alternatives, field_guesses, map_words
from levelfield.io.json_input import parse_json
from levelfield.io.lines import NameTwiceError
from levelfield.io.problems import Wrong, kind, listed, printable, shown

T = TypeVar("T")

Record = Mapping[str, Any]
"""What a sample is read from: an object of JSON, a row of a table."""

FIELDS = tuple(f.name for f in dataclasses.fields(Sample))

_WITH_COMMAS = re.compile(r"[-+]?[0-9.]*(,[0-9.]+)+")


def absent(value: object) -> bool:
    """Returns whether a value is missing: null, an empty string, or NaN as in tables."""
    if isinstance(value, str):
        return not value
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_plain(value: object) -> TypeGuard[str]:
    """Returns whether `string` returns a value as it is, without a further look."""
    return type(value) is str and len(value) <= limits.TEXT_CHARACTERS and value.isascii()


def is_finite_number(value: object) -> bool:
    """Returns whether `rating` and `score` return a number as it is, without a further look."""
    return type(value) in (float, int) and abs(value) <= limits.LARGEST_NUMBER  # type: ignore[arg-type]


def string(value: Any, _cells: bool = False) -> str:
    if is_plain(value):
        return value
    if isinstance(value, str) and len(value) > limits.TEXT_CHARACTERS:
        most = f"at most {limits.TEXT_CHARACTERS:,} are read; split it"
        raise Wrong(f"a text of {len(value):,} characters; {most}")
    if not isinstance(value, str):
        raise Wrong(f"expected a string, found {kind(value)}; write it in quotes or leave it out")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Wrong(
                f"a lone surrogate ({shown(value[error.start])[1:-1]}) at character "
                f"{error.start + 1}: half of a character, which models can't read; write the "
                "character whole or remove the half"
            ) from None
    return value


def name(value: Any, cells: bool) -> str:
    """Returns a string; people number their samples and systems, so numbers too."""
    if is_plain(value):
        return value
    if isinstance(value, str | bool) or not isinstance(value, numbers.Real):
        return string(value, cells)
    return str(value)


def whole(value: Any, cells: bool) -> int:
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    real = number(value, cells, "a whole number")
    if not real.is_integer():
        raise Wrong(f"expected a whole number, found {shown(value, 20)}; remove the fraction")
    try:
        return whole_number(value) if isinstance(value, str) else int(value)
    except ValueError:  # a cell such as 42.0, as pandas writes a column with gaps
        return int(real)


def number(value: Any, cells: bool, expected: str = "a number") -> float:
    """Returns a finite number or NaN; a string is a number only as a cell."""
    is_number = isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool)
    try:
        if not (is_number or (cells and isinstance(value, str) and "_" not in value)):
            raise ValueError
        real = float(value)
    except (ValueError, OverflowError):
        mend = "leave out what is missing"
        if isinstance(value, str) and _WITH_COMMAS.fullmatch(value.strip()):
            mend = "write decimals with a point, as in 3.5, and thousands without a separator"
        raise Wrong(f"expected {expected}, found {kind(value)}; {mend}") from None
    if math.isinf(real):
        raise Wrong(f"expected {expected}, found {shown(value, 20)}, which is not finite")
    if abs(real) > limits.LARGEST_NUMBER:
        largest = f"the largest accepted is {limits.LARGEST_NUMBER:g}"
        raise Wrong(f"expected {expected}, found {real:g}; {largest}")
    return real


def array(value: Any, cells: bool) -> Any:
    """Returns a list from a cell's JSON or a NumPy array; anything else unchanged."""
    if cells and isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        return _json_cell(
            value,
            'a JSON array, which is written ["one", "two"]; '
            "a single text in brackets is written as an array of one",
        )
    return value.tolist() if isinstance(value, np.ndarray) else value


def strings(value: Any, cells: bool) -> tuple[str, ...]:
    """Returns a list of strings, or a single one."""
    value = array(value, cells)
    if not isinstance(value, list | tuple):
        return (string(value),)
    if all(map(is_plain, value)):
        return tuple(value)
    return tuple(_inside(n, string, item) for n, item in enumerate(value, 1))


def wanted(value: Any, cells: bool) -> str | tuple[str, ...]:
    """Returns the wanted value or values of an attribute; "" if there is none."""
    if type(value) is str and not cells:
        return string(value)
    if absent(value):
        return ""
    if type(value) is int:  # a label such as 0 or 1
        return str(value)
    value = array(value, cells)
    return strings(value, cells) if isinstance(value, list | tuple) else string(value)


def control(value: Any, cells: bool) -> dict[str, str | tuple[str, ...]]:
    """Returns attribute -> wanted value or values."""
    value, cells = _object(value, cells, '{"sentiment": "positive"}')
    labels = {}
    for attribute, item in value.items():
        try:
            label = wanted(item, cells)
        except Wrong as wrong:
            raise wrong.inside(attribute) from None
        if label:
            labels[string(attribute)] = label
    return labels


def ratings(value: Any, cells: bool) -> dict[str, dict[str, float]]:
    """Returns aspect -> rater -> value, without the missing ones."""
    value, cells = _object(value, cells, '{"coherence": {"rater 1": 4}}')
    aspects = {string(k): _inside(k, raters, item, cells) for k, item in value.items()}
    return {aspect: raters_values for aspect, raters_values in aspects.items() if raters_values}


def raters(value: Any, cells: bool) -> dict[str, float]:
    """Returns rater -> value of one aspect; raters that have no names are "1", "2", …."""
    value = array(value, cells)
    if isinstance(value, list | tuple):
        value = {str(n): item for n, item in enumerate(value, 1)}
    if not isinstance(value, Mapping):
        value = {"1": rating(value, cells)}
    named = {string(rater): _inside(rater, rating, item, cells) for rater, item in value.items()}
    return {rater: number for rater, number in named.items() if not math.isnan(number)}


def rating(value: Any, cells: bool) -> float:
    """Returns one rater's number; NaN if there is none."""
    if is_finite_number(value):
        return float(value)
    if absent(value) or (cells and isinstance(value, str) and value.isspace()):
        return math.nan
    return number(value, cells)


def score(value: Any, cells: bool) -> float:
    """Returns a value of a metric; NaN if there is none. It may be infinite, as a number or as the
    string "inf" or "-inf"."""
    infinite = isinstance(value, float | np.floating) and np.isinf(value)
    if infinite or (isinstance(value, str) and value.strip() in ("inf", "-inf")):
        return float(value)
    return rating(value, cells)


def _json_cell(cell: str, expected: str) -> Any:
    try:
        return parse_json(cell)
    except NameTwiceError as error:
        raise Wrong(str(error)) from None
    except ValueError:
        raise Wrong(f"{shown(cell)} is not {expected}") from None


def _object(value: Any, cells: bool, example: str) -> tuple[Mapping[Any, Any], bool]:
    """Returns an object, and whether the strings in it are cells: those inside JSON are not."""
    if type(value) is dict:
        return value, cells
    if cells and isinstance(value, str):
        value, cells = _json_cell(value, f"a JSON object such as {example}"), False
    if absent(value):
        return {}, cells
    if not isinstance(value, Mapping):
        raise Wrong(f"expected an object such as {example}, found {kind(value)}")
    return value, cells


def _inside(step: object, convert: Callable[..., T], *args: Any) -> T:
    try:
        return convert(*args)
    except Wrong as wrong:
        raise wrong.inside(step) from None


_CONVERT: Mapping[str, Callable[[Any, bool], Any]] = {
    "id": name,
    "text": string,
    "prompt": string,
    "source": string,
    "references": strings,
    "context": strings,
    "control": control,
    "system": name,
    "dataset": name,
    "seed": whole,
    "ratings": ratings,
}
_STRINGS = {field for field, convert in _CONVERT.items() if convert in (name, string)}
"""Fields whose strings are taken as they are."""

Required = Literal["text", "prompt", "source"]
Thoughts = Literal["keep", "remove"]
"""What becomes of a block in which a model thinks at the beginning of a text."""

MISSING = object()
"""What `field_of` returns for a field that a record lacks."""


class BadRecord(Exception):  # noqa: N818 (a finding, like `Wrong`)
    """A record that is not a sample, with everything that is wrong with it."""

    def __init__(self, problems: list[Wrong], *, no_required_field: bool) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems
        self.no_required_field = no_required_field


@dataclass(frozen=True)
class FieldMapping:
    """How records become samples.

    A record's fields are those of `Sample`, by name. `control.ATTRIBUTE`, `ratings.ASPECT` and
    `ratings.ASPECT.RATER` are entries of those two, `references.1` and `context.1` of lists. Fields
    of other names go to `extra`.

    Attributes:
        mapping: our field -> their field, for those that are named otherwise; theirs may be a
            dotted path into nested objects and lists, such as `choices.0.text`. An id, source,
            system or dataset may be made of several, `system+segment`, which are joined by `/`, and
            have other columns in other files: `model+line|system+segment` is the first of these
            that a record has.
        label_names: label of a control -> the name that it stands for.
        control, system, prompt: defaults of records that do not name them.
        thoughts: whether blocks in which a model thinks stay in texts.
        needed: fields that the message about a missing text asks for as well.
        required: the field that every record must have: `text`; or of requests, whose text is yet
            to be written, `prompt` or `source`. A record with nothing but a `text`, as a line of
            plain text is, has it in the field that is required. Where a prompt is, a source does
            as well: whoever reads the request says what is wrong with it.
    """

    mapping: Mapping[str, str] = field(default_factory=dict)
    label_names: Mapping[str, str] = field(default_factory=dict)
    control: Control = field(default_factory=dict)
    system: str = ""
    prompt: str = ""
    thoughts: Thoughts = "keep"
    needed: tuple[str, ...] = ()
    required: Required = "text"

    def __post_init__(self) -> None:
        for name, column in self.mapping.items():
            if name not in _CONVERT and _entry(name) is None:
                near = difflib.get_close_matches(name, _CONVERT, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_CONVERT)}"
                raise UserError(
                    f"mapping {printable(f'{name}={column}')}: a sample has no such field; {hint}"
                    "; also control.ATTRIBUTE, ratings.ASPECT.RATER and references.NUMBER"
                )
        try:
            object.__setattr__(self, "control", control(self.control, False))
            string(self.system)
            string(self.prompt)
        except Wrong as wrong:
            raise UserError(f"value for all samples: {wrong}") from None

    def sample(
        self, record: Record, *, id: str, prefix: str = "", system: str = "", cells: bool = False
    ) -> Sample:
        """Returns the sample that a record holds.

        Args:
            id, prefix, system, cells: as for `samples`.

        Raises:
            BadRecord: with all problems.
        """
        (sample,) = self.samples([(id, record)], prefix=prefix, system=system, cells=cells)
        if not isinstance(sample, Sample):
            raise sample
        return sample

    def samples(
        self,
        rows: Iterable[tuple[str, Record | Wrong]],
        *,
        prefix: str = "",
        system: str = "",
        cells: bool = False,
    ) -> list[Sample | BadRecord | Wrong]:
        """Returns the samples that records hold; what is wrong in place of one that holds none.

        Args:
            rows: records, or what is wrong with them, each with the id of a record that has none.
            prefix: goes before the id of a record that has one.
            system: of a record that has none.
            cells: whether strings are cells of a table without types.
        """
        contents = [
            record
            if isinstance(record, Wrong)
            else self._contents(record, id, prefix, system, cells)
            for id, record in rows
        ]
        return [Sample(**each) if isinstance(each, dict) else each for each in contents]

    def _contents(
        self, record: Record, id: str, prefix: str, system: str, cells: bool
    ) -> dict[str, Any] | BadRecord:
        """Returns the fields of the sample that a record holds, or all that is wrong with it."""
        fields: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        entries: list[tuple[tuple[str, ...], Any]] = []
        problems: list[Wrong] = []
        named = self._renamed(record, extra, problems, cells) if self.mapping else record
        if named.keys() == {"text"}:
            named = {self.required: named["text"]}
        for name, value in named.items():
            if name in _STRINGS and value and is_plain(value):
                fields[name] = value
            elif name in _CONVERT:
                if absent(value) and not (name == self.required and value == ""):
                    continue
                try:
                    fields[name] = _CONVERT[name](value, cells)
                except Wrong as wrong:
                    problems.append(wrong.inside(name))
                    fields[name] = None
            elif entry := _entry(name):
                entries.append((entry, value))
            elif name == "extra" and isinstance(value, Mapping):
                extra = {**value, **extra}
            else:
                extra[str(name)] = value
        for (name, *path), value in sorted(entries, key=_place):
            try:
                _enter(fields, name, path, value, cells)
            except Wrong as wrong:
                problems.append(wrong.inside(".".join((name, *path))))
        if self.required not in fields and not (self.required == "prompt" and "source" in fields):
            problems.insert(0, self._incomplete(record, there=self.required in named))
        if problems:
            return BadRecord(problems, no_required_field=self.required not in named)
        fields.setdefault("text", "")
        fields["id"] = prefix + fields["id"] if fields.get("id") else id
        fields["system"] = fields.get("system") or self.system or system
        if self.prompt and not fields.get("prompt"):
            fields["prompt"] = self.prompt
        if self.label_names:
            fields["control"] = self._with_names(fields.get("control", {}))
        if self.control:
            fields["control"] = {**self.control, **fields.get("control", {})}
        if self.thoughts == "remove":
            fields["text"] = without_thought(fields["text"], fields.get("prompt", ""))
        fields["extra"] = extra
        return fields

    def _with_names(self, control: Control) -> Control:
        def name(label: str) -> str:
            return self.label_names.get(label, label)

        return {
            attribute: name(labels) if isinstance(labels, str) else tuple(map(name, labels))
            for attribute, labels in control.items()
        }

    def _renamed(
        self, record: Record, extra: dict[str, Any], problems: list[Wrong], cells: bool
    ) -> Record:
        """Returns the record by our names; what the mapping pushes aside goes to `extra`."""
        mapped = {}
        for name, column in self.mapping.items():
            try:
                value = field_of(record, name, column, cells)
            except Wrong as wrong:
                problems.append(wrong)
                continue
            if value is not MISSING:
                mapped[name] = value
        used = {self.mapping[name] for name in mapped}
        rest = {name: value for name, value in record.items() if name not in used}
        extra.update((name, rest.pop(name)) for name in mapped.keys() & rest.keys())
        return mapped | rest

    def _incomplete(self, record: Record, *, there: bool) -> Wrong:
        required = self.required
        if there:
            return Wrong(f'null, expected a string; an empty {required} is written ""', required)
        column = self.mapping.get(required)
        problem = "missing" if column is None else f"there is no {shown(column)}"
        fields = f"the fields are {listed(record)}" if record else "there are no fields at all"
        mapped = {name for pair in self.mapping.items() if pair[0] != required for name in pair}
        rest = {name: value for name, value in record.items() if name not in mapped}
        needed = [f for f in (required, *self.needed) if f not in mapped and f not in record]
        guesses = {
            ours: column
            for ours, column in field_guesses(rest, needed).items()
            if ours not in mapped and (ours in _CONVERT or _entry(ours))
        }
        if required in guesses:
            example = map_words(guesses)
            return Wrong(f"{problem}; {fields}; name yours, for example {example}", required)
        mend = f"name the one with the {required}: --map {required}=COLUMN"
        return Wrong(f"{problem}; {fields}; {mend}", required)


def as_record(sample: Sample) -> dict[str, Any]:
    """Returns the record that reads as this sample again: its fields, without the empty ones."""
    record = {name: getattr(sample, name) for name in FIELDS}
    return {
        name: value
        for name, value in record.items()
        if name in ("id", "text") or (value is not None and value not in ("", (), {}))
    }


def unmatched(name: str, column: str, fields: Iterable[str]) -> str:
    """Returns the problem that no record has the column that a mapping names."""
    return (
        f"mapping {printable(f'{name}={column}')}: no record has {shown(column)}; "
        f"the fields are {listed(fields)}"
    )


def has(record: Record, field: str, column: str) -> bool:
    """Returns whether the record has their field, or the dotted path leads somewhere."""
    return all(_lookup(record, part) is not MISSING for part in _parts(record, field, column))


def field_of(record: Record, field: str, column: str, cells: bool) -> Any:
    """Returns the value of our field in a record with other names; `MISSING` if there is none.

    Raises:
        Wrong: of several columns, some are missing or empty.
    """
    parts = _parts(record, field, column)
    cell_values = [_lookup(record, part) for part in parts]
    if len(parts) == 1 or all(value is MISSING for value in cell_values):
        is_number = isinstance(cell_values[0], int) and not isinstance(cell_values[0], bool)
        return str(cell_values[0]) if is_number and field in NAMES else cell_values[0]
    if lacking := [
        part for part, value in zip(parts, cell_values, strict=True) if value is MISSING
    ]:
        raise Wrong(f"there is no {listed(lacking)}; the fields are {listed(record)}", field)
    if empty := [part for part, value in zip(parts, cell_values, strict=True) if absent(value)]:
        raise Wrong(f"{listed(empty)} is part of it and empty; fill it in", field)
    try:
        return "/".join(name(value, cells) for value in cell_values)
    except Wrong as wrong:
        raise wrong.inside(field) from None


def _parts(record: Record, field: str, column: str) -> tuple[str, ...]:
    """Returns the columns of a field: several if a `+` between them is not part of a name.

    Among alternatives it takes those that the record has, else the first.
    """
    if field not in NAMES or column in record:
        return (column,)
    choices = [_columns(record, choice) for choice in alternatives(field, column)]
    present = (c for c in choices if all(_lookup(record, part) is not MISSING for part in c))
    return next(present, choices[0])


def _columns(record: Record, column: str) -> tuple[str, ...]:
    several = "+" in column and column not in record
    return tuple(part.strip() for part in column.split("+")) if several else (column,)


def _lookup(record: Record, path: str) -> Any:
    if path in record:
        return record[path]
    value: Any = record
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list) and step in map(str, range(len(value))):
            value = value[int(step)]
        else:
            return MISSING
    return value


def _entry(name: object) -> tuple[str, ...] | None:
    """`control.sentiment` -> ("control", "sentiment"); None for any other name."""
    if not isinstance(name, str) or not name.startswith(("control.", "ratings.", *_LISTS)):
        return None
    if name.startswith(_LISTS):
        listed, _, number = name.partition(".")
        return (listed, number) if number.isascii() and number.isdecimal() else None
    # a rater's name, perhaps an address, may have dots; so may an attribute
    parts = tuple(name.split(".", 1 if name.startswith("control.") else 2))
    return parts if all(parts) else None


_LISTS = ("references.", "context.")
"""Of entries with a number, for tables with a column each; in the order of the numbers."""


def _place(entry: tuple[tuple[str, ...], Any]) -> int:
    (name, *path), _ = entry
    return int(path[0]) if f"{name}." in _LISTS else 0


def _enter(fields: dict[str, Any], name: str, path: list[str], value: Any, cells: bool) -> None:
    """Puts the value at the path into the field of what is made so far."""
    if f"{name}." in _LISTS:
        if not absent(value):
            fields[name] = (*(fields.get(name) or ()), string(value))
        return
    field = dict(fields.get(name) or {})
    string(path[0])
    entry: Any
    if name == "control":
        entry = wanted(value, cells)
    elif path[1:]:
        number = rating(value, cells)
        entry = {} if math.isnan(number) else {string(path[1]): number}
    else:
        entry = raters(value, cells)
    if entry:
        field[path[0]] = {**field.get(path[0], {}), **entry} if name == "ratings" else entry
    fields[name] = field

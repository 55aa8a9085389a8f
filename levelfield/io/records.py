"""Records to samples and back: the one set of rules for every format."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from levelfield.core.continuation import without_thought
from levelfield.core.errors import UserError
from levelfield.core.sample import Control, Sample
from levelfield.io import values
from levelfield.io.guesses import NAMES, alternatives, field_guesses, map_words
from levelfield.io.problems import Wrong, listed, printable, shown

Record = Mapping[str, Any]
"""What a sample is read from: an object of JSON, a row of a table."""

FIELDS = tuple(f.name for f in fields(Sample))

_CONVERT: Mapping[str, Callable[[Any, bool], Any]] = {
    "id": values.name,
    "text": values.string,
    "prompt": values.string,
    "source": values.string,
    "references": values.strings,
    "context": values.strings,
    "control": values.control,
    "system": values.name,
    "dataset": values.name,
    "seed": values.whole,
    "ratings": values.ratings,
}
_STRINGS = frozenset({"id", "text", "prompt", "source", "system", "dataset"})
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
class Rules:
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
        wanted: fields that the message about a missing text asks for as well.
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
    wanted: tuple[str, ...] = ()
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
            object.__setattr__(self, "control", values.control(self.control, False))
            values.string(self.system)
            values.string(self.prompt)
        except Wrong as wrong:
            raise UserError(f"value for all samples: {wrong}") from None

    def sample(
        self, record: Record, *, id: str, prefix: str = "", system: str = "", cells: bool = False
    ) -> Sample:
        """Returns the sample that a record holds.

        Args:
            id, system: for a record that has none.
            prefix: goes before the id of a record that has one.
            cells: whether strings are cells of a table without types, see `values`.

        Raises:
            BadRecord: with all problems.
        """
        fields: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        entries: list[tuple[tuple[str, ...], Any]] = []
        problems: list[Wrong] = []
        named = self._renamed(record, extra, problems, cells) if self.mapping else record
        if named.keys() == {"text"}:
            named = {self.required: named["text"]}
        for name, value in named.items():
            if name in _STRINGS and value and values.is_plain(value):
                fields[name] = value
            elif name in _CONVERT:
                if values.absent(value) and not (name == self.required and value == ""):
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
            raise BadRecord(problems, no_required_field=self.required not in named)
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
        return Sample(**fields, extra=extra)

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
        needed = [f for f in (required, *self.wanted) if f not in mapped and f not in record]
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
    if empty := [
        part for part, value in zip(parts, cell_values, strict=True) if values.absent(value)
    ]:
        raise Wrong(f"{listed(empty)} is part of it and empty; fill it in", field)
    try:
        return "/".join(values.name(value, cells) for value in cell_values)
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
    """`control.sentiment` -> ("control", "sentiment"); None for a name that is no entry."""
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
        if not values.absent(value):
            fields[name] = (*(fields.get(name) or ()), values.string(value))
        return
    field = dict(fields.get(name) or {})
    values.string(path[0])
    entry: Any
    if name == "control":
        entry = values.wanted(value, cells)
    elif path[1:]:
        rating = values.rating(value, cells)
        entry = {} if math.isnan(rating) else {values.string(path[1]): rating}
    else:
        entry = values.raters(value, cells)
    if entry:
        field[path[0]] = {**field.get(path[0], {}), **entry} if name == "ratings" else entry
    fields[name] = field

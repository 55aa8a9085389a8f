"""Documents are derived from the fields and entries that their classes declare."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from levelfield.core.documents import Document, plain


@dataclass(frozen=True)
class Ends(Document):
    low: float
    high: float


class Place(NamedTuple):
    system: str
    seed: int | None


@dataclass(frozen=True)
class Mean(Document):
    value: float
    place: Place
    ends: Ends | None = None
    group: str = ""
    n: int = 0
    notes: tuple[str, ...] = ()

    _entries = "value|inf low=ends.low group|null n|null *place notes?"


def test_a_document_without_entries_has_all_fields():
    assert Ends(0.5, math.inf).to_dict() == {"low": 0.5, "high": None}


def test_entries_rename_inline_and_leave_out():
    assert Mean(-math.inf, Place("x", None)).to_dict() == {
        "value": "-inf", "low": None, "group": None, "n": None, "system": "x", "seed": None,
    }  # fmt: skip
    full = Mean(math.nan, Place("y", 0), Ends(1, 2), "a", 3, ("note",)).to_dict()
    assert full == {
        "value": None, "low": 1, "group": "a", "n": 3, "system": "y", "seed": 0, "notes": ["note"],
    }  # fmt: skip


def test_an_entry_of_an_unknown_form_is_an_error():
    class Wrong(Document):
        _entries = "a:b"

    with pytest.raises(ValueError, match="a:b is not an entry"):
        Wrong().to_dict()


def test_values_are_plain():
    @dataclass
    class Inner:
        values: dict[str, float] = field(default_factory=lambda: {"a": math.nan})

    assert plain([Inner(), Path("x"), Place("y", 1), True, None]) == [
        {"values": {"a": None}}, "x", {"system": "y", "seed": 1}, True, None,
    ]  # fmt: skip


def classes(base: type[Document]) -> Iterator[type[Document]]:
    for cls in base.__subclasses__():
        yield cls
        yield from classes(cls)


def test_every_entry_is_an_attribute_of_its_class():
    import levelfield.agree.agreement
    import levelfield.agree.estimate
    import levelfield.agree.evaluation
    import levelfield.agree.preference
    import levelfield.agree.strengths
    import levelfield.study.report
    import levelfield.study.verbs  # noqa: F401 (their classes are looked at)

    wrong = [
        f"{cls.__name__}: {word}"
        for cls in classes(Document)
        if dataclasses.is_dataclass(cls) and cls.__module__.startswith("levelfield")
        for word in cls._entries.split()
        for name in [re.sub(r"^\*|^\w+=|[?|].*$|\..*$", "", word)]
        if name not in {f.name for f in dataclasses.fields(cls)} and not hasattr(cls, name)
    ]
    assert wrong == []

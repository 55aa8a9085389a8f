"""Options: declared once, checked alike in Python, from words, and in schemas."""

from __future__ import annotations

import dataclasses
import inspect
import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.core.options import (
    REQUIRED,
    Declaration,
    Options,
    Rule,
    Unfit,
    choices,
    distributed,
    group,
    json_schema,
    keywords,
    make,
    option,
    parsed,
    required,
    underscored,
)
from levelfield.scoring.options import Execution


@dataclass(frozen=True, kw_only=True)
class Oven(Options):
    heat: int = option(180, "Heat of the oven, in degrees Celsius.", least=50, most=300)
    fan: bool = option(False, "Let the fan run.")
    fuel: Literal["gas", "power"] = option("power", "What it burns.")


@dataclass(frozen=True, kw_only=True)
class Bread(Options):
    name = "bread"

    flour: str = option(help="Flour that the dough is made of.", example='"rye"')
    salt: float = option(0.02, "Salt, as a share of the flour.", above=0, most=0.1)
    hours: float | None = option(None, "Hours that the dough rests.", least=0, below=100)
    seeds: tuple[str, ...] = option((), "Seeds on top.", among=("poppy", "sesame"))
    folds: tuple[int, ...] = option((), "Folds after each hour.", least=0)
    notes: Mapping[str, Any] = option({}, "Anything else.")
    oven: Oven = group(Oven(heat=220), without=("fan",), among={"fuel": ("power",)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hours and self.flour == "none":
            raise UserError("hours: there is no dough to rest")


def test_the_choices_of_a_group_count_as_the_owner_s_with_the_group_s_defaults():
    assert [*choices(Bread)] == [
        *("flour", "salt", "hours", "seeds", "folds", "notes"),
        *("heat", "fuel"),
    ]
    assert choices(Bread)["heat"].default == 220
    assert choices(Bread)["heat"].path == ("oven", "heat")
    assert choices(Bread)["fuel"].names == ("power",)
    assert required(choices(Bread), ()) == ["flour"]


def test_options_are_made_from_values_by_name_and_from_others():
    bread = Bread.of(flour="rye", heat=250, seeds=["poppy"])
    assert bread == Bread(flour="rye", oven=Oven(heat=250), seeds=("poppy",))
    assert bread.replace(heat=90).oven == Oven(heat=90)
    assert Bread.of(bread, salt=0.01).oven.heat == 250
    assert Bread.of(flour="rye", oven=Oven(heat=100)).oven.heat == 100
    assert make(Bread, bread.to_dict()) == bread
    assert pickle.loads(pickle.dumps(bread)) == bread


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, 'flour: expected a string, such as "rye"; there is none'),
        ({"flour": 3}, "bread: flour=3: expected a string"),
        ({"salt": 0}, "bread: salt=0: expected a number above 0, at most 0.1"),
        ({"salt": math.nan}, "salt=nan: expected a number above 0"),
        ({"salt": True}, "salt=True: expected a number"),
        ({"hours": 100}, "hours=100: expected a number from 0, below 100"),
        ({"heat": 20}, "heat=20: expected a whole number from 50 to 300"),
        ({"heat": 200.0}, "heat=200.0: expected a whole number"),
        ({"fuel": "gas"}, "fuel=gas: expected power"),
        ({"seeds": ["popy"]}, "expected poppy or sesame; did you mean poppy?"),
        ({"seeds": "poppy"}, "seeds=poppy: expected a list"),
        ({"folds": [1, -1]}, "folds=[1, -1]: expected a whole number from 0 on"),
        ({"notes": "x"}, "notes=x: expected a table"),
        ({"yeast": 1}, "there is no option 'yeast'"),
        ({"sault": 1}, "there is no option 'sault'; did you mean 'salt'?"),
        ({"fan": True}, "there is no option 'fan'"),
        ({"flour": "none", "hours": 2}, "there is no dough to rest"),
        ({"oven": Oven(fan=True)}, "oven.fan=True: there is no such choice here"),
    ],
)
def test_a_value_that_a_choice_does_not_accept_is_refused_with_what_was_expected(
    values: dict[str, Any], complaint: str
):
    with pytest.raises(UserError) as error:
        Bread.of(**({"flour": "rye"} | values if values else {}))
    assert complaint in str(error.value)


def test_python_s_own_call_and_replace_check_as_well():
    with pytest.raises(UserError, match=r"salt=2\.0: expected"):
        Bread(flour="rye", salt=2.0)
    with pytest.raises(UserError, match="heat=5: expected"):
        dataclasses.replace(Oven(), heat=5)


def test_numbers_of_numpy_and_paths_are_accepted_as_python_s():
    oven = Oven(heat=np.int64(60))
    assert (oven.heat, type(oven.heat)) == (60, int)
    assert Bread(flour=Path("rye"), salt=np.float64(0.05)).flour == "rye"  # type: ignore[arg-type]
    salt = Bread(flour="rye", salt=np.float32(0.0625)).salt  # type: ignore[arg-type]
    assert (salt, type(salt)) == (0.0625, float)


@pytest.mark.parametrize("folds", [[1, 2], {1: "", 2: ""}.keys(), np.array([1, 2]), iter([1, 2])])
def test_a_list_may_be_any_collection(folds: Any):
    assert Bread.of(flour="rye", folds=folds).folds == (1, 2)


def test_a_function_shows_the_options_it_takes_by_name():
    @keywords(Bread)
    def bake(flour: str, *, times: int = 1, **words: Any) -> list[Bread]:
        """Bakes a bread."""
        return [Bread.of(flour=flour, **words)] * times

    shown = inspect.signature(bake).parameters
    assert list(shown)[:3] == ["flour", "times", "salt"]
    assert shown["heat"].default == 220
    assert shown["flour"].annotation == "str"
    assert "words" not in shown
    assert f"\n    salt: {choices(Bread)['salt'].rule.help}" in (bake.__doc__ or "")
    assert bake("rye", salt=0.05)[0].salt == 0.05


def test_none_and_names_beside_a_range_are_no_bounds():
    choice = choices(Execution)["workers"]
    assert choice.expected == "a whole number from 1 to 1,024, or auto"
    with pytest.raises(
        UserError, match="workers=0: expected a whole number from 1 to 1,024, or auto, or"
    ):
        Execution.of(workers=0)


@given(st.one_of(st.integers(), st.floats(), st.text(), st.booleans(), st.none()))
def test_a_value_is_accepted_if_and_only_if_it_has_the_type_and_lies_in_the_range(value: object):
    choice = choices(Oven)["heat"]
    fits = type(value) is int and 50 <= value <= 300
    try:
        assert choice.check(value) == value
        assert fits
    except Unfit:
        assert not fits


@given(st.integers(-1000, 1000), st.sampled_from(["{}", "{}.0", "{}e0", "0{}", "{}_0"]))
def test_a_word_is_accepted_if_and_only_if_its_value_is(number: int, form: str):
    word = form.format(number)
    choice = choices(Oven)["heat"]
    fits = form in ("{}", "0{}") and word.lstrip("0").isdigit() and 50 <= number <= 300
    try:
        assert choice.parse(word) == number
        assert fits
    except Unfit:
        assert not fits


def test_words_are_read_by_type_and_none_is_a_value_where_it_can_be():
    known = choices(Bread)
    words = {"salt": "0.05", "hours": "none", "heat": "60", "flour": "a=b", "unknown": "x"}
    assert parsed("bread", known, words) == {
        "salt": 0.05,
        "hours": None,
        "heat": 60,
        "flour": "a=b",
    }
    with pytest.raises(UserError, match=r"bread: option hours=-1: expected .* or none"):
        parsed("bread", known, {"hours": "-1"})
    with pytest.raises(UserError, match=r"bread: option fuel=coal: expected power$"):
        parsed("bread", known, {"fuel": "coal"})


def test_a_dash_in_the_name_of_a_choice_is_an_underscore_and_none_in_what_has_the_choice():
    words = {"edited-layers": "8", "rouge-1:min-length": "2", "top_k": "a-b"}
    assert underscored(words) == {"edited_layers": "8", "rouge-1:min_length": "2", "top_k": "a-b"}
    with pytest.raises(UserError, match=r"^option top_k is given twice"):
        underscored({"top-k": "1", "top_k": "1"})


def test_keyword_arguments_are_distributed_over_classes():
    assert distributed({"heat": 60, "salt": 0.1}, Oven, Bread) == [
        {"heat": 60},
        {"heat": 60, "salt": 0.1},
    ]
    with pytest.raises(UserError, match="did you mean 'heat'"):
        distributed({"haet": 60}, Oven, Bread)


def test_classes_that_declare_nothing_have_choices_by_signature_and_docstring():
    class Elsewhere:
        """A class of another package.

        Args:
            size: how large it is.
        """

        def __init__(self, size: int, *, names: list[str] | None = None) -> None: ...

    known = choices(Elsewhere)
    assert (known["size"].required, known["size"].rule.help) == (True, "how large it is.")
    assert known["names"].is_list
    assert known["names"].default is None


def test_a_schema_says_types_ranges_names_and_what_is_required():
    schema = json_schema(Bread)
    assert schema["required"] == ["flour"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["salt"]["exclusiveMinimum"] == 0
    assert properties["salt"]["maximum"] == 0.1
    assert properties["seeds"]["items"]["enum"] == ["poppy", "sesame"]
    assert properties["heat"] == {
        "type": "integer",
        "minimum": 50,
        "maximum": 300,
        "description": "Heat of the oven, in degrees Celsius.",
        "default": 220,
    }


def test_names_may_be_read_at_first_use():
    names = ["a"]
    choice = Declaration("x", str, REQUIRED, Rule(among=lambda: names), ("x",))
    assert choice.check("a") == "a"
    with pytest.raises(Unfit, match="expected a"):
        choice.check("b")
    names.append("b")
    assert choice.check("b") == "b"

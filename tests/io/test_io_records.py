from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.core.sample import Sample
from levelfield.io import as_record, load_samples
from levelfield.io.fields import BadRecord, FieldMapping


def sample_of(record, *, cells=False, **rules):
    return FieldMapping(**rules).sample(record, id="own", cells=cells)


def problems_of(record, *, cells=False, **rules):
    with pytest.raises(BadRecord) as caught:
        sample_of(record, cells=cells, **rules)
    return [str(problem) for problem in caught.value.problems]


def test_fields_go_by_name_and_all_others_to_extra():
    made = sample_of(
        {
            "id": "a",
            "text": "The sea was calm.",
            "prompt": "The sea",
            "source": "The sea was wild.",
            "references": ["A calm sea."],
            "context": ["How was it?", "Tell me."],
            "control": {"sentiment": "positive", "keywords": ["sea", "calm"]},
            "system": "gedi",
            "dataset": "sailing",
            "seed": 3,
            "ratings": {"coherence": {"ann": 4, "bo": 3.5}},
            "temperature": 0.7,
            "extra": {"note": "from the log"},
        }
    )
    assert made == Sample(
        id="a",
        text="The sea was calm.",
        prompt="The sea",
        source="The sea was wild.",
        references=("A calm sea.",),
        context=("How was it?", "Tell me."),
        control={"sentiment": "positive", "keywords": ("sea", "calm")},
        system="gedi",
        dataset="sailing",
        seed=3,
        ratings={"coherence": {"ann": 4.0, "bo": 3.5}},
        extra={"note": "from the log", "temperature": 0.7},
    )


def test_dotted_names_are_entries_of_control_and_ratings():
    made = sample_of(
        {
            "text": "a",
            "control": {"topic": "science", "sentiment": "negative"},
            "control.sentiment": "positive",
            "ratings.coherence.ann@example.org": 4,
            "ratings.coherence.bo": 5,
            "ratings.fluency": [1, 2],
            "ratings.overall": 3,
            "control.": "no attribute",
            "ratings": None,
        }
    )
    assert made.control == {"topic": "science", "sentiment": "positive"}
    assert made.ratings == {
        "coherence": {"ann@example.org": 4.0, "bo": 5.0},
        "fluency": {"1": 1.0, "2": 2.0},
        "overall": {"1": 3.0},
    }
    assert made.extra == {"control.": "no attribute"}


def test_mapping_names_their_fields_also_inside_objects_and_lists():
    made = sample_of(
        {
            "text": "not this one",
            "choices": [{"message": {"content": "this one"}}],
            "label": "negative",
            "a.b": "exact names come first",
            "a": {"b": "not this"},
            "score": 4,
        },
        mapping={
            "text": "choices.0.message.content",
            "control.sentiment": "label",
            "source": "a.b",
            "ratings.overall.me": "score",
        },
    )
    assert made.text == "this one"
    assert made.control == {"sentiment": "negative"}
    assert made.source == "exact names come first"
    assert made.ratings == {"overall": {"me": 4.0}}
    assert made.extra.keys() == {"text", "choices", "a"}


def test_a_field_may_be_mapped_twice():
    made = sample_of({"output": "a"}, mapping={"text": "output", "prompt": "output"})
    assert (made.text, made.prompt, made.extra) == ("a", "a", {})


def test_an_id_has_other_columns_in_other_files():
    mapping = {"id": "model+line|system+segment", "text": "a|b"}
    of_one = {"model": "m", "line": 1, "a|b": "x"}
    other = {"system": "m", "segment": 1, "a|b": "x"}
    assert [sample_of(r, mapping=mapping).id for r in (of_one, other)] == ["m/1", "m/1"]
    assert sample_of({"text": "x", "s|t": 7}, mapping={"id": "s|t"}).id == "7"


@pytest.mark.parametrize("ours", ["txt", "extra", "control.", "rating.x", "ratings.x.", ""])
def test_a_mapping_from_no_field_of_ours_is_the_users_mistake(ours):
    with pytest.raises(UserError, match=r"a sample has no such field; (did you mean|there are)"):
        FieldMapping(mapping={ours: "x"})


def test_constants_fill_only_what_a_record_lacks():
    rules = {
        "control": {"sentiment": "positive", "topic": "art"},
        "system": "s",
        "prompt": "p",
    }
    bare = sample_of({"text": "a"}, **rules)
    assert (bare.control, bare.system, bare.prompt) == (rules["control"], "s", "p")
    full = sample_of(
        {"text": "a", "control": {"topic": "war"}, "system": "own", "prompt": "q"}, **rules
    )
    assert full.control == {"sentiment": "positive", "topic": "war"}
    assert (full.system, full.prompt) == ("own", "q")


def test_constants_are_checked_too():
    with pytest.raises(UserError, match="lone surrogate"):
        FieldMapping(system="a\udc80")


@pytest.mark.parametrize("missing", [None, math.nan, ""])
def test_null_nan_and_the_empty_string_are_missing_values(missing):
    fields = ("id", "prompt", "source", "references", "context", "control", "system", "dataset")
    record = dict.fromkeys((*fields, "seed", "ratings"), missing)
    assert sample_of({"text": "a", **record}) == Sample(id="own", text="a")
    made = sample_of(
        {"text": "a", "ratings": {"x": {"r": missing, "s": 1}, "y": missing, "z": [missing]}}
    )
    assert made.ratings == {"x": {"s": 1.0}}
    assert sample_of({"text": "a", "control": {"x": missing}}).control == {}


@pytest.mark.parametrize(
    "text", ["", "word", "🙂👩‍👩‍👧", "שלום עולם", "a\u2028b\x85c", "x" * 50_000, "\0"]
)
def test_any_string_is_a_text(text):
    assert sample_of({"text": text}).text == text


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"text": None}, "text: null"),
        ({"text": math.nan}, "text: null"),
        ({"text": 3}, "text: expected a string, found the number 3"),
        ({"text": ["a"]}, "text: expected a string, found a list"),
        ({"text": "a\ud800b"}, "text: a lone surrogate (\\ud800) at character 2"),
        ({"text": "a", "prompt": True}, "prompt: expected a string, found true or false"),
        ({"text": "a", "id": ["b"]}, "id: expected a string, found a list"),
        ({"text": "a", "id": True}, "id: expected a string, found true or false"),
        ({"text": "a", "id": "\udfff"}, "id: a lone surrogate"),
        ({"text": "a", "references": 3}, "references: expected a string"),
        ({"text": "a", "references": ["b", None]}, "references[2]: expected a string, found null"),
        ({"text": "a", "context": [{"role": "user"}]}, "context[1]: expected a string, found an"),
        ({"text": "a", "control": "positive"}, 'control: expected an object such as {"sentiment"'),
        ({"text": "a", "control": {"x": 1.5}}, "control.x: expected a string"),
        ({"text": "a", "control": {"x": ["y", 1]}}, "control.x[2]: expected a string"),
        ({"text": "a", "control.x": False}, "control.x: expected a string"),
        ({"text": "a", "control": {"\ud800": "y"}}, "control: a lone surrogate"),
        ({"text": "a", "seed": 1.5}, "seed: expected a whole number, found 1.5"),
        ({"text": "a", "seed": "1"}, 'seed: expected a whole number, found the string "1"'),
        ({"text": "a", "seed": True}, "seed: expected a whole number, found true or false"),
        ({"text": "a", "ratings": 4}, "ratings: expected an object"),
        ({"text": "a", "ratings": {"x": {"r": True}}}, "ratings.x.r: expected a number, found tr"),
        ({"text": "a", "ratings": {"x": {"r": "4"}}}, "ratings.x.r: expected a number, found the"),
        ({"text": "a", "ratings": {"x": math.inf}}, "ratings.x: expected a number, found inf"),
        ({"text": "a", "ratings": {"x": 10**400}}, "ratings.x: expected a number"),
        ({"text": "a", "ratings.x.r": "4"}, "ratings.x.r: expected a number"),
        ({"text": "a", "ratings.x": [1, {}]}, "ratings.x.2: expected a number, found an object"),
    ],
)
def test_a_wrong_value_is_named_with_its_field_and_what_was_expected(record, problem):
    (found,) = problems_of(record)
    assert found.startswith(problem)


def test_all_problems_of_a_record_are_reported():
    found = problems_of({"prompt": 1, "seed": "x", "control": 3})
    assert [p.partition(":")[0] for p in found] == ["text", "prompt", "seed", "control"]


def test_a_missing_text_says_what_there_is_and_how_to_map_it():
    (found,) = problems_of({"id": 1, "output": "a"})
    assert 'the fields are "id", "output"' in found
    assert "--map text=output" in found
    assert "--map text=COLUMN" in problems_of({"id": 1, "n": 2})[0]
    assert "no fields at all" in problems_of({})[0]
    assert 'there is no "out"' in problems_of({"output": "a"}, mapping={"text": "out"})[0]


def test_a_message_stays_one_printable_line_whatever_the_names_are():
    (found,) = problems_of({"a\nb\x1b[31m\u2028" + "x" * 500: 1})
    assert found.isprintable()
    assert len(found) < 300


def test_a_seed_is_exact_however_large():
    for seed in (2**53 + 1, -(10**40)):
        assert sample_of({"text": "a", "seed": seed}).seed == seed
        assert sample_of({"text": "a", "seed": str(seed)}, cells=True).seed == seed
    assert sample_of({"text": "a", "seed": "42.0"}, cells=True).seed == 42


def test_numbers_are_ids_and_numbers_of_any_kind_are_ratings():
    made = sample_of(
        {
            "text": "a",
            "id": 7,
            "system": 2.5,
            "seed": np.int64(4),
            "ratings": {"x": [np.float32(1.5), Decimal("2.5"), np.int16(3)]},
        }
    )
    assert (made.id, made.system, made.seed) == ("7", "2.5", 4)
    assert made.ratings == {"x": {"1": 1.5, "2": 2.5, "3": 3.0}}
    assert sample_of({"text": "a", "seed": 42.0}).seed == 42
    assert sample_of({"text": "a", "references": np.array(["b", "c"])}).references == ("b", "c")


def test_cells_of_untyped_tables_may_be_numbers_and_json():
    made = sample_of(
        {
            "id": "",
            "text": "",
            "references": '["one", "[two]"]',
            "context": "[laughs] Hello",
            "control": '{"sentiment": "[odd]"}',
            "control.keywords": '["sea", "calm"]',
            "seed": "42",
            "ratings": '{"overall": {"ann": 3}}',
            "ratings.coherence.ann": " 4.5 ",
            "ratings.coherence.bo": " ",
            "ratings.fluency": "[1, 2]",
        },
        cells=True,
    )
    assert made == Sample(
        id="own",
        text="",
        references=("one", "[two]"),
        context=("[laughs] Hello",),
        control={"sentiment": "[odd]", "keywords": ("sea", "calm")},
        seed=42,
        ratings={
            "overall": {"ann": 3.0},
            "coherence": {"ann": 4.5},
            "fluency": {"1": 1.0, "2": 2.0},
        },
    )


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"references": "['sea', 'calm']"}, "is not a JSON array"),
        ({"control": "positive"}, "is not a JSON object"),
        ({"control": "[1]"}, "expected an object"),
        ({"ratings.x": "4,5"}, 'expected a number, found the string "4,5"'),
        ({"ratings": '{"x": {"r": "4"}}'}, 'expected a number, found the string "4"'),
        ({"seed": "one"}, "expected a whole number"),
    ],
)
def test_a_cell_that_seems_to_be_json_or_a_number_must_be_one(record, problem):
    (found,) = problems_of({"text": "a", **record}, cells=True)
    assert problem in found


def test_a_record_holds_what_is_filled_only():
    assert as_record(Sample(id="1", text="")) == {"id": "1", "text": ""}
    assert as_record(Sample(id="1", text="a", seed=0, references=("b",))) == {
        "id": "1",
        "text": "a",
        "seed": 0,
        "references": ("b",),
    }


def test_texts_and_records_in_memory_are_numbered():
    texts = load_samples(["a", "b"], control={"sentiment": "positive"}, system="s", prompt="p")
    assert [s.id for s in texts] == ["1", "2"]
    assert texts[1] == Sample(
        id="2", text="b", prompt="p", control={"sentiment": "positive"}, system="s"
    )
    records = load_samples(({"output": t} for t in "ab"), mapping={"text": "output"})
    assert [(s.id, s.text) for s in records] == [("1", "a"), ("2", "b")]


def test_what_is_in_memory_is_checked_as_a_whole():
    with pytest.raises(InputError) as caught:
        load_samples([{"text": "a", "id": 1}, {"text": 2}, {}, {"text": "b", "id": "1"}])
    places = [p.partition(": ")[0] for p in caught.value.problems]
    assert places == ["samples:item 2", "samples:item 3", "samples:item 4"]
    assert 'id "1" was used at samples:item 1' in caught.value.problems[2]


@pytest.mark.parametrize("given", [[], ["a", {"text": "b"}], ["a", 3], [None], [["a"]]])
def test_a_list_of_neither_texts_nor_records_is_refused(given):
    with pytest.raises(InputError, match="expected"):
        load_samples(given)


def test_a_text_in_place_of_a_path_is_recognised():
    with pytest.raises(InputError, match="pass texts as a list"):
        load_samples("What a lovely day it was")


def test_numbered_columns_are_references_in_the_order_of_their_numbers():
    record = {"text": "So.", "references.10": "c", "references.2": "b", "references.1": "a",
              "references.3": "", "references.x": "kept"}  # fmt: skip
    sample = FieldMapping().sample(record, id="1", cells=True)
    assert sample.references == ("a", "b", "c")
    assert sample.extra == {"references.x": "kept"}


def test_columns_of_other_names_can_be_mapped_to_references():
    rules = FieldMapping(
        mapping={"references.1": "ref0", "references.2": "ref1", "context.1": "turn"}
    )
    sample = rules.sample({"text": "So.", "ref0": "a", "ref1": "b", "turn": "Hm?"}, id="1")
    assert (sample.references, sample.context) == (("a", "b"), ("Hm?",))


@pytest.mark.parametrize(
    ("text", "prompt", "rest"),
    [
        ("<think>Hm.\nHm.</think>\n\nYes <think>.</think>", "", "Yes <think>.</think>"),
        ("The lake <think>Ice?</think>\n froze.", "The lake", "The lake froze."),
        ("The lake\n<think>Ice?</think>froze.", "The lake\n", "The lake\nfroze."),
        ("The lake <think>Ice that", "The lake", "The lake"),
        ("<think>Ice that", "The lake", ""),
        ("<think></think>", "", ""),
        ("1 < 2", "", "1 < 2"),
    ],
)
def test_a_thought_at_the_beginning_is_removed_on_demand_only(text: str, prompt: str, rest: str):
    record = {"text": text, "prompt": prompt}
    assert sample_of(record).text == text
    assert sample_of(record, thoughts="remove").text == rest

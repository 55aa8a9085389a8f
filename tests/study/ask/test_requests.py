"""Requests of a cell, and answers as they come."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.study.ask.requests import (
    parse_answer,
    request_record,
    requests_of,
    value_slugs,
)
from levelfield.study.cells import CellKey, CellRequest, SystemAnswer
from levelfield.study.plan import CommandSource, ControlKind, Plan, PromptSet, SystemPlan

KEY = CellKey("s", "d", "c", 3)


def plan(prompts, values, labels=None, *, ids=None) -> Plan:
    ids = ids or tuple(f"{n:04}" for n in range(1, len(prompts) + 1))
    return Plan(
        name="N",
        file=Path("study.toml"),
        out=Path("study.study"),
        datasets=(PromptSet("d", tuple(prompts), tuple(ids), float(len(prompts))),),
        controls=(ControlKind("c", tuple(values)),),
        systems=(
            SystemPlan("s", CommandSource(("s",)), ("c",), labels or {}),
            SystemPlan("other", CommandSource(("s",)), ("c",)),
        ),
        seeds=(3, 4),
        metrics=(),
    )


def test_every_prompt_is_asked_with_every_value():
    values = [{"sentiment": "positive"}, {"sentiment": "negative"}]
    requests = requests_of(plan(["The lake", ""], values), KEY)
    assert [(r.id, r.prompt, r.control) for r in requests] == [
        ("0001:positive", "The lake", {"sentiment": "positive"}),
        ("0001:negative", "The lake", {"sentiment": "negative"}),
        ("0002:positive", "", {"sentiment": "positive"}),
        ("0002:negative", "", {"sentiment": "negative"}),
    ]
    assert all((r.labels, r.dataset, r.seed) == (r.control, "d", 3) for r in requests)


def test_several_words_for_a_value_are_taken_in_turn_over_the_prompts():
    labels = {"topic": {"Business": ("Finance", "Legal"), "Sports": ("Fitness",)}}
    values = [{"topic": "Business"}, {"topic": "Sports"}, {"topic": "World"}]
    requests = requests_of(plan(["a", "b", "c"], values, labels), KEY)
    assert [r.labels["topic"] for r in requests] == [
        *("Finance", "Fitness", "World"),
        *("Legal", "Fitness", "World"),
        *("Finance", "Fitness", "World"),
    ]
    assert [r.control["topic"] for r in requests] == ["Business", "Sports", "World"] * 3


def test_a_value_without_a_word_is_not_asked_for_and_moves_no_id():
    values = [
        {"sentiment": "positive", "topic": "World"},
        {"sentiment": "positive", "topic": "Sci/Tech"},
    ]
    study = plan(["a", "b"], values, {"topic": {"World": ()}})
    requests = requests_of(study, KEY)
    assert [r.id for r in requests] == ["0001:positive-Sci-Tech", "0002:positive-Sci-Tech"]
    others = requests_of(study, KEY._replace(system="other", seed=4))
    assert {r.id for r in requests} < {r.id for r in others}


def test_words_that_go_together_stay_as_they_are():
    (request,) = requests_of(plan(["a"], [{"keywords": ("court", "culture")}]), KEY)
    assert request.id == "0001:court-culture"
    assert request.labels == {"keywords": ("court", "culture")}


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(
    prompts=st.lists(st.text(max_size=5), min_size=1, max_size=8),
    values=st.lists(words, min_size=1, max_size=8, unique=True),
    data=st.data(),
)
def test_ids_are_unique_and_nothing_is_lost_or_asked_twice(prompts, values, data):
    options = st.lists(words, max_size=3).map(tuple)
    labels = data.draw(st.dictionaries(st.sampled_from(values), options))
    study = plan(prompts, [{"a": v} for v in values], {"a": labels})
    requests = requests_of(study, KEY)
    requested = [v for v in values if labels.get(v, (v,))]
    assert len({r.id for r in requests}) == len(requests) == len(prompts) * len(requested)
    assert [(r.prompt, r.control["a"]) for r in requests] == [
        (p, v) for p in prompts for v in requested
    ]
    again = requests_of(study, KEY._replace(seed=4))
    assert [r.id for r in again] == [r.id for r in requests]
    assert all(json.loads(json.dumps(request_record(r)))["id"] == r.id for r in requests)


@given(st.lists(st.text(string.ascii_letters + "-/ é🎉2", max_size=4), max_size=12))
def test_short_names_of_values_differ_and_have_no_blank_or_colon(values):
    slugs = value_slugs([{"a": value} for value in values])
    assert len(set(slugs)) == len(values)
    assert all(slug and not set(slug) & set(" :/🎉") for slug in slugs)


def test_a_request_is_sent_as_json():
    request = CellRequest(
        "1:a", "湖", {"k": ("a", "b"), "s": "p"}, {"k": ("a", "b"), "s": "P"}, "d", 7
    )
    assert request_record(request) == {
        "id": "1:a",
        "prompt": "湖",
        "control": {"k": ["a", "b"], "s": "p"},
        "labels": {"k": ["a", "b"], "s": "P"},
        "dataset": "d",
        "seed": 7,
    }


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        ({"id": "1", "text": ""}, SystemAnswer("1", "")),
        ({"id": "1", "text": "a", "input": None, "tokens": None}, SystemAnswer("1", "a")),
        ({"id": "1", "text": "🎉", "input": "b", "tokens": 0}, SystemAnswer("1", "🎉", "b", 0)),
        ({"id": "1", "text": "a", "prompt": "c", "model": {}}, SystemAnswer("1", "a")),
    ],
)
def test_an_answer_is_an_id_and_a_text(record, answer):
    assert parse_answer(record) == answer


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (None, "expected an object such as .*found null"),
        ([], "found a list"),
        ("a", 'found the string "a"'),
        ({}, 'there is no "id"'),
        ({"id": "1"}, 'there is no "text"'),
        ({"id": "", "text": "a"}, "id: expected the id of a request"),
        ({"id": 1, "text": "a"}, "id: expected a string, found the number 1"),
        ({"id": "1", "text": None}, "text: expected a string, found null"),
        ({"id": "1", "text": ["a"]}, "text: expected a string, found a list"),
        ({"id": "1", "text": "\ud83d"}, "text: a lone surrogate"),
        ({"id": "1", "text": "a", "input": 3}, "input: expected a string"),
        ({"id": "1", "text": "a", "tokens": -1}, "tokens: expected a whole number from 0 on"),
        ({"id": "1", "text": "a", "tokens": 1.5}, "tokens: expected a whole number"),
        ({"id": "1", "text": "a", "tokens": True}, "tokens: expected a whole number"),
    ],
)
def test_what_is_no_answer_is_refused_with_the_reason(record, reason):
    with pytest.raises(UserError, match=reason) as caught:
        parse_answer(record)
    assert "\n" not in str(caught.value)

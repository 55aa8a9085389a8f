"""Parts of a run, as one process, several, or the jobs of a scheduler do them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from length_metric import WORD
from levelfield import generate, score
from levelfield.core.errors import UserError
from levelfield.generation.contract import Answer
from levelfield.io import open_samples
from levelfield.scoring.options import ScoreOptions
from levelfield.scoring.run import measure
from levelfield.workers.place_options import WorkPlace
from stub_technique import Stub


@given(st.integers(0, 500), st.integers(1, 40))
def test_shards_hold_each_part_once_and_in_order(n, count):
    items = list(range(n))
    parts = [items[WorkPlace(shard=f"{k}/{count}").part(n)] for k in range(1, count + 1)]
    assert [item for part in parts for item in part] == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("word", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_shard_that_cannot_be_one_says_what_is_expected(word):
    with pytest.raises(UserError, match="expected K/N, with K from 1 to N, such as 2/8"):
        WorkPlace(shard=word)


def scores_of(texts: Path, out: Path, **words: object) -> list[str]:
    options = ScoreOptions.of(metrics=(WORD, "style.degenerate"), cache=False, **words)
    run = measure(open_samples([texts]), options, out=str(out))
    return [*run.notes, *out.read_text("utf-8").splitlines(keepends=True)]


@pytest.mark.parametrize(("n", "count"), [(300, 3), (10, 3)])
def test_values_of_all_shards_one_after_the_other_are_those_of_one_run(tmp_path, n, count):
    """With fewer partitions than shards, some shards are empty."""
    texts = tmp_path / "t.jsonl"
    records = [
        {"id": str(i), "text": "word " * (i % 7) + str(i), "source": "word"} for i in range(n)
    ]
    texts.write_text("".join(json.dumps(record) + "\n" for record in records))
    whole = scores_of(texts, tmp_path / "s.jsonl")
    joined = []
    for k in range(1, count + 1):
        note, *lines = scores_of(texts, tmp_path / f"s{k}.jsonl", shard=f"{k}/{count}")
        assert note.startswith(f"shard {k}/{count}: {len(lines) // 2} of {n} texts")
        joined += lines
    assert joined == whole


def test_a_value_of_a_group_is_refused_in_a_shard():
    texts = [{"id": str(i), "text": "a lake"} for i in range(3)]
    with pytest.raises(UserError, match=r"--shard: diversity\.distinct-1 has a value for a group"):
        score(texts, "diversity.distinct-1", shard="1/2", cache=False)


@dataclass(frozen=True, kw_only=True)
class Numbered(Stub):
    """Says which process writes."""

    name: ClassVar[str] = "numbered"

    def generate(self, requests, **words):
        for answer in super().generate(requests, **words):
            yield replace(answer, extra={"process": os.getpid()})


def plain(answers: tuple[Answer, ...]) -> list[Answer]:
    return [replace(answer, extra={}) for answer in answers]


@pytest.mark.slow
def test_several_processes_generate_the_texts_of_one(tmp_path):
    prompts = [f"Lake {i}" for i in range(50)]
    words = {"control": {"sentiment": ("positive", "negative")}}
    here = generate(prompts, Numbered(), **words)
    out = tmp_path / "texts.jsonl"
    there = generate(prompts, Numbered(), out=out, workers=2, **words)
    assert plain(there.answers) == plain(here.answers)
    assert {answer.extra["process"] for answer in here.answers} == {os.getpid()}
    processes = {answer.extra["process"] for answer in there.answers}
    assert os.getpid() not in processes
    assert len(processes) <= 2
    ids = [json.loads(line)["id"] for line in out.read_text().splitlines()]
    assert ids == [answer.id for answer in here.answers]


def test_shards_of_requests_have_the_texts_of_one_run():
    prompts = [f"Lake {i}" for i in range(7)]
    whole = generate(prompts, Stub()).answers
    parts = [generate(prompts, Stub(), shard=f"{k}/3").answers for k in (1, 2, 3)]
    assert tuple(answer for part in parts for answer in part) == whole


def test_what_a_technique_refuses_ends_the_run_before_any_worker_starts():
    with pytest.raises(UserError, match="tense is not supported"):
        generate(["The lake"], Stub(), control={"tense": "past"}, workers=2)

"""The example study: its toy systems do what its README says of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from levelfield.study.ask.requests import parse_answer, request_record, requests_of
from levelfield.study.cells import CellKey
from levelfield.study.plan import CommandSource, FilesSource, Plan
from levelfield.study.plan_file import load_plan
from levelfield.study.postprocess import process

STUDY = Path(__file__).parents[2] / "examples" / "study" / "study.toml"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return load_plan(STUDY)


def texts(plan: Plan, system: str, control: str, seed: int) -> dict[str, str]:
    """Returns request id -> text, of the dataset `things`."""
    key = CellKey(system, "things", control, seed)
    planned = plan.system(system)
    requests = {r.id: r for r in requests_of(plan, key)}
    if isinstance(planned.source, FilesSource):
        file = STUDY.parent / planned.source.pattern.format(**key._asdict())
        lines = file.read_text(encoding="utf-8").splitlines()
    else:
        assert isinstance(planned.source, CommandSource)
        records = "".join(json.dumps(request_record(r)) + "\n" for r in requests.values())
        done = subprocess.run(
            planned.source.command,
            input=records,
            cwd=STUDY.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        lines = done.stdout.splitlines()
    answers = [parse_answer(json.loads(line)) for line in lines]
    assert [answer.id for answer in answers] == list(requests)
    return {a.id: process(planned.postprocess, a.text, requests[a.id], a.input) for a in answers}


def test_the_grid_is_as_the_readme_counts_it(plan):
    assert len(plan.cells()) == 30
    assert sum(len(requests_of(plan, key)) for key in plan.cells()) == 672


@pytest.mark.parametrize(
    ("system", "control"), [("writer", "sentiment"), ("writer", "topic"), ("scribe", "sentiment")]
)
def test_the_good_systems_continue_their_prompts_and_each_seed_is_another_text(
    plan, system, control
):
    first, two = texts(plan, system, control, 1), texts(plan, system, control, 2)
    prompts = dict(zip(plan.dataset("things").ids, plan.dataset("things").prompts, strict=True))
    for id, text in first.items():
        assert text.startswith(prompts[id.partition(":")[0]] + " ")
        assert "<|" not in text
        assert text.endswith((".", "!"))
    assert len(set(first.values())) == len(first)
    assert first.keys() == two.keys()
    assert sum(first[id] != two[id] for id in first) > 0.9 * len(first)


def test_the_writer_takes_its_two_words_for_a_topic_in_turn(plan):
    requests = requests_of(plan, CellKey("writer", "things", "topic", 1))
    words = [r.labels["topic"] for r in requests if r.control["topic"] == "Sci/Tech"]
    assert words == ["science", "computers"] * 4


def test_the_stuck_system_has_every_documented_fault(plan):
    stuck = texts(plan, "stuck", "sentiment", 1)
    assert stuck == texts(plan, "stuck", "sentiment", 3)
    positive = {id: text for id, text in stuck.items() if id.endswith(":positive")}
    for id, text in positive.items():
        assert stuck[id.replace("positive", "negative")] == text
    assert any(not text for text in positive.values())
    assert any("\nUser:" in text for text in positive.values())
    assert any(text.startswith("Here is a text") for text in positive.values())

"""`levelfield generate` and `levelfield techniques`, as a user has them."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from command_line import Run, Write, finish, records, start
from levelfield.generation.table import TECHNIQUES, TechniqueEntry, technique_class
from levelfield.io.outputs import KINDS, FileHead

STUB = ("--technique", "stub")
ASKED = [
    {"id": "a", "prompt": "The lake", "control": {"sentiment": "positive"}},
    {"id": "b", "prompt": "Once", "control": {"sentiment": "negative"}},
]


@pytest.fixture
def asked(write: Write, stub: Any) -> str:  # noqa: ARG001
    return write("requests.jsonl", ASKED)


def test_texts_have_what_score_reads(run: Run, asked: str, words: str) -> None:
    ran = run("generate", asked, *STUB, "--seed", 3, "--max-new-tokens", 5)
    assert (ran.code, ran.err) == (0, "wrote texts.jsonl\n")
    first, second = records("texts.jsonl")
    assert list(first)[:7] == ["id", "text", "prompt", "continuation", "control", "system", "seed"]
    assert first["text"] == first["prompt"] + first["continuation"]
    assert (first["id"], first["system"], first["seed"]) == ("a", "stub", 3)
    assert (second["tokens"], second["forward_passes"], second["seconds"]) == (4, 8, 0.5)
    assert "stub" in run("score", "texts.jsonl", "-m", words).out


def test_the_cost_is_a_table_or_one_document(run: Run, asked: str) -> None:
    header, row = run("generate", asked, *STUB).out.splitlines()
    titles = ("texts", "tokens", "tokens per second", "forward passes per token")
    assert [header.index(title) for title in titles] == sorted(map(header.index, titles))
    assert row.split() == ["stub", "2", "8", "8.00", "2.00"]
    document = run("generate", asked, *STUB, "--json").json
    assert (document["texts"], document["kept"], document["passes_per_token"]) == (2, 2, 2.0)


def test_a_prompt_set_is_asked_for_with_every_label(run: Run, stub: Any) -> None:
    run("generate", "--prompts", "pplm", "--control", "sentiment=positive,negative", *STUB)
    assert len(stub.asked) == 70
    assert [r["id"] for r in records("texts.jsonl")[:2]] == ["1:positive", "1:negative"]


def test_requests_come_from_standard_input_and_texts_go_to_standard_output(
    run: Run, asked: str
) -> None:
    ran = run("generate", "-", *STUB, "--out", "-", stdin=Path(asked).read_text())
    assert (ran.code, ran.err) == (0, "")
    assert {json.loads(line)["id"] for line in ran.out.splitlines()} == {"a", "b"}
    assert [path.name for path in Path().iterdir()] == [asked]


def test_three_bad_requests_are_named_at_once_and_nothing_is_written(
    run: Run, write: Write, stub: Any
) -> None:
    bad = ASKED[0] | {"control": {"keywords": ["court", "culture"]}}
    file = write("r.jsonl", [ASKED[0], bad | {"id": "1"}, {"id": "2"}, bad | {"id": "3"}])
    ran = run("generate", file, *STUB)
    assert ran.code == 2
    places = [line.split(": ")[1] for line in ran.err.splitlines()]
    assert places == ["r.jsonl:2", "r.jsonl:3", "r.jsonl:4"]
    assert ran.err.count("keywords is not supported") == 2
    assert stub.asked == []
    assert not Path("texts.jsonl").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("-o", "strenght=2"), "there is no option 'strenght'; did you mean strength?"),
        (("-o", "strength=high"), "option strength=high: expected a number"),
        (("-o", "kind=other"), "expected long or short"),
        (("-o", "strength"), "expected NAME=VALUE"),
        (("--model", "gpt2"), "there is no option 'model'"),
        (("--top-p", "2"), '"2": expected a number above 0, at most 1'),
        (("--temperature", "nan"), '"nan": expected a number above 0'),
        (("--max-new-tokens", "0"), '"0": expected a whole number from 1 on'),
        (("--prompts", "pplm"), "give a file of requests, or --prompts"),
        (("--out", "requests.jsonl"), "is also an input"),
        (("--out", "missing/texts.jsonl"), "there is no folder"),
        (("--out", "-", "--json"), "only one of --out -, --json can write to stdout"),
        (("--control", "sentiment"), "expected NAME=VALUE"),
    ],
)
def test_a_mistake_is_one_line(run: Run, asked: str, more: tuple[str, ...], said: str) -> None:
    assert said in run("generate", asked, *STUB, *more).complaint


def test_a_technique_is_named_and_there_is_something_to_ask(run: Run, asked: str) -> None:
    assert "did you mean stub?" in run("generate", asked, "--technique", "stab").complaint
    assert "give a file of requests" in run("generate", *STUB).complaint


def test_texts_of_other_choices_go_by_force_only(run: Run, asked: str, stub: Any) -> None:
    run("generate", asked, *STUB)
    before = Path("texts.jsonl").read_bytes()
    words = ("generate", asked, *STUB, "-o", "strength=2")
    assert "holds texts of other choices (strength 1.0, now 2.0)" in run(*words).complaint
    assert Path("texts.jsonl").read_bytes() == before
    assert run(*words, "--force").code == 0
    assert all("strength:2.0" in record["signature"] for record in records("texts.jsonl"))
    assert len(stub.asked) == 4


def test_samples_of_others_are_no_texts_to_go_on_with(run: Run, asked: str, write: Write) -> None:
    write("texts.jsonl", [{"id": "a", "text": "mine"}])
    said = run("generate", asked, *STUB).complaint
    assert "holds samples, not texts of `levelfield generate`" in said
    assert run("generate", asked, *STUB, "--force").code == 0


def test_generated_texts_are_no_samples_that_another_command_may_write_over(
    run: Run, asked: str
) -> None:
    run("generate", asked, *STUB)
    head = FileHead(Path("texts.jsonl"))
    assert [kind for kind, matches in KINDS.items() if matches(head)] == [head.description]
    assert head.description == "texts of `levelfield generate`"


@pytest.mark.parametrize("torn", ["{", '{"id"', '{"id": "a", "te', '{"id": "a", "text": "Zü'])
def test_a_file_whose_first_line_is_torn_is_gone_on_with(run: Run, asked: str, torn: str) -> None:
    # inside its last character, where that has two bytes
    content = torn.encode()
    Path("texts.jsonl").write_bytes(content[:-1] if torn.endswith("ü") else content)
    assert run("generate", asked, *STUB).code == 0
    assert [record["id"] for record in records("texts.jsonl")] == ["a", "b"]


def test_a_file_that_is_torn_inside_a_character_after_whole_lines_is_gone_on_with(
    run: Run, asked: str
) -> None:
    run("generate", asked, *STUB)
    path = Path("texts.jsonl")
    first, _, second = path.read_bytes().partition(b"\n")
    path.write_bytes(first + b"\n" + second[:9] + "ü".encode()[:1])
    assert run("generate", asked, *STUB).code == 0
    assert path.read_bytes() == first + b"\n" + second


def test_what_is_there_is_kept_and_said(run: Run, asked: str) -> None:
    run("generate", asked, *STUB)
    ran = run("generate", asked, *STUB)
    assert ran.err == (
        "note: 2 texts were in texts.jsonl already and are kept\nwrote texts.jsonl\n"
    )


def test_ctrl_c_says_that_the_same_command_goes_on(run: Run, asked: str, stub: Any) -> None:
    def interrupt(request: Any) -> None:
        if request.id == "a":  # the last one
            raise KeyboardInterrupt

    stub.before = staticmethod(interrupt)
    ran = run("generate", asked, *STUB)
    assert ran.code == 130
    message = "interrupted: 1 of 2 texts are in texts.jsonl; the same command resumes"
    assert ran.err.strip() == message  # click begins a new line


@pytest.mark.slow
@pytest.mark.kill
def test_after_kill_9_the_same_command_writes_the_rest_and_the_same_texts(
    run: Run, causal_folders: dict[str, Path]
) -> None:
    model = causal_folders["gpt2"]
    words = ("generate", "--prompts", "sentiment", "--control", "sentiment=positive,negative")
    words += ("--technique", "base", "--model", str(model), "-o", "batch=1")
    words += ("--max-new-tokens", "20")
    assert run(*words, "--out", "whole.jsonl").code == 0
    process = start(*words)
    out = Path("texts.jsonl")
    end = time.monotonic() + 60
    while not (out.exists() and out.read_bytes().count(b"\n") > 2):
        assert process.poll() is None, finish(process)
        assert time.monotonic() < end
        time.sleep(0.001)
    process.kill()
    assert finish(process).code == -signal.SIGKILL
    *kept, _ = out.read_bytes().split(b"\n")
    assert 0 < len(kept) < 30
    with out.open("ab") as file:
        file.write(b'{"id": "1:posi')
    ran = run(*words, "--json")
    assert ran.json["kept"] == len(kept)
    again, whole = records(out), records("whole.jsonl")
    assert all(json.loads(line) in again for line in kept)
    for record in (*again, *whole):
        del record["seconds"]
    assert again == whole
    assert [path.name for path in Path().iterdir() if path.name.startswith(".")] == []


def test_a_file_given_as_a_set_of_prompts_is_told_where_it_belongs(run: Run, tmp_path: Path):
    file = tmp_path / "prompts.txt"
    file.write_text("The lake\n", encoding="utf-8")
    ran = run("generate", "--prompts", str(file), "--technique", "base")
    assert "this is a file; give it as REQUESTS, without --prompts" in ran.complaint


@pytest.mark.parametrize("command", ["generate", "calibrate-strength"])
def test_labels_of_requests_get_names(run: Run, tmp_path: Path, command: str):
    file = tmp_path / "requests.jsonl"
    file.write_text('{"prompt": "The lake", "control": {"sentiment": 1}}\n', encoding="utf-8")
    words = (command, str(file), "--technique", "gedi")
    assert '"1" is not a label' in run(*words, "--label-name", "0=negative").complaint
    named = run(*words, "--label-name", "1=so-so")
    assert '"so-so" is not a label' in named.complaint


def test_the_shipped_editor_says_what_to_expect():
    pytest.importorskip("torch")
    assert "poor English" in technique_class("cbart")().caution
    assert technique_class("cbart")(model="elsewhere").caution == ""


# techniques


def test_all_techniques_are_listed(run: Run) -> None:
    listed = run("techniques")
    assert listed.code == 0
    unfolded = " ".join(listed.out.split())
    for name, entry in TECHNIQUES.items():
        assert f"{name} {entry.mechanism} controls: {entry.controls} cost: {entry.cost}" in unfolded
    assert max(map(len, listed.out.splitlines())) <= 80
    assert [one["name"] for one in run("techniques", "--json").json] == list(TECHNIQUES)


@pytest.mark.parametrize("entry", TECHNIQUES.values(), ids=lambda entry: entry.name)
def test_every_technique_has_its_page(entry: TechniqueEntry):
    assert (Path(__file__).parents[2] / entry.documentation).is_file()


@pytest.mark.parametrize("name", TECHNIQUES)
def test_every_technique_explains_itself_and_all_its_options(run: Run, name: str) -> None:
    pytest.importorskip("torch")
    page = run("techniques", name)
    assert page.code == 0
    assert page.out.startswith(f"{name}: {TECHNIQUES[name].summary}")
    assert TECHNIQUES[name].documentation in page.out
    options = run("techniques", name, "--json").json["options"]
    assert bool(options) == (name not in ("copy", "rules")), "what has no model has no options"
    words = " ".join(page.out.split())
    for option, said in options.items():
        default = "…" if said["needed"] else said["default"]
        values = f"{said['values']} {said['range']}".strip()
        assert f" {option}={default} ({values}" in words
        assert f") {said['help']}" in words


def test_what_args_say_over_several_lines_is_one_line(run: Run, stub: Any) -> None:  # noqa: ARG001
    options = run("techniques", "stub", "--json").json["options"]
    assert options["strength"]["help"] == "of nothing, or of little."
    assert options["kind"] == {
        "default": "long", "otherwise": "", "values": "long|short", "range": "",
        "needed": False, "help": "of word.",
    }  # fmt: skip


def test_a_technique_that_is_not_there_gets_its_neighbours(run: Run) -> None:
    assert run("techniques", "bases").complaint.endswith("did you mean base?")

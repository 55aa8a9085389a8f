"""`levelfield.generate`: whole, interrupted, resumed, refused."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import filelock
import pytest

import levelfield
from levelfield.core.errors import InputError, UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.generation.run import GenerationCost, read_requests

LABELS = ("positive", "negative")
PROMPTS = ["The lake", "Once", "The road", "A «wall»\nand 🎉", ""]


def generate(requests: Any = PROMPTS, technique: Any = "stub", **options: Any) -> Any:
    return levelfield.generate(requests, technique, **{"control": {"sentiment": LABELS}, **options})


def texts(result: Any) -> list[tuple[str, str]]:
    return [(answer.id, answer.text) for answer in result.answers]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "texts.jsonl"


pytestmark = pytest.mark.usefixtures("stub")


def test_answers_have_the_order_of_the_requests_whatever_order_they_are_written_in(stub):
    result = generate()
    ids = [f"{n}:{label}" for n in range(1, 6) for label in LABELS]
    assert [answer.id for answer in result.answers] == ids
    assert stub.asked != ids
    assert sorted(stub.asked) == sorted(ids)


def test_requests_of_every_form_ask_for_the_same_texts(tmp_path):
    record = {"id": "a", "prompt": "The lake", "control": {"sentiment": "positive"}}
    file = tmp_path / "requests.jsonl"
    file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    table = tmp_path / "requests.csv"
    table.write_text("id,opening,control.sentiment\na,The lake,positive\n", encoding="utf-8")
    expected = texts(generate([record]))
    for form in (file, str(file), [file], [Request(**record)]):
        assert texts(generate(form)) == expected
    assert texts(generate(table, mapping={"prompt": "opening"})) == expected
    assert len(expected) == 1


def test_each_line_of_plain_text_is_a_prompt(tmp_path):
    file = tmp_path / "prompts.txt"
    file.write_text("The lake\nOnce\n", encoding="utf-8")
    answers = generate(file, control={"sentiment": "positive"}).answers
    assert [(a.id, a.prompt) for a in answers] == [("prompts:1", "The lake"), ("prompts:2", "Once")]


def test_empty_lines_and_rows_are_no_requests(tmp_path):
    file, table, notes = tmp_path / "prompts.txt", tmp_path / "rows.csv", []
    file.write_text("The lake\n\nOnce\n \n", encoding="utf-8")
    table.write_text('prompt\nThe lake\n""\n', encoding="utf-8")
    answers = generate(file, control={}, note=notes.append).answers
    assert [(a.id, a.prompt) for a in answers] == [("prompts:1", "The lake"), ("prompts:3", "Once")]
    assert notes == [f"{file}: rows of empty cells are left out: 2"]
    assert len(generate(table, control={}).answers) == 1
    assert [a.prompt for a in generate([""], control={}).answers] == [""]


def test_labels_are_for_requests_that_name_none():
    own = {"id": "a", "prompt": "x", "control": {"sentiment": "mixed"}}
    result = generate([own, {"id": "b", "prompt": "x"}])
    assert [(a.id, a.control["sentiment"]) for a in result.answers] == [
        ("a", "mixed"), ("b:positive", "positive"), ("b:negative", "negative"),
    ]  # fmt: skip
    assert [a.id for a in generate(["x"], control={"sentiment": "positive"}).answers] == ["1"]


def test_samples_are_what_the_file_reads_as(out):
    samples = generate(out=str(out)).samples
    read = levelfield.load_samples(out)
    fields = ("id", "text", "prompt", "control", "system", "seed")
    assert [[getattr(s, f) for f in fields] for s in samples] == [
        [getattr(s, f) for f in fields] for s in read
    ]
    assert read[0].system == "stub"
    assert read[0].extra["continuation"] == read[0].text[len(read[0].prompt) :]


def test_costs_are_sums_over_all_texts():
    document = generate().to_dict()
    assert (document["texts"], document["tokens"], document["forward_passes"]) == (10, 40, 80)
    assert document["seconds"] == 5.0
    assert document["tokens_per_second"] == 8.0
    assert document["passes_per_token"] == 2.0


def test_no_tokens_have_no_rates():
    assert GenerationCost().tokens_per_second is None
    assert GenerationCost().passes_per_token is None


def test_a_table_has_a_row_a_text():
    table = generate(["x" * 200, "y"]).to_polars()
    assert table.height == 4
    assert table["control.sentiment"].to_list() == [*LABELS, *LABELS]
    assert table["prompt_cut"].to_list() == [True, True, None, None]


def test_prompts_that_were_cut_are_noted():
    notes: list[str] = []
    generate(["x" * 200], note=notes.append)
    assert notes == ["2 prompts were too long for the model, which read only their ends"]
    generate(note=notes.append)
    assert len(notes) == 1


def test_words_of_the_decoding_are_those_of_decoding():
    assert len(generate(max_new_tokens=3).answers[0].continuation) == len(" abc")
    with pytest.raises(UserError, match="top_p=2: expected"):
        generate(top_p=2)
    assert "|tokens:7|decoding:greedy|penalty:1" in (
        generate(max_new_tokens=7, greedy=True).choices.signature
    )


def test_the_signature_has_every_choice_of_the_decoding():
    signature = generate().choices.signature
    for name, choice in Decoding().choices.items():
        assert f"|{name}:{choice}" in signature


# what goes wrong before a text is written


def test_all_bad_requests_of_a_file_are_named_at_once(tmp_path, stub):
    file = tmp_path / "bad.jsonl"
    good = {"prompt": "x", "control": {"sentiment": "positive"}}
    bad = ['{"prompt": ', '{"id": "a", "prompt": "x", "control": "positive"}']
    bad += [json.dumps({"prompt": "x", "control": {"keywords": ["court"]}})]
    bad += [json.dumps(good | {"id": "a"}), json.dumps(good | {"id": "a"}), '{"promt": "x"}']
    file.write_text("\n".join([json.dumps(good), *bad]), encoding="utf-8")
    with pytest.raises(InputError) as error:
        generate(file)
    problems = error.value.problems
    assert [problem.split(": ")[0] for problem in problems] == [
        f"{file}:{n}" for n in (2, 3, 4, 6, 7)
    ]
    assert "expected one JSON object" in problems[0]
    assert "control: expected an object such as" in problems[1]
    assert "keywords is not supported" in problems[2]
    assert 'id "a" was used at' in problems[3]
    assert "prompt: missing" in problems[4]
    assert "--map prompt=" in problems[4]
    assert stub.asked == []


def test_labels_that_are_refused_are_named_for_every_request():
    with pytest.raises(InputError) as error:
        generate(["x", "y"], control={"topic": ["world"]})
    assert error.value.problems == tuple(
        f"samples:item {n}: topic is not supported" for n in (1, 2)
    )


def test_an_option_is_given_once():
    with pytest.raises(UserError, match="guide is given twice"):
        generate(guide="a", options={"guide": "b"})
    with pytest.raises(UserError, match="there is no option 'model'"):
        generate(model="gpt2")


def test_a_technique_that_is_made_takes_no_options(stub):
    assert texts(generate(technique=stub(strength=2.0))) == texts(
        generate(options={"strength": "2"})
    )
    with pytest.raises(UserError, match="when you create it"):
        generate(technique=stub(), options={"strength": 2})


# the file


class Killed(BaseException):
    """Ends a run as if the process were killed: nothing tidies up after it."""


def kill_after(n: int, stub: Any, error: type[BaseException] = Killed) -> None:
    count = iter(range(n))

    def before(_: Request) -> None:
        if next(count, None) is None:
            raise error

    stub.before = staticmethod(before)


@pytest.mark.parametrize("torn", ["", '{"id": "3:pos', "\0\0\0"])
def test_a_run_that_is_killed_goes_on_and_asks_nothing_twice(out, stub, torn):
    whole = generate()
    kill_after(4, stub)
    stub.asked.clear()
    with pytest.raises(Killed):
        generate(out=str(out))
    assert len(lines(out)) == 4
    with out.open("a") as file:
        file.write(torn)
    stub.before = None
    again = generate(out=str(out))
    assert (again.kept, len(stub.asked), len(set(stub.asked))) == (4, 10, 10)
    assert texts(again) == texts(whole)
    assert [(line["id"], line["text"]) for line in lines(out)] == texts(whole)
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_run_that_is_finished_asks_nothing_and_leaves_the_file_alone(out, stub):
    generate(out=str(out))
    before = out.read_bytes(), out.stat().st_ino
    stub.asked.clear()
    assert generate(out=str(out)).kept == 10
    assert stub.asked == []
    assert (out.read_bytes(), out.stat().st_ino) == before


def test_more_requests_are_added_to_those_that_are_answered(out, stub):
    generate(PROMPTS[:2], out=str(out))
    stub.asked.clear()
    assert generate(PROMPTS[:3], out=str(out)).kept == 4
    assert len(stub.asked) == 2


def test_ctrl_c_says_what_is_kept(out, stub):
    kill_after(3, stub, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt) as error:
        generate(out=str(out))
    assert str(error.value) == f"3 of 10 texts are in {out}; the same command resumes"
    assert len(lines(out)) == 3


def test_nothing_is_left_of_a_run_that_wrote_nothing(out, stub):
    kill_after(0, stub)
    with pytest.raises(Killed):
        generate(out=str(out))
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"options": {"strength": 2.0}}, "(strength 1.0, now 2.0)"),
        ({"seed": 1}, "(seed 0, now 1)"),
        ({"system": "other"}, "(system stub, now other)"),
        ({"greedy": True}, "(decoding not given, now greedy, temperature 1, now not given"),
        ({"max_new_tokens": 3}, "(tokens 50, now 3)"),
    ],
)
def test_texts_of_other_choices_are_refused_unless_forced(out, stub, changed, difference):
    generate(out=str(out))
    before = out.read_bytes()
    stub.asked.clear()
    with pytest.raises(UserError) as error:
        generate(out=str(out), **changed)
    assert str(error.value).startswith(f"{out}: holds texts of other choices {difference}")
    assert str(error.value).endswith("name another file, or overwrite it with --force")
    assert (out.read_bytes(), stub.asked) == (before, [])
    assert generate(out=str(out), force=True, **changed).kept == 0
    assert len(lines(out)) == 10


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (["The lake"], '3: "2:positive" is not among the requests'),
        (["The sea", "Once"], '1: "1:positive" differs in prompt or control'),
    ],
)
def test_answers_to_other_requests_are_refused(out, requests, said):
    generate(["The lake", "Once"], out=str(out))
    with pytest.raises(UserError) as error:
        generate(requests, out=str(out))
    assert str(error.value).startswith(f"{out}:{said}; name another file")


@pytest.mark.parametrize(
    "line", ["[1]", "{}", '{"id": "1"}', '"a"', '{"id": 1, "tokens": "x"}', "{", "[" * 5000]
)
def test_a_line_that_is_no_answer_is_named(out, line):
    generate(out=str(out))
    with out.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(UserError, match=r":11: is not an answer of `levelfield generate`; name"):
        generate(out=str(out))


@pytest.mark.parametrize("field", ["text", "continuation"])
def test_a_text_that_was_edited_is_named(out, field):
    generate(out=str(out))
    edited = lines(out)
    edited[1][field] += " Indeed."
    out.write_text("".join(json.dumps(line) + "\n" for line in edited))
    with pytest.raises(UserError, match=r":2: the text of .* so it was edited; name another file"):
        generate(out=str(out))


def test_one_process_at_a_time_writes_a_file(out, stub):
    lock = filelock.FileLock(out.with_name(".levelfield-texts.jsonl.lock"))
    with lock, pytest.raises(UserError, match="another process is writing it"):
        generate(out=str(out))
    assert stub.asked == []
    generate(out=str(out))


def test_a_disk_that_is_full_is_one_line_and_the_run_goes_on_when_it_is_not(out):
    whole = generate()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UserError) as error:
            generate(out=str(out))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(error.value) == f"{out}: can't be written: File too large"
    assert out.stat().st_size == 1000
    again = generate(out=str(out))
    assert again.kept >= 1
    assert texts(again) == texts(whole)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("missing/texts.jsonl", "there is no folder"),
        (".", "is a folder"),
        ("/proc/texts.jsonl", "can't be written"),
        ("/dev/full", "can't be written: No space left on device"),
    ],
)
def test_where_nothing_can_be_written_is_said_in_one_line(path, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said) as error:
        generate(out=path)
    assert "\n" not in str(error.value)


def test_a_link_leads_to_the_file(out):
    link = out.with_name("link")
    link.symlink_to(out)
    generate(out=str(link))
    assert link.is_symlink()
    assert len(lines(out)) == 10


def test_more_combinations_of_labels_than_memory_holds_are_refused(monkeypatch):
    labels = {f"attribute-{n}": [str(k) for k in range(10)] for n in range(9)}
    with pytest.raises(UserError, match=r"^control: 1,000,000,000 combinations of labels"):
        read_requests(["The lake"], lambda _: "", labels=labels)
    monkeypatch.setattr("levelfield.generation.run.REQUESTS", 25)
    two = dict(list(labels.items())[:1])
    with pytest.raises(UserError, match="more than 25 requests"):
        read_requests(["The lake", "The hill", "The sea"], lambda _: "", labels=two)
    assert len(read_requests(["The lake", "The hill"], lambda _: "", labels=two)) == 20

"""No control character of a name, a text or somebody else's error gets to a terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

import levelfield
from command_line import Ran, Run, Write
from levelfield.cli import terminal
from levelfield.core.strings import visible
from levelfield.io.writing import atomic_writer
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.store import RatingStore

EVIL = "\x1b]0;taken\x07\x1b[31mred\x9b2J\x7f\u202eback\u2066"
RAW = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SMALL = ("--resamples", "20", "--permutations", "20")
SYSTEM = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    print(json.dumps({"id": request["id"], "text": request["prompt"] + " " + sys.argv[1]}))
print(sys.argv[1], file=sys.stderr)
"""


def clean(ran: Ran) -> str:
    both = ran.out + ran.err
    assert not RAW.search(both), repr(both)
    return both


def test_visible_text_keeps_lines_tabs_and_emoji_and_escapes_the_rest():
    assert visible("a\tb\nc – é 👩‍🔬") == "a\tb\nc – é 👩‍🔬"
    assert visible(EVIL).startswith(r"\x1b]0;taken\x07\x1b[31mred\x9b2J\x7f\u202eback\u2066")
    assert visible("a\rb\x00") == r"a\rb\x00"


def test_commands_print_through_the_terminal_only():
    printing = re.compile(r"click\.s?echo\(|[^.\w]print\(|sys\.std(out|err)\.write|\bConsole\(\w")
    root = Path(levelfield.__file__).parent
    paths = [*(root / "cli").rglob("*.py"), *(root / "show" / "terminal").rglob("*.py")]
    using = {path.name for path in paths if printing.search(path.read_text("utf-8"))}
    assert using == {"terminal.py", "blocks.py"}


def test_score_and_correlate_escape_names_of_systems_and_aspects(
    run: Run, write: Write, words: str
):
    rows = [
        {"id": f"{s}{i}", "text": "word " * (i + s), "system": f"{EVIL}{s}",
         "ratings": {EVIL: {"r": (i * 7 + s) % 5}}}
        for s in (1, 2) for i in range(6)
    ]  # fmt: skip
    file = write("t.jsonl", rows)
    assert r"\x1b[31mred\x9b2J\x7f\u202eback\u20661" in clean(run("score", file, "-m", words))
    as_json = run("score", file, "-m", words, "--json")
    clean(as_json)
    assert {group["group"] for group in as_json.json["metrics"][0]["groups"]} >= {f"{EVIL}1"}
    said = clean(run("correlate", "scores.jsonl", "--ratings", file, *SMALL))
    assert r"\x1b[31m" in said
    assert r"\x1b[31m" in clean(run("agreement", file))


def test_a_name_is_no_markup(run: Run, write: Write, words: str):
    name = "[link=file:///etc]:cat:[/link][red]x"
    rows = [
        {"id": f"{name}{i}", "aspect": name, "rater": f"{name}{r}", "value": (i * r) % 4}
        for i in range(5)
        for r in (1, 2)
    ]
    said = run("agreement", write("r.jsonl", rows)).out
    assert f"{name}1" in said
    assert "\\[" not in said
    assert name in run("score", write("t.jsonl", [{"text": "a", "system": name}]), "-m", words).out


def test_a_name_is_not_cut_by_its_escapes(run: Run, write: Write, words: str):
    file = write("t.jsonl", [{"id": "1", "text": "a", "system": "\x1b\x1b\x1bname"}])
    assert r"\x1b\x1b\x1bname" in clean(run("score", file, "-m", words))


def test_errors_about_ids_files_and_options_are_escaped(run: Run, write: Write, words: str):
    write("t.jsonl", [{"id": EVIL, "text": "a"}, {"id": EVIL, "text": "b"}])
    assert r"\x1b" in clean(run("score", "t.jsonl", "-m", words))
    assert r"\x1b" in clean(run("score", EVIL, "-m", words))
    assert r"\x1b" in clean(run("score", "t.jsonl", "-m", EVIL))
    assert r"\x1b" in clean(run(EVIL))
    assert r"\x1b" in clean(run("score", f"--{EVIL}"))


def test_errors_of_plug_ins_are_escaped(
    run: Run, write: Write, words: str, monkeypatch: pytest.MonkeyPatch
):
    import elsewhere_metrics

    def fail(*_: object) -> float:
        raise RuntimeError(EVIL)

    monkeypatch.setattr(elsewhere_metrics.Words, "value", fail)
    file = write("t.jsonl", [{"id": "1", "text": "a"}])
    assert r"\x1b[31m" in clean(run("score", file, "-m", words))
    assert r"\x1b[31m" in clean(run("score", file, "-m", words, "--debug"))


def test_a_study_escapes_its_systems_and_what_they_say(run: Run, write: Write):
    write("s.py", SYSTEM)
    name, python = (json.dumps(word) for word in (EVIL, sys.executable))
    study = write(
        "study.toml",
        f"""
name = {name}
seeds = [1, 2]
metrics = ["keywords.any"]
[datasets.things]
prompts = ["The lake", "The road"]
[controls.keywords]
keywords = [["sunny"], ["wet"]]
[[systems]]
name = {name}
command = [{python}, "s.py", {name}]
""".replace("\x7f", r"\u007f"),
    )
    assert "1" in clean(run("study", "run", study))
    for command in ("status", "audit", "report"):
        assert r"\x1b[31m" in clean(run("study", command, study))


def test_the_rating_app_escapes_names(run: Run, here: Path):
    assert run("rate", "init", "study").code == 0
    file = here / "study" / "STUDY.toml"
    title = 'title = "\\u001b[31mred"'
    file.write_text(re.sub("title = .*", lambda _: title, file.read_text(), count=1))
    assert r"\x1b[31m" in clean(run("rate", "check", file))
    store = RatingStore.create(file.with_suffix(".sqlite"), freeze(file))
    store.exclude(store.session(store.exchange(store.new_link(0)) or "") or "", EVIL)
    store.close()
    assert r"\x1b[31m" in clean(run("rate", "status", file))


def test_documents_on_a_terminal_are_escaped_and_others_are_not(monkeypatch: pytest.MonkeyPatch):
    class Raw(io.BytesIO):
        is_terminal = False

        def isatty(self) -> bool:
            return self.is_terminal

    for Raw.is_terminal, expected in ((True, visible(EVIL)), (False, EVIL)):
        raw = Raw()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8"))
        with atomic_writer("-") as file:
            file.write(EVIL)
        assert raw.getvalue().decode() == expected


def test_json_on_a_terminal_reads_back(capsys: pytest.CaptureFixture[str]):
    terminal.tell_json({EVIL: [EVIL, "é"]}, indent=2)
    printed = capsys.readouterr().out
    assert not RAW.search(printed)
    assert json.loads(printed) == {EVIL: [EVIL, "é"]}

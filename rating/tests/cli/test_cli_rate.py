from __future__ import annotations

import contextlib
import csv
import json
import re
import signal
import sqlite3
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import Run, Write, records, start
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import Event

EXAMPLE = Path(__file__).parents[3] / "examples" / "rating" / "STUDY.toml"


@pytest.fixture
def study(run: Run, here: Path) -> Path:
    """The study that `init` writes, with a store as `serve` makes it."""
    assert run("rate", "init", "study").code == 0
    file = here / "study" / "STUDY.toml"
    with contextlib.closing(RatingStore.create(file.with_suffix(".sqlite"), freeze(file))):
        pass
    return file


def rate_all(file: Path, values: tuple[int, int] = (70, 5), slots: tuple[int, ...] = (0, 1, 2, 3)):
    """Lets everybody give real texts about the first value and negative samples the second."""
    with contextlib.closing(RatingStore.open(file.with_suffix(".sqlite"))) as store:
        frozen = store.frozen
        for slot in slots:
            rater = store.session(store.exchange(store.new_link(slot)) or "") or ""
            store.consent(rater, frozen.consent_version)
            store.enter(rater, "instructions")
            store.enter(rater, "examples")
            store.enter(rater, "practice")
            tried = [
                Event(f"p{slot}-{p.opaque[:8]}-{c}", "practice", p.opaque, c, low, 1)
                for p in frozen.practice
                for c, (low, _) in p.accept.items()
            ]
            store.record(rater, tried)
            store.enter(rater, "rating")
            clock = 1
            for n, placed in enumerate(frozen.slots[slot].items):
                for criterion in frozen.criteria:
                    clock += 1
                    real = values[0] + (7 * n) % 20
                    value = values[1] if frozen.items[placed.item].control else real
                    uuid = f"e{slot}-{clock}"
                    event = Event(uuid, "rating", placed.opaque, criterion.id, value, clock)
                    store.record(rater, [event])
            store.enter(rater, "review")
            store.enter(rater, "done")


def test_init_writes_a_study_that_works_at_once(run: Run, here: Path):
    ran = run("rate", "init", "study")
    assert ran.code == 0
    assert ran.out.split() == [
        f"study/{name}" for name in ("README.md", "STUDY.toml", "rewrites.jsonl")
    ]
    checked = run("rate", "check", "study/STUDY.toml", "--json").json
    assert checked["ok"]
    assert checked["problems"] == []
    assert checked["warnings"] == []
    (here / "study" / "README.md").unlink()
    assert "name a separate folder" in run("rate", "init", "study").complaint
    assert not (here / "study" / "README.md").exists()


def test_the_example_is_as_its_readme_says(run: Run):
    checked = run("rate", "check", EXAMPLE, "--json").json
    assert checked["ok"]
    assert checked["warnings"] == []
    assert sorted(checked["systems"]) == ["brisk", "careful", "drift", "echo"]
    assert checked["directions"] == {"formal": 6, "informal": 6}
    assert checked["merged"] == 2
    assert [survey["controls"] for survey in checked["surveys"]] == [1, 1]


def test_check_says_what_there_is(run: Run):
    ran = run("rate", "check", EXAMPLE)
    assert ran.code == 0
    assert "48 samples of 4 systems" in ran.out
    assert "this study can be served" in ran.err


def test_check_names_every_problem_and_fails(run: Run, write: Write):
    write("texts.jsonl", [{"text": "one"}])
    write("STUDY.toml", 'title = "T"\nsamples = ["texts.jsonl"]\n[design]\nraters = 0\n')
    ran = run("rate", "check", "STUDY.toml")
    assert ran.code == 2
    problems = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert len(problems) >= 3
    assert run("rate", "check", "STUDY.toml", "--json").json["ok"] is False
    assert "no-such.toml" in run("rate", "check", "no-such.toml").complaint


def test_status_export_links_and_backup_need_a_store(run: Run, here: Path):
    run("rate", "init", "study")
    file = here / "study" / "STUDY.toml"
    for words in (["status"], ["export", "--out", "o"], ["links"]):
        assert "no such store" in run("rate", words[0], file, *words[1:]).complaint
    assert "no such store" in run("rate", "backup", file, "copy.sqlite").complaint
    assert not (here / "o").exists()


def test_status_says_how_far_everybody_is(run: Run, study: Path):
    rate_all(study, (40, 5), (0,))
    rate_all(study, (40, 90), (1,))
    status = run("rate", "status", study, "--json").json
    assert [(r["rater"], r["phase"], r["failed"]) for r in status["raters"]] == [
        ("r1", "done", False),
        ("r2", "done", True),
    ]
    assert status["slots"] == 4
    assert status["closed"] is False
    ran = run("rate", "status", study)
    assert "failed" in ran.out
    assert "2 of 4 done; the study is open" in ran.err


def test_what_is_exported_goes_into_agreement_and_correlate_as_it_is(run: Run, study: Path):
    rate_all(study)
    ran = run("rate", "export", study, "--out", "results")
    assert ran.code == 0
    assert "results/ratings.jsonl" in ran.out.split()
    assert len(records("results/ratings.jsonl")) == 8
    agreed = run("agreement", "results/ratings.jsonl", "--by", "survey", "--json")
    assert agreed.code == 0, agreed
    aspects = {group["aspect"] for group in agreed.json["groups"]}
    assert aspects == {"content", "style", "mean of aspects"}
    scored = run(
        "score", "results/ratings.jsonl", "--metric", "chrf.source", "--out", "scores.jsonl"
    )
    assert scored.code == 0, scored
    done = run("correlate", "scores.jsonl", "--ratings", "results/ratings.jsonl", "--json")
    assert done.code == 0, done
    table = run("agreement", "results/ratings.csv", "--json")
    assert table.code == 0, table
    same = [[g["alpha"]["value"] for g in ran.json["groups"]] for ran in (
        run("agreement", "results/ratings.jsonl", "--json"), table)]  # fmt: skip
    assert same[0] == same[1]


def test_who_is_excluded_is_named_and_left_out_unless_asked_for(run: Run, study: Path):
    rate_all(study)
    with contextlib.closing(RatingStore.open(study.with_suffix(".sqlite"))) as store:
        store.exclude("r1", "asleep")
    ran = run("rate", "export", study, "--out", "o")
    assert "left out: r1: asleep" in ran.err
    assert '"r1"' not in Path("o/ratings.jsonl").read_text()
    ran = run("rate", "export", study, "--out", "o", "--with-excluded")
    assert "left out" not in ran.err
    assert '"r1"' in Path("o/ratings.jsonl").read_text()


def test_links_are_shown_made_revoked_and_reassigned(run: Run, study: Path):
    assert run("rate", "links", study).out.count("none") == 4
    link = run("rate", "links", study, "--slot", 2, "--new", "--url", "https://example.org/x/").out
    token = re.fullmatch(r"https://example\.org/x/r/([\w-]{40,})\n", link)
    assert token is not None
    with contextlib.closing(RatingStore.open(study.with_suffix(".sqlite"))) as store:
        assert store.exchange(token[1])
        assert run("rate", "links", study, "--slot", 2, "--revoke").code == 0
        assert not store.exchange(token[1])
        other = run("rate", "links", study, "--slot", 2, "--reassign").out.strip()
        assert store.exchange(other.rpartition("/")[2])
        assert [state.replaced for state in store.raters()] == [True, False]


def test_links_of_all_slots_go_into_a_csv_that_others_cannot_read(run: Run, study: Path):
    assert run("rate", "links", study, "--csv", "links.csv").code == 0
    with Path("links.csv").open(newline="") as file:
        table = list(csv.reader(file))
    assert table[0] == ["slot", "name", "link"]
    assert len(table) == 5
    assert Path("links.csv").stat().st_mode & 0o077 == 0
    with contextlib.closing(RatingStore.open(study.with_suffix(".sqlite"))) as store:
        assert all(store.exchange(row[2].rpartition("/")[2]) for row in table[1:])
    assert "every link has been opened" in run("rate", "links", study, "--csv", "l.csv").complaint


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--new"], "--slot"),
        (["--slot", "9", "--new"], "4 slots"),
        (["--slot", "1", "--new", "--revoke"], "only one"),
        (["--slot", "1", "--csv", "x.csv"], "all slots"),
        (["--slot", "1", "--new", "--url", "example.org"], "https://"),
        (["--slot", "1", "--new", "--url", "https://example.org?a=b"], "https://"),
        (["--slot", "1", "--new", "--url", "https://a@example.org"], "https://"),
        (["--slot", "1", "--new", "--url", "https://example.org:x"], "https://"),
        (["--slot", "1", "--new", "--url", "https://example.org/a;b"], "https://"),
        (["--slot", "1", "--new", "--url", "https://exa mple.org"], "https://"),
        (["--slot", "1", "--new", "--url", "https://example.org/study"], "put them elsewhere"),
    ],
)
def test_wrong_words_about_links_change_nothing(
    run: Run, study: Path, words: list[str], complaint: str
):
    assert complaint in run("rate", "links", study, *words).complaint
    assert run("rate", "links", study).out.count("none") == 4


def test_a_backup_is_a_store_of_its_own_and_replaces_nothing(run: Run, study: Path):
    rate_all(study)
    assert run("rate", "backup", study, "copy.sqlite").code == 0
    copied = run("rate", "status", study, "--store", "copy.sqlite", "--json")
    assert copied.json == run("rate", "status", study, "--json").json
    assert "already exists" in run("rate", "backup", study, "copy.sqlite").complaint


def test_a_file_that_is_not_a_store_is_an_error(run: Run, study: Path, write: Write):
    write("other.sqlite", b"not a database at all, but long enough to look like one" * 40)
    complaint = run("rate", "status", study, "--store", "other.sqlite").complaint
    assert "damaged or is not a store" in complaint
    with sqlite3.connect("third.sqlite") as db:
        db.execute("CREATE TABLE x (y)")
    assert "not a store" in run("rate", "status", study, "--store", "third.sqlite").complaint


def test_an_invalid_host_is_an_error(run: Run, here: Path):
    run("rate", "init", "study")
    ran = run("rate", "serve", here / "study", "--port", 0, "--host", "a..b")
    assert "--host a..b --port 0: can't listen there" in ran.complaint


def test_a_port_in_use_is_an_error(run: Run, here: Path):
    import socket

    run("rate", "init", "study")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("rate", "serve", here / "study" / "STUDY.toml", "--port", port)
    assert f"--port {port}: can't listen there" in ran.complaint


def test_who_listens_everywhere_says_where_browsers_reach_the_pages(run: Run, here: Path):
    run("rate", "init", "study")
    words = ("rate", "serve", here / "study", "--port", 0, "--host", "0.0.0.0")
    assert "--url" in run(*words).complaint


@contextlib.contextmanager
def serving(file: Path, lines: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Yields a server in a process of its own, and the lines that it has printed on stdout."""
    process = start("rate", "serve", file, "--port", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        for line in process.stderr:
            if line.startswith("serving"):
                break
        yield process, [process.stdout.readline().rstrip("\n") for _ in range(lines)]
    finally:
        watchdog.cancel()
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_serve_freezes_prints_links_answers_and_stops(run: Run, here: Path):
    run("rate", "init", "study")
    file = here / "study" / "STUDY.toml"
    with serving(file, 6) as (process, lines):
        assert lines[1].startswith("organiser\thttp://127.0.0.1:")
        assert [line.partition("\t")[0] for line in lines[2:]] == [
            f"survey {s}, rater {r}" for s in (1, 2) for r in (1, 2)
        ]
        for line in lines[1:3]:
            with urllib.request.urlopen(line.partition("\t")[2], timeout=30) as page:
                assert page.status == 200
        wrong = lines[1].partition("\t")[2].rpartition("/organiser")[0] + "/organiser"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(wrong, timeout=30)
        process.send_signal(signal.SIGTERM)  # as from a service manager
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert "stopped" in err
        assert "Traceback" not in err
    # the same study goes on; its links are not printed again
    with serving(file, 2) as (process, lines):
        assert lines[1].startswith("organiser\t")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        assert out == ""
    states = run("rate", "status", file, "--json").json
    assert len(states["raters"]) == 4
    assert json.loads(json.dumps(states))["version"] == 1


def test_a_study_that_changed_after_the_first_rating_is_refused(run: Run, study: Path):
    rate_all(study, slots=(0,))
    study.write_text(study.read_text().replace("Formal and informal", "Informal and formal"))
    complaint = run("rate", "serve", study, "--port", 0).complaint
    assert "version = 2" in complaint


def test_somebody_without_a_link_can_still_be_withdrawn(run: Run, study: Path):
    rate_all(study)
    run("rate", "links", study, "--slot", "1", "--reassign")
    assert "--yes" in run("rate", "withdraw", study, "r1").complaint
    assert "no rater 'r99'" in run("rate", "withdraw", study, "r99", "--yes").complaint
    assert "r1 is withdrawn" in run("rate", "withdraw", study, "r1", "--yes").err
    run("rate", "export", study, "--out", "all", "--with-excluded")
    assert '"r1"' not in Path("all/ratings.jsonl").read_text(encoding="utf-8")


def test_a_withdrawal_that_another_program_holds_up_is_reported(
    run: Run, study: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("levelfield_rating.store.erasure._PATIENCE_S", 0.01)
    rate_all(study)
    store = study.with_suffix(".sqlite")
    with contextlib.closing(sqlite3.connect(store)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event_value").fetchone()
        assert (
            "another process is reading the store"
            in run("rate", "withdraw", study, "r1", "--yes").err
        )
    assert "another" not in run("rate", "withdraw", study, "r2", "--yes").err


def test_a_folder_means_the_study_file_in_it(run: Run, here: Path):
    run("rate", "init", "study")
    assert run("rate", "check", "study").out == run("rate", "check", "study/STUDY.toml").out
    (here / "empty").mkdir()
    assert "STUDY.toml" in run("rate", "check", "empty").complaint

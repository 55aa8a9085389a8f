"""Runs that are killed, interrupted, out of room, not alone, or repeated: nothing is lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from studies import KEY, command, lines, plan

from levelfield.study.ask.requests import TimedAnswer, requests_of
from levelfield.study.cells import CellKey, SystemAnswer
from levelfield.study.fingerprint import fingerprint
from levelfield.study.plan import CommandSource, FilesSource, Plan, SystemPlan
from levelfield.study.run import run
from levelfield.study.status import CellStatus, study_status
from levelfield.study.store import StudyStore
from levelfield.study.store import journal as journals
from levelfield.study.store.reading import read_cell

HERE = str(Path(__file__).parent)


@pytest.fixture
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not in the study's folder: files there that a command names are part of the system."""
    return tmp_path_factory.mktemp("log") / "log"


def start(folder: Path, body: str) -> subprocess.Popen[str]:
    """Starts a Python process with `folder` and the helpers of these tests at hand."""
    code = f"import sys; sys.path.insert(0, {HERE!r})\n" + textwrap.dedent(
        f"""
        from pathlib import Path
        from studies import command, plan
        from levelfield.study.run import run
        folder = Path({str(folder)!r})
        """
    )
    return subprocess.Popen(
        [sys.executable, "-c", code + textwrap.dedent(body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(path: Path, n: int, process: subprocess.Popen[str]) -> None:
    """Waits until a file has n lines."""
    end = time.monotonic() + 30
    while len(lines(path)) < n:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


def folder_of(study: Plan, key: CellKey = KEY) -> Path:
    return StudyStore(study.out).folder(key)


def partial_of(study: Plan) -> Path:
    return folder_of(study) / "answers.partial.jsonl"


def texts(study: Plan, key: CellKey = KEY) -> dict[str, str]:
    return {s.extra["request"]: s.text for s in read_cell(StudyStore(study.out), key).samples}


def expected(prompts: int) -> dict[str, str]:
    return {f"{i}:positive": f"Opening {i} and so on." for i in range(prompts)}


def test_a_run_answers_all_cells_and_the_next_has_nothing_to_do(tmp_path: Path, log: Path) -> None:
    study = plan(tmp_path, command("well", log), seeds=(1, 2))
    answered: list[int] = []
    ended: list[CellStatus] = []
    report = run(study, progress=answered.append, on_cell=ended.append)
    assert report.counts == {"done": 2}
    assert report.fresh == set(study.cells())
    assert sum(answered) == 8
    assert tuple(ended) == report.cells == study_status(study).cells
    assert texts(study) == expected(4)
    cell = read_cell(StudyStore(study.out), KEY)
    assert cell.samples[1].id == "S/openings/sentiment/1/1:positive"
    assert cell.samples[1].prompt == cell.samples[1].extra["input"] == "Opening 1"
    assert cell.cost is not None
    assert (cell.cost.texts, cell.cost.tokens) == (4, 12)
    assert 0 < cell.cost.wall_s < 20
    assert not partial_of(study).exists()

    before = {p: p.stat().st_mtime_ns for p in study.out.rglob("*.json*")}
    again = run(study)
    assert again.counts == {"done": 2}
    assert again.fresh == frozenset()
    assert {p: p.stat().st_mtime_ns for p in study.out.rglob("*.json*")} == before
    assert len(lines(log)) == 8


def test_after_kill_9_only_what_was_not_answered_is_asked_again(tmp_path: Path, log: Path) -> None:
    study = plan(tmp_path, command("slowly", log), prompts=12)
    process = start(
        tmp_path, f"run(plan(folder, command('slowly', Path({str(log)!r})), prompts=12))"
    )
    wait_for(partial_of(study), 5, process)
    process.kill()
    process.communicate()
    kept = [json.loads(line) for line in lines(partial_of(study))[1:]]
    assert len(kept) >= 4
    (before,) = study_status(study).cells
    assert (before.state, before.answered) == ("partial", len(kept))
    assert read_cell(StudyStore(study.out), KEY).failure

    report = run(study)
    assert report.counts == {"done": 1}
    assert texts(study) == expected(12)
    times = Counter(lines(log))
    assert {record["id"]: times[record["id"]] for record in kept} == {r["id"]: 1 for r in kept}
    cost = report.cells[0].cost
    assert cost is not None
    assert cost.texts == 12
    assert cost.wall_s >= 10 * 0.1  # the time before the kill is in it
    assert StudyStore(study.out).record(KEY).attempts == 2  # type: ignore[union-attr]


def test_ctrl_c_ends_the_system_says_so_and_loses_nothing(tmp_path: Path) -> None:
    study = plan(tmp_path, command("hangs"))
    process = start(
        tmp_path,
        """
        try:
            run(plan(folder, command("hangs")))
        except KeyboardInterrupt as error:
            print(error)
        """,
    )
    wait_for(partial_of(study), 3, process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert out == "the answers so far are kept, and the same command resumes from there\n", err
    (cell,) = study_status(study).cells
    assert (cell.state, cell.answered) == ("partial", 2)


def test_when_stop_is_set_a_run_ends_without_an_error(tmp_path: Path) -> None:
    stop = threading.Event()
    study = plan(tmp_path, command("hangs"), seeds=(1, 2))
    report = run(study, progress=lambda n: stop.set() if n else None, stop=stop)
    assert [cell.state for cell in report.cells] == ["partial", "missing"]


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_stops_the_run_with_a_clear_line_and_keeps_what_was_answered(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = plan(tmp_path, command("slowly", log), seeds=(1, 2))
    appending = journals.appending
    written: list[bytes] = []

    @contextlib.contextmanager
    def nearly_full(path: Path, size: int) -> Iterator[Callable[[bytes], None]]:
        with appending(path, size) as write:

            def write_some(content: bytes) -> None:
                written.append(content)
                if len(written) > 3:
                    write(b'{"id": "torn')
                    no_room()
                write(content)

            yield write_some

    monkeypatch.setattr(journals, "appending", nearly_full)
    report = run(study)
    assert [cell.state for cell in report.cells] == ["failed", "missing"]
    assert "No space left on device" in report.cells[0].failure
    (note,) = report.notes
    assert note.startswith("the run has stopped")
    assert "No space left on device" in note
    assert not (folder_of(study) / "answers.jsonl").exists()

    monkeypatch.undo()
    assert run(study).counts == {"done": 2}
    assert texts(study) == expected(4)
    assert Counter(lines(log))["0:positive"] == 2  # once in each cell


def test_a_disk_that_fills_while_results_are_written_leaves_no_half_file(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = plan(tmp_path, command("well", log))
    monkeypatch.setattr(os, "fsync", no_room)
    report = run(study)
    assert report.cells[0].state == "failed"
    assert "No space left" in report.cells[0].failure
    left = {p.name for p in folder_of(study).iterdir()}
    assert left <= {"answers.partial.jsonl", "lock"}
    monkeypatch.undo()
    assert run(study).counts == {"done": 1}
    assert texts(study) == expected(4)
    assert len(lines(log)) == 4


def test_a_line_that_did_not_fit_is_asked_for_again(tmp_path: Path) -> None:
    study = plan(tmp_path, command("long line"))
    process = start(
        tmp_path,
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        print(run(plan(folder, command("long line"))).cells[0].failure)
        """,
    )
    out, err = process.communicate(timeout=30)
    assert "File too large" in out, err
    assert partial_of(study).stat().st_size == 100_000
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    assert run(study).counts == {"done": 1}
    assert len(texts(study)["0:positive"]) == 1_000_000


def test_on_a_real_disk_without_room_the_failure_is_said(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)]
    try:
        mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("a small disk can't be mounted here")
    try:
        study = replace(plan(tmp_path, command("long line")), out=small / "study")
        (cell,) = run(study).cells
        assert cell.state == "failed"
        assert "No space left on device" in cell.failure
        (small / "study").rename(small / "moved")
        with pytest.raises(OSError, match="No space left on device"):
            (small / "filler").write_bytes(b"x" * 100_000)
        assert run(study).counts == {"failed": 1}
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def test_a_cell_that_fails_does_not_keep_the_others_and_is_tried_again(
    tmp_path: Path, log: Path
) -> None:
    good = SystemPlan("T", command("well"), ("sentiment",))
    study = plan(tmp_path, command("dies", log), others=[good])
    first = run(study)
    assert [cell.state for cell in first.cells] == ["failed", "done"]
    assert "exit code 3: out of memory" in first.cells[0].failure
    assert len(texts(study)) == 2  # what there is can be looked at
    assert read_cell(StudyStore(study.out), KEY).missing == ("2:positive", "3:positive")
    assert not (folder_of(study) / "answers.jsonl").exists()

    second = run(study)
    assert second.fresh == {KEY}
    assert lines(log) == ["0:positive", "1:positive", "2:positive"]
    assert second.cells[0].answered == 3
    third = run(study)  # one request is left: half of one is none
    assert third.cells[0].answered == 3
    assert StudyStore(study.out).record(KEY).attempts == 3  # type: ignore[union-attr]
    assert len(third.cells[0].problems) == 1


@pytest.mark.parametrize(("kept", "attempts"), [(4, 1), (3, 2)])
def test_a_run_that_is_killed_before_its_record_counts_as_an_attempt(
    tmp_path: Path, log: Path, kept: int, attempts: int
) -> None:
    study = plan(tmp_path, command("well", log))
    store = StudyStore(study.out)
    requests = requests_of(study, KEY)
    store.folder(KEY).mkdir(parents=True)
    with store.keeping(KEY, fingerprint(study, KEY, requests)) as keep:
        for request in requests[:kept]:
            keep(TimedAnswer(SystemAnswer(request.id, "So.")))
    assert run(study).counts == {"done": 1}
    assert len(lines(log)) == 4 - kept
    assert store.record(KEY).attempts == attempts  # type: ignore[union-attr]
    assert run(study).counts == {"done": 1}
    assert store.record(KEY).attempts == attempts  # type: ignore[union-attr]


@pytest.mark.slow
def test_two_processes_share_a_study(tmp_path: Path, log: Path) -> None:
    seeds = tuple(range(1, 7))
    study = plan(tmp_path, command("slowly", log), prompts=2, seeds=seeds)
    body = f"""
        report = run(plan(folder, command("slowly", Path({str(log)!r})), prompts=2, seeds={seeds}))
        print(len(report.fresh), report.counts["failed"])
        """
    processes = [start(tmp_path, body) for _ in range(2)]
    outputs = [process.communicate(timeout=40) for process in processes]
    fresh = [int(out.split()[0]) for out, _ in outputs]
    assert [out.split()[1] for out, _ in outputs] == ["0", "0"], outputs
    assert sum(fresh) == len(seeds)
    assert min(fresh) > 0
    assert {cell.state for cell in study_status(study).cells} == {"done"}
    assert len(lines(log)) == 2 * len(seeds)


def test_a_cell_in_the_hands_of_another_process_is_passed_over(tmp_path: Path) -> None:
    study = plan(tmp_path, command("well"), seeds=(1, 2))
    with StudyStore(study.out).lock(KEY) as is_ours:
        assert is_ours
        report = run(study)
    assert [cell.state for cell in report.cells] == ["held", "done"]
    assert report.notes == (f"{KEY}: another process is running it",)
    assert run(study).counts == {"done": 2}


@pytest.mark.parametrize("jobs", [1, 3])
def test_as_many_cells_run_at_once_as_jobs_say_and_come_out_the_same(
    tmp_path: Path, jobs: int
) -> None:
    study = plan(tmp_path, command("slowly"), seeds=(1, 2, 3))
    open_cells: list[int] = []

    def look(_: int) -> None:
        open_cells.append(len(list(study.out.rglob("answers.partial.jsonl"))))

    assert run(study, jobs=jobs, progress=look).counts == {"done": 3}
    assert max(open_cells) == jobs
    assert all(texts(study, key) == expected(4) for key in study.cells())


def test_other_steps_make_texts_anew_without_asking_the_system(tmp_path: Path, log: Path) -> None:
    study = plan(tmp_path, command("well", log))
    cost = run(study).cells[0].cost
    store = StudyStore(study.out)
    store.write_lines(KEY, "scores.jsonl", [{"id": "x", "metric": "m", "value": 1.0}])

    changed = replace(study, systems=(replace(study.systems[0], postprocess=("cut-at: and",)),))
    assert [cell.state for cell in study_status(changed).cells] == ["texts"]
    report = run(changed)
    assert report.counts == {"done": 1}
    assert report.cells[0].cost == cost
    assert len(lines(log)) == 4
    assert texts(changed)["2:positive"] == "Opening 2"
    assert next(iter(store.samples(KEY))).extra["raw"] == "Opening 0 and so on."
    assert list(store.read_lines(KEY, "scores.jsonl")) == []  # they were of other texts


SCRIPT = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "text": "TEXT"}))
"""


def test_another_script_is_another_system_and_the_old_answers_are_set_aside(
    tmp_path: Path,
) -> None:
    script = tmp_path / "toy.py"
    script.write_text(SCRIPT)
    study = plan(tmp_path, CommandSource((sys.executable, "toy.py")))
    run(study)
    script.write_text(SCRIPT.replace("TEXT", "new"))
    assert [cell.state for cell in study_status(study).cells] == ["stale"]
    report = run(study)
    assert set(texts(study).values()) == {"new"}
    (note,) = report.notes
    assert "has changed" in note
    old = [json.loads(line) for line in lines(folder_of(study) / "answers.stale.jsonl")]
    assert {record["text"] for record in old} == {"TEXT"}


def test_a_command_that_changes_a_file_it_names_is_noted(tmp_path: Path) -> None:
    report = run(plan(tmp_path, command("well", tmp_path / "log")))
    assert report.counts == {"done": 1}
    (note,) = report.notes
    assert "changed while it ran" in note


def test_answers_of_an_interrupted_run_do_not_get_into_a_changed_study(
    tmp_path: Path, log: Path
) -> None:
    run(plan(tmp_path, command("dies", log)))
    log.unlink()
    report = run(plan(tmp_path, command("well", log, environment={"A": "B"})))
    assert report.counts == {"done": 1}
    assert len(lines(log)) == 4


def test_files_are_read_with_their_faults_and_again_when_they_change(tmp_path: Path) -> None:
    file = tmp_path / "1.jsonl"
    records = [{"id": f"{i}:positive", "text": f"text {i}"} for i in range(4)]
    file.write_text("".join(json.dumps(r) + "\n" for r in [*records[:3], records[0]]))
    study = plan(tmp_path, FilesSource("{seed}.jsonl"), seeds=(1, 2))
    report = run(study)
    assert [cell.state for cell in report.cells] == ["failed", "failed"]
    assert "2.jsonl: there is no such file" in report.cells[1].failure
    cell = read_cell(StudyStore(study.out), KEY)
    assert cell.problems[0].startswith("1 answer given twice")
    assert (len(cell.samples), cell.missing, cell.cost) == (3, ("3:positive",), None)
    assert run(study).cells[0].problems == report.cells[0].problems

    file.write_text("".join(json.dumps(r) + "\n" for r in records))
    assert run(study).counts == {"done": 1, "failed": 1}
    assert len(texts(study)) == 4


def test_a_system_without_words_for_any_value_has_nothing_to_do(tmp_path: Path) -> None:
    study = plan(tmp_path, command("dies"))
    labels = {"sentiment": {"positive": ()}}
    study = replace(study, systems=(replace(study.systems[0], labels=labels),))
    (cell,) = run(study).cells
    assert (cell.state, cell.asked, cell.answered) == ("done", 0, 0)


def test_names_with_slashes_give_ids_that_differ(tmp_path: Path) -> None:
    study = plan(tmp_path, command("well"), prompts=1)
    systems = tuple(replace(study.systems[0], name=name) for name in ("a", "a/b", "🎉 a"))
    datasets = tuple(replace(study.datasets[0], name=name) for name in ("b/c", "c"))
    study = replace(study, systems=systems, datasets=datasets)
    run(study)
    ids = [s.id for key in study.cells() for s in StudyStore(study.out).samples(key)]
    assert len(ids) == len(set(ids)) == 6


def test_only_the_cells_asked_for_are_run(tmp_path: Path) -> None:
    study = plan(tmp_path, command("well"), seeds=(1, 2))
    report = run(study, only=lambda key: key.seed == 2)
    assert [cell.key.seed for cell in report.cells] == [2]
    assert [cell.state for cell in study_status(study).cells] == ["missing", "done"]


def test_status_writes_nothing(tmp_path: Path) -> None:
    study = plan(tmp_path, command("well"))
    assert [(c.state, c.asked, c.answered) for c in study_status(study).cells] == [
        ("missing", 4, 0)
    ]
    assert list(tmp_path.iterdir()) == []

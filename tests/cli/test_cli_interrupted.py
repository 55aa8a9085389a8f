"""Runs that do not get to their end, and runs that are not alone."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from command_line import Run, Write, finish, records, start, values
from levelfield.core.partitions import PARTITION
from levelfield.scoring.cache import SegmentCache, cache_path

N = 5 * PARTITION
EARLIER = '{"id": "0", "metric": "elsewhere.words", "value": 7, "signature": "of an earlier run"}\n'


@pytest.fixture
def texts(write: Write) -> str:
    return write("t.jsonl", [{"id": str(i), "text": f"{i} " + "word " * i} for i in range(N)])


def lines(path: str | Path) -> list[str]:
    file = Path(path)
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def wait_for(log: str, n: int, process: subprocess.Popen[str]) -> None:
    """Until n samples have gone through the metric."""
    end = time.monotonic() + 30
    while len(lines(log)) < n:
        assert process.poll() is None, finish(process)
        assert time.monotonic() < end
        time.sleep(0.005)


def slow(words: str, log: str, delay: float = 0.2) -> tuple[str, ...]:
    return ("-m", words, "-o", f"delay={delay}", "-o", f"log={log}")


def left_over() -> list[str]:
    return [p.name for p in Path().iterdir() if p.name.startswith(".levelfield")]


def test_after_kill_9_the_same_command_finishes_and_repeats_one_partition_at_most(
    run: Run, write: Write, words: str, texts: str
) -> None:
    assert run("score", texts, "-m", words, "--no-cache", "--out", "uninterrupted.jsonl").code == 0
    write("scores.jsonl", EARLIER)

    process = start("score", texts, *slow(words, "before"))
    wait_for("before", 3 * PARTITION, process)
    process.kill()
    assert finish(process).code == -signal.SIGKILL
    begun = len(lines("before"))
    assert PARTITION < begun < N
    assert Path("scores.jsonl").read_text() == EARLIER

    assert left_over()

    again = finish(start("score", texts, *slow(words, "after", 0)))
    assert again.code == 0, again.err
    assert left_over() == []
    assert Path("scores.jsonl").read_bytes() == Path("uninterrupted.jsonl").read_bytes()
    assert len(lines("after")) <= N - begun + PARTITION
    assert not set(lines("after")) & set(lines("before")[: begun - PARTITION])


@pytest.mark.slow
def test_two_processes_on_one_cache_do_not_mind_each_other(
    run: Run, words: str, texts: str
) -> None:
    assert run("score", texts, "-m", words, "--no-cache", "--out", "alone.jsonl").code == 0
    SegmentCache(cache_path()).close()
    both = [
        start("score", texts, *slow(words, f"log{i}", 0.05), "--out", f"{i}.jsonl")
        for i in range(2)
    ]
    for i, process in enumerate(both):
        ran = finish(process)
        assert (ran.code, ran.err) == (0, f"wrote {i}.jsonl\n")
        assert Path(f"{i}.jsonl").read_bytes() == Path("alone.jsonl").read_bytes()
    assert run("cache", "info", "--json").json["values"] == {words: N}


@pytest.mark.thinned
@pytest.mark.kill
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_that_ends_it_is_one_line_and_leaves_nothing_half_done(
    write: Write, words: str, texts: str, number: signal.Signals, code: int
) -> None:
    write("scores.jsonl", EARLIER)
    process = start("score", texts, *slow(words, "log"), "--parts", "parts.jsonl")
    wait_for("log", 2 * PARTITION, process)
    process.send_signal(number)
    ran = finish(process)
    assert ran.code == code
    assert ran.out == ""
    note, line = filter(None, ran.err.splitlines())
    assert "of an earlier run" in note
    assert line.startswith("interrupted" if number == signal.SIGINT else "ended by a signal")
    assert Path("scores.jsonl").read_text() == EARLIER
    assert not Path("parts.jsonl").exists()
    assert left_over() == []


@pytest.mark.parametrize("how", ["no cache", "unusable cache"])
def test_ctrl_c_does_not_speak_of_a_cache_that_is_not_there(
    run: Run, write: Write, words: str, texts: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    import elsewhere_metrics

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(elsewhere_metrics.Words, "value", interrupt)
    if how == "unusable cache":
        monkeypatch.setenv("LEVELFIELD_CACHE", f"{write('file', '')}/below")
    ran = run("score", texts, "-m", words, *(["--no-cache"] if how == "no cache" else []))
    assert ran.code == 130
    assert "in the cache" not in ran.err


def test_ctrl_c_in_training_does_not_speak_of_scores(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.metrics import iwf

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(iwf, "count", interrupt)
    corpus = write("c.txt", "A sentence.\n")
    ran = run("train", "iwf", corpus, "--model", "offline/minilm", "--out", "iwf.txt")
    assert ran.code == 130
    assert "scored" not in ran.err


def test_an_error_in_the_middle_leaves_the_old_scores_and_no_other_file(
    run: Run, write: Write, words: str, texts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import elsewhere_metrics

    write("scores.jsonl", EARLIER)
    monkeypatch.setattr(elsewhere_metrics.Words, "value", lambda *_: 1 / 0)
    assert run("score", texts, "-m", words).code == 1
    assert Path("scores.jsonl").read_text() == EARLIER
    assert left_over() == []


def test_the_same_command_twice_scores_nothing_anew(run: Run, words: str, texts: str) -> None:
    assert run("score", texts, *slow(words, "log", 0)).code == 0
    first = values()
    assert len(lines("log")) == N
    Path("log").unlink()
    assert run("score", texts, *slow(words, "log", 0)).code == 0
    assert lines("log") == []
    assert values() == first
    assert run("score", texts, *slow(words, "log", 0), "--no-cache").code == 0
    assert len(lines("log")) == N
    assert [r["id"] for r in records("scores.jsonl")] == [str(i) for i in range(N)]


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_the_same_command_goes_on(
    run: Run, words: str, texts: str
) -> None:
    assert run("score", texts, "-m", words, "--no-cache", "--out", "one.jsonl").code == 0
    process = start("score", texts, *slow(words, "before"), "--workers", "2")
    wait_for("before", N, process)  # the last begins when the first two are kept
    process.send_signal(signal.SIGINT)
    interrupted = finish(process)
    assert interrupted.code == 130, interrupted
    assert "scored values are in the cache" in interrupted.err
    assert run("score", texts, *slow(words, "after", 0), "--workers", "2").code == 0
    assert lines("scores.jsonl") == lines("one.jsonl")
    assert len(lines("after")) <= N - 2 * PARTITION

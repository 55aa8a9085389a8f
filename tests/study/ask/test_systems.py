"""Whatever a system does, valid answers are taken, and the rest is said."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from studies import KEY, Source, command, lines, requests

from levelfield.study.ask import attempt, processes
from levelfield.study.ask.processes import STDERR_BYTES, LineReader
from levelfield.study.ask.requests import TimedAnswer
from levelfield.study.ask.systems import AskOutcome, answer
from levelfield.study.cells import CellRequest, SystemAnswer
from levelfield.study.plan import CallableSource, CommandSource, FilesSource


class Asked:
    """A system in a folder of its own, what it answered and how that ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kept: list[TimedAnswer] = []

    def __call__(
        self, source: Source, cell_requests: list[CellRequest] | None = None, **options: Any
    ) -> AskOutcome:
        return answer(
            source,
            KEY,
            requests() if cell_requests is None else cell_requests,
            folder=self.folder,
            workplace=self.folder,
            **{"keep": self.kept.append} | options,
        )

    @property
    def texts(self) -> dict[str, str]:
        assert len({k.answer.id for k in self.kept}) == len(self.kept)
        return {kept.answer.id: kept.answer.text for kept in self.kept}


WELL = {f"{i}:positive": f"Opening {i} and so on." for i in range(4)}


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(processes, "_GRACE_S", 0.2)
    return Asked(tmp_path)


def test_every_answer_of_a_good_command_is_taken_with_what_it_says_of_itself(ask: Asked) -> None:
    outcome = ask(command("well"))
    assert ask.texts == WELL
    assert (outcome.problems, outcome.failure, outcome.attempts) == ((), "", 1)
    assert ask.kept[0].answer == SystemAnswer("0:positive", WELL["0:positive"], "Opening 0", 3)
    times = [kept.wall_s for kept in ask.kept]
    assert 0 < times[0] <= times[-1] < 20
    assert times == sorted(times)
    assert not (ask.folder / "stderr.txt").exists()


def test_a_command_learns_the_seed_of_its_cell(ask: Asked) -> None:
    ask(command("seed", environment={"LEVELFIELD_SEED": "overruled"}))
    assert set(ask.texts.values()) == {"1"}


@pytest.mark.parametrize(
    ("mode", "problems"),
    [
        ("other order", []),
        ("no last line end", []),
        ("floods stderr", []),
        ("leaves a child", []),
        ("unknown ids", ['3 answers with unknown ids (first: attempt 1, line 1: "nobody 0")']),
        (
            "twice",
            [
                '1 answer given twice, with the same text (first: attempt 1, line 5: "0:positive")',
                "1 second answer with a different text; the first counts "
                '(first: attempt 1, line 6: "0:positive")',
            ],
        ),
        (
            "garbage",
            [
                "6 lines that are not answers (first: attempt 1, line 1: not JSON: expecting value "
                'at column 1, in "Loading the model ...")',
            ],
        ),
        (
            "endless line",
            [
                "1 line that is not an answer "
                "(first: attempt 1, line 1: longer than 16,777,216 bytes)",
            ],
        ),
        ("stays", ["attempt 1: did not exit after its last answer, so it was stopped"]),
    ],
)
def test_valid_answers_count_whatever_stands_around_them(
    ask: Asked, mode: str, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "stays":
        monkeypatch.setattr(attempt, "_FAREWELL_S", 0.3)
    outcome = ask(command(mode))
    last = {"0:positive": "the last"} if mode == "no last line end" else {}
    assert ask.texts == WELL | last
    assert outcome.failure == ""
    assert list(outcome.problems) == problems


def test_a_text_of_a_million_characters_and_empty_texts_are_texts(ask: Asked) -> None:
    assert ask(command("long line")).problems == ()
    assert len(ask.texts["0:positive"]) == 1_000_000
    ask.kept.clear()
    assert ask(command("empty texts")).failure == ""
    assert set(ask.texts.values()) == {""}


def test_a_flood_on_stderr_is_kept_in_part_and_does_not_fill_the_disk(ask: Asked) -> None:
    ask(command("floods stderr"))
    stderr = (ask.folder / "stderr.txt").read_text()
    assert stderr.startswith("beginning\n")
    assert stderr.endswith("\nthe end\n")
    assert len(stderr) < 2 * STDERR_BYTES + 100
    left_out = 5_000_000 + len("beginning\n\nthe end\n") - 2 * STDERR_BYTES
    assert f"… {left_out:,} bytes left out here …" in stderr


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("mode", "missing", "reason"),
    [
        ("nothing", 4, "exited without an error"),
        ("reads nothing", 4, "exited without an error"),
        ("dies", 2, "exit code 3: out of memory"),
        ("hangs", 2, "exceeded its time limit of 2 s, so it was stopped"),
        ("floods stdout", 4, "exceeded its time limit of 2 s, so it was stopped"),
    ],
)
def test_what_was_answered_before_the_end_is_taken_and_the_end_is_said(
    ask: Asked, mode: str, missing: int, reason: str
) -> None:
    outcome = ask(command(mode, timeout_s=2.0))
    assert ask.texts == dict(list(WELL.items())[: 4 - missing])
    assert outcome.failure == (
        f'{missing} of 4 requests have no answer (first: "{4 - missing}:positive"); '
        f"attempt 1: {reason}"
    )


def test_answers_that_would_fill_the_memory_end_the_command(
    ask: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "CELL_BYTES", 100)
    outcome = ask(command("slowly", retries=1))
    assert 0 < len(ask.texts) < 4
    assert "attempt 1: sent more than 100 bytes, so it was stopped" in outcome.failure
    assert outcome.attempts == 1


def test_a_second_attempt_is_asked_only_what_the_first_left_open(ask: Asked) -> None:
    log = ask.folder / "log"
    outcome = ask(command("dies", log, retries=2))
    # of four the first half, then of two, then of one nothing
    assert lines(log) == ["0:positive", "1:positive", "2:positive"]
    assert outcome.attempts == 3
    assert outcome.failure.startswith("1 of 4 requests have no answer")
    assert [p[:9] for p in outcome.problems] == ["attempt 1", "attempt 2", "attempt 3"]


def test_an_attempt_that_mends_the_first_leaves_a_problem_and_no_failure(ask: Asked) -> None:
    outcome = ask(command("dies once", ask.folder / "log", retries=1))
    assert ask.texts == WELL
    assert outcome.failure == ""
    assert outcome.problems == ("attempt 1: exit code 3, and nothing on stderr",)
    times = [kept.wall_s for kept in ask.kept]
    assert times == sorted(times)


def test_answers_of_an_earlier_run_are_not_asked_for_and_stay(ask: Asked) -> None:
    log = ask.folder / "log"
    outcome = ask(command("well", log), earlier=[SystemAnswer("2:positive", "as before")])
    assert lines(log) == ["0:positive", "1:positive", "3:positive"]
    assert "2:positive" not in ask.texts
    assert outcome.failure == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("no-such-program",), 'attempt 1: "no-such-program" can\'t be started: No such file'),
        (("./notes.txt",), 'attempt 1: "./notes.txt" can\'t be started: Permission denied'),
    ],
)
def test_what_can_not_be_started_is_tried_once_and_named(
    ask: Asked, words: tuple[str, ...], expected: str
) -> None:
    (ask.folder / "notes.txt").write_text("no program")
    outcome = ask(CommandSource(words, retries=5))
    assert outcome.attempts == 1
    assert expected in outcome.failure


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.thinned
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize(
    "mode",
    ["hangs stubbornly", "leaves a child", "leaves a child in a session of its own"],
)
def test_no_process_is_left_behind(ask: Asked, mode: str) -> None:
    log = ask.folder / "pid"
    ask(command(mode, log, timeout_s=2.0))
    end = time.monotonic() + 5
    while is_running(int(log.read_text())):  # killed, but perhaps not gone yet
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_command_has_ended_when_it_ends_though_its_child_holds_the_pipe(ask: Asked) -> None:
    began = time.monotonic()
    outcome = ask(command("leaves a child and a half", ask.folder / "pid"))
    assert time.monotonic() - began < 10  # and not the time limit of 20
    assert outcome.failure.endswith("attempt 1: exited without an error")
    assert len(ask.texts) == 2


def test_when_told_to_stop_the_command_is_ended_at_once(ask: Asked) -> None:
    stop = threading.Event()
    began = time.monotonic()

    def keep(kept: TimedAnswer) -> None:
        ask.kept.append(kept)
        stop.set()

    outcome = ask(command("hangs", retries=3), keep=keep, stop=stop)
    assert outcome.stopped
    assert outcome.attempts == 1
    assert ask.kept
    assert time.monotonic() - began < 10


def test_what_keep_raises_ends_the_command(ask: Asked) -> None:
    def full(_: TimedAnswer) -> None:
        raise OSError(28, "No space left on device")

    began = time.monotonic()
    with pytest.raises(OSError, match="No space left"):
        ask(command("hangs"), keep=full)
    assert time.monotonic() - began < 10


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_peak_memory_is_that_of_the_command_and_not_ours(ask: Asked) -> None:
    ours = bytearray(b"x") * 150_000_000
    outcome = ask(command("hungry"))
    assert outcome.peak_bytes is not None
    assert 50_000_000 < outcome.peak_bytes < len(ours)


class TestCallable:
    MODULE = """
import os, sys
print("a line of the module")
class Noisy:
    @staticmethod
    def generate(requests, mood="plain"):
        for request in requests:
            print("a line of the callable")
            os.system("echo a line of a child")
            yield {"id": request["id"], "text": f"{mood} {os.environ['LEVELFIELD_SEED']}"}
def breaks(requests):
    for n, request in enumerate(requests):
        if n == 2:
            raise RuntimeError("the model is tired")
        yield {"id": request["id"], "text": "x"}
def odd(requests):
    yield {"id": requests[0]["id"], "text": {1, 2}}
"""

    @pytest.fixture(autouse=True)
    def _module(self, ask: Asked) -> None:
        (ask.folder / "toy.py").write_text(self.MODULE)
        (ask.folder / "random.py").write_text("raise ImportError('not the one you mean')")

    def test_it_answers_and_what_it_prints_is_no_answer(self, ask: Asked) -> None:
        outcome = ask(CallableSource("toy:Noisy.generate", options={"mood": "glad"}))
        assert set(ask.texts.values()) == {"glad 1"}
        assert len(ask.texts) == 4
        assert outcome.problems == ()
        printed = (ask.folder / "stderr.txt").read_text().splitlines()
        assert {"a line of the module", "a line of the callable", "a line of a child"} == set(
            printed
        )

    @pytest.mark.parametrize(
        ("target", "n", "reason"),
        [
            ("toy:breaks", 2, "exit code 1: RuntimeError: the model is tired"),
            ("toy:odd", 0, "exit code 1: TypeError: Object of type set is not JSON serializable"),
            ("toy:nothing", 0, "exit code 1: AttributeError: module 'toy' has no attribute"),
            ("no_such_module:x", 0, "ModuleNotFoundError: No module named 'no_such_module'"),
            ("no-such-entry", 0, "no installed package has a system 'no-such-entry'"),
        ],
    )
    def test_an_exception_ends_it_and_is_quoted(
        self, ask: Asked, target: str, n: int, reason: str
    ) -> None:
        outcome = ask(CallableSource(target, retries=0))
        assert len(ask.texts) == n
        assert reason in outcome.failure


class TestFiles:
    SOURCE = FilesSource("{dataset}-{control}-{seed}.jsonl")
    NAME = "openings-sentiment-1.jsonl"

    def read(
        self, ask: Asked, records: list[dict[str, Any]], source: FilesSource = SOURCE
    ) -> AskOutcome:
        path = ask.folder / source.pattern.format(**KEY._asdict())
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return ask(source)

    def test_records_find_their_requests_by_id_in_any_order(self, ask: Asked) -> None:
        records = [{"id": id, "text": text, "tokens": 7} for id, text in WELL.items()]
        outcome = self.read(ask, records[::-1])
        assert ask.texts == WELL
        assert ask.kept[0].answer.tokens == 7
        assert (outcome.problems, outcome.failure) == ((), "")

    @pytest.mark.parametrize("label", ["positive", ["positive"], "glad"])
    def test_without_ids_they_find_them_by_prompt_and_control(self, ask: Asked, label: Any) -> None:
        cell_requests = [
            CellRequest(
                f"{i}:{value}", f"Opening {i}", {"sentiment": value}, {"sentiment": word}, "d", 1
            )
            for i in range(2)
            for value, word in (("positive", "glad"), ("negative", "sad"))
        ]
        records = [
            {"prompt": f"Opening {i}", "control": {"sentiment": c}, "text": f"{i} {c}"}
            for i in (1, 0)
            for c in ("negative", label)
        ]
        (ask.folder / self.NAME).write_text("\n".join(map(json.dumps, records)))
        assert ask(self.SOURCE, cell_requests).failure == ""
        assert ask.texts == {
            f"{i}:{value}": f"{i} {c}"
            for i in range(2)
            for value, c in (("positive", label), ("negative", "negative"))
        }

    def test_nothing_is_matched_by_its_place(self, ask: Asked) -> None:
        outcome = self.read(ask, [{"text": text} for text in WELL.values()])
        assert ask.texts == {}
        assert outcome.problems == (
            f"4 records that match no request (first: {self.NAME}:1: neither id nor prompt)",
        )
        assert outcome.failure.startswith("4 of 4 requests have no answer")

    @pytest.mark.parametrize(
        ("record", "says"),
        [
            ({"prompt": "Opening 0"}, 'prompt "Opening 0", no control'),
            (
                {"prompt": "Opening 0", "control": {"sentiment": "negatve"}},
                'prompt "Opening 0", {"sentiment": "negatve"}',
            ),
            ({"id": "nobody"}, '"nobody"'),
        ],
    )
    def test_a_record_of_no_request_says_what_it_would_be_of(
        self, ask: Asked, record: dict[str, object], says: str
    ) -> None:
        outcome = self.read(ask, [{"text": "x", **record}])
        assert outcome.problems == (
            f"1 record that matches no request (first: {self.NAME}:1: {says})",
        )

    def test_columns_of_other_names_are_guessed_as_the_study_file_writes_them(
        self, ask: Asked
    ) -> None:
        outcome = self.read(ask, [{"hyp": "x", "opening_prefix": "Opening 0"}])
        assert 'for example map = { text = "hyp", prompt = "opening_prefix" }' in str(outcome)

    def test_duplicates_unknown_and_broken_records_are_counted(self, ask: Asked) -> None:
        good = [{"id": id, "text": text} for id, text in WELL.items()]
        odd = [good[0], good[0] | {"text": "another"}, {"id": "nobody", "text": "x"}, {"id": "y"}]
        outcome = self.read(ask, [*good, *odd])
        assert ask.texts == WELL
        assert outcome.failure == ""
        assert [p.partition(" (")[0] for p in outcome.problems] == [
            "1 answer given twice, with the same text",
            "1 second answer with a different text; the first counts",
            "1 line that is not an answer",
            "1 record that matches no request",
        ]

    def test_a_record_with_the_id_of_one_request_and_the_prompt_of_another_is_found(
        self, ask: Asked
    ) -> None:
        ids = list(WELL)
        records = [
            {"id": ids[i], "prompt": f"Opening {(i + 1) % 4}", "text": "x"} for i in range(4)
        ]
        (problem,) = self.read(ask, records).problems
        assert problem.startswith("4 records with a request's id but another prompt or control")

    def test_one_file_may_hold_all_cells(self, ask: Asked) -> None:
        records = [
            {"id": id, "text": f"{seed} {system}", "seed": seed, "system": system}
            for id in WELL
            for seed in (1, 2)
            for system in ("S", "T")
        ]
        outcome = self.read(ask, records, FilesSource("all.jsonl"))
        assert set(ask.texts.values()) == {"1 S"}
        assert (outcome.problems, outcome.failure) == ((), "")

    def test_if_texts_are_missing_it_is_said_which_records_were_passed_over(
        self, ask: Asked
    ) -> None:
        records = [{"id": id, "text": "x", "system": "s"} for id in WELL]
        outcome = self.read(ask, records, FilesSource("all.jsonl"))
        assert outcome.problems == ('4 records of other cells (first: system "s")',)

    def test_a_missing_file_is_the_failure_of_its_cell(self, ask: Asked) -> None:
        assert f"{self.NAME}: there is no such file" in ask(self.SOURCE).failure
        (ask.folder / "texts.odd").write_text("")
        assert "does not determine the format" in ask(FilesSource("texts.odd")).failure


def test_two_requests_that_are_alike_get_a_text_each(ask: Asked) -> None:
    cell_requests = [CellRequest(id, "Same", {"a": "b"}, {"a": "b"}, "d", 1) for id in ("1", "2")]
    records = [{"prompt": "Same", "control": {"a": "b"}, "text": t} for t in ("one", "two")]
    (ask.folder / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert ask(FilesSource("t.jsonl"), cell_requests).problems == ()
    assert ask.texts == {"1": "one", "2": "two"}


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b""))), st.randoms())
def test_lines_are_the_same_however_the_bytes_arrive(lines: list[bytes], random: Any) -> None:
    content = b"".join(line + b"\n" for line in lines) + b"rest"
    cuts = sorted(random.randint(0, len(content)) for _ in range(5))
    split = LineReader()
    parts: list[bytes | None] = []
    for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        parts += split.feed(content[start:end])
    assert [*parts, *split.end()] == [*lines, b"rest"]


def test_our_environment_reaches_the_command(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_TEST", "ours")
    script = (
        "import os, sys; print(os.environ['LEVELFIELD_TEST'], os.environ['A'], file=sys.stderr)"
    )
    ask(CommandSource((os.sys.executable, "-c", script), retries=0, environment={"A": "theirs"}))  # type: ignore[attr-defined]
    assert (ask.folder / "stderr.txt").read_text() == "ours theirs\n"

"""Scoring by several processes: the same values, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import length_metric
from length_metric import WORD, alive, samples, workers_of
from levelfield import score
from levelfield.core import machine
from levelfield.core.errors import UserError
from levelfield.core.machine import usable_memory
from levelfield.core.metric import MetricError
from levelfield.core.partitions import PARTITION
from levelfield.workers import executor, memory
from levelfield.workers.executor import WorkerError
from levelfield.workers.memory import worker_count

METRIC = Path(length_metric.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize("reads", ["words", pytest.param("a model", marks=pytest.mark.slow)])
def test_several_processes_give_the_bytes_of_one(tmp_path, reads):
    """Metrics of samples and of corpora; corpora that read scores, which are those of a model."""
    metrics, options = [WORD, "diversity", "rouge-l.references"], {}
    if reads == "a model":
        metrics.append("fluency.corpus-perplexity")
        options["fluency.corpus-perplexity:model"] = tiny_causal(tmp_path)
    texts = [
        {"id": s.id, "text": s.text, "references": ["word end"], "system": s.system}
        for s in samples(200)
    ]
    one = score(texts, metrics, options=options, cache=False)
    three = score(texts, metrics, options=options, cache=False, workers=3)
    assert one.to_dict() == three.to_dict()
    assert one.scores.keys() == three.scores.keys()
    for name, scores in one.scores.items():
        assert scores.values.tobytes() == three.scores[name].values.tobytes()


def tiny_causal(folder: Path) -> str:
    import tiny

    return str(tiny.save("gpt2", folder / "tiny"))


def test_other_processes_do_the_work_and_end_with_it(tmp_path):
    folder = tmp_path / "seen"
    folder.mkdir()
    score(samples(), WORD, options={"folder": str(folder), "delay": 0.1}, cache=False, workers=2)
    pids = workers_of(folder)
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert not any(map(alive, pids))


def test_values_are_kept_by_this_process_and_found_again(tmp_path):
    folder = tmp_path / "seen"
    folder.mkdir()
    options = {"folder": str(folder)}
    first = score(samples(), WORD, options=options, workers=2)
    for path in folder.iterdir():
        path.unlink()
    again = score(samples(), WORD, options=options, workers=2)
    assert not list(folder.iterdir())
    assert first.to_dict() == again.to_dict()


def test_an_error_is_the_one_that_this_process_would_raise():
    options = {"does": "raise"}
    with pytest.raises(MetricError) as here:
        score(samples(poison=100), WORD, options=options, cache=False)
    with pytest.raises(MetricError) as there:
        score(samples(poison=100), WORD, options=options, cache=False, workers=2)
    assert str(there.value) == str(here.value)
    assert "what a text" in str(there.value)
    assert any("in a worker" in note for note in there.value.__notes__)


def test_a_worker_that_dies_is_replaced_and_its_partition_tried_again(tmp_path):
    folder = tmp_path / "seen"
    folder.mkdir()
    options = {"folder": str(folder)}
    result = score(samples(poison=100), WORD, options=options, cache=False, workers=2)
    assert len(list(folder.glob("*-dead"))) == 1
    assert result.scores["own.length"].values[100] == len(samples(poison=100)[100].text)


def test_a_partition_that_kills_its_workers_is_named(tmp_path):
    folder = tmp_path / "seen"
    folder.mkdir()
    options = {"folder": str(folder), "does": "die"}
    with pytest.raises(WorkerError, match=r"samples '64' to '127'.*SIGKILL"):
        score(samples(poison=100), WORD, options=options, cache=False, workers=2)
    assert len(list(folder.glob("*-dead"))) == executor.LIVES
    assert not any(map(alive, workers_of(folder)))


def script(body: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(body), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


RUN = """
import sys
from levelfield import score
texts = [{"id": str(i), "text": "word"} for i in range(2000)]
score(texts, sys.argv[1], options={"folder": sys.argv[2], "delay": 0.2}, workers=2)
"""


@pytest.mark.thinned
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_that_started_them(tmp_path, end):
    folder = tmp_path / "seen"
    folder.mkdir()
    process = script(RUN, WORD, str(folder))
    deadline = time.monotonic() + 60
    while len(list(folder.iterdir())) < 4:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(end)
    process.communicate(timeout=30)
    assert process.returncode != 0
    while any(map(alive, workers_of(folder))):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_metric_of_a_script_is_scored_where_it_is(tmp_path):
    """Nothing can import it elsewhere; and a script needs no guard around its main part."""
    body = METRIC + (
        "from levelfield import score\n"
        "result = score([{'id': str(i), 'text': 'a' * i} for i in range(200)], Length(),"
        " cache=False, workers=2)\n"
        "print(result.scores['own.length'].values.sum(), result.notes)\n"
    )
    file = tmp_path / "script.py"
    file.write_text(body, encoding="utf-8")
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("19900.0 ")
    assert "own.length can't be sent to workers (it belongs to a script)" in ran.stdout


def test_what_a_metric_prints_does_not_mix_with_its_scores(tmp_path):
    file = tmp_path / "loud.py"
    file.write_text(
        METRIC.replace("time.sleep(self", "print('loud' * 9999) or time.sleep(self"), "utf-8"
    )
    result = score(samples(), f"{file}:Length", cache=False, workers=2)
    assert len(result.scores["own.length"].values) == len(samples())


def test_auto_is_what_processors_memory_and_samples_allow(monkeypatch):
    monkeypatch.setattr(memory, "usable_processors", lambda: 8)
    monkeypatch.setattr(memory, "usable_memory", lambda: 5 * memory.WORKER_BYTES)
    many = 1_000_000
    assert worker_count("auto", [], many, "cpu") == 5
    assert worker_count("auto", [], 3 * 4 * PARTITION, "cpu") == 3
    assert worker_count("auto", [], 1, "cpu") == 1
    monkeypatch.setattr(memory, "usable_memory", lambda: 0)
    assert worker_count("auto", [], many, "cpu") == 1
    assert worker_count(3, [], 1) == 3
    with pytest.raises(UserError, match="workers=0: expected a whole number from 1 to 1,024"):
        score(samples(), "rouge-l.references", workers=0)


def test_memory_is_that_of_the_machine_or_of_the_container_if_that_is_less(tmp_path, monkeypatch):
    available = SimpleNamespace(available=8 * 1024)
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: available)
    assert usable_memory(tmp_path) == 8 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert usable_memory(tmp_path) == 8 * 1024
    (tmp_path / "memory.max").write_text("1000\n")
    assert usable_memory(tmp_path) == 995


@pytest.mark.parametrize(
    ("limit", "used", "stat"),
    [
        ("memory.max", "memory.current", "inactive_file 300\n"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "inactive_file 1\ntotal_inactive_file 300\n",
        ),
    ],
)
def test_pages_of_files_that_the_system_gives_back_are_free(
    tmp_path: Path, limit: str, used: str, stat: str
) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / limit).write_text("1000\n")
    (tmp_path / used).write_text("700\n")
    (tmp_path / used).with_name("memory.stat").write_text(f"anon 400\n{stat}")
    assert usable_memory(tmp_path) == 600

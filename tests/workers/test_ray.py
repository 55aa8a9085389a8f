"""Scoring by Ray: the values of one process, and an end to everything that can go wrong."""

from __future__ import annotations

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from length_metric import WORD, begun, samples, workers_of
from levelfield import score
from levelfield.core.errors import UserError
from levelfield.core.metric import MetricError
from levelfield.core.partitions import PARTITION
from levelfield.workers import executor, place_options
from levelfield.workers import ray as ours
from levelfield.workers.executor import WorkerError
from levelfield.workers.place_options import check_address
from levelfield.workers.ray import Node, Tasks

# not imported before the cluster's token is in the environment
pytestmark = [
    pytest.mark.slow,  # importing Ray takes as long as all of its quick tests
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray"),
]

N = len(samples())
START = """
import ray, sys
ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False,
         logging_level="error", object_store_memory=100 << 20)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a cluster of three CPUs on this machine."""
    with pytest.MonkeyPatch.context() as env:
        env.setenv("RAY_USAGE_STATS_ENABLED", "0")
        env.setenv("RAY_AUTH_MODE", "token")
        env.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        with started(START) as process:
            assert process.stdout
            yield process.stdout.readline().strip()


def started(script: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", script], stdin=pipe, stdout=pipe, text=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "seen").mkdir()
    return tmp_path / "seen"


def test_three_tasks_at_a_time_give_the_bytes_of_one_process(cluster, folder):
    """Metrics of samples and of corpora; what was scored is kept here, and found again."""
    metrics = [WORD, "diversity", "rouge-l.references"]
    texts = [
        {"id": s.id, "text": s.text, "references": ["word end"], "system": s.system}
        for s in samples()
    ]
    options = {"folder": str(folder), "delay": 0.2}
    there = score(texts, metrics, options=options, workers=3, ray=cluster)
    pids = workers_of(folder)
    assert len(pids) == 3
    assert os.getpid() not in pids
    again = score(texts, metrics, options=options)
    assert workers_of(folder) == pids
    here = score(texts, metrics, cache=False)
    assert here.to_dict() == there.to_dict() == again.to_dict()
    for name, scores in here.scores.items():
        assert scores.values.tobytes() == there.scores[name].values.tobytes()


def test_a_process_that_dies_is_replaced_and_a_partition_that_kills_is_named(cluster, folder):
    texts, options = samples(poison=100), {"folder": str(folder)}
    result = score(texts, WORD, options=options, cache=False, workers=2, ray=cluster)
    assert len(list(folder.glob("*-dead"))) == 1
    assert result.scores["own.length"].values.tolist() == [len(s.text) for s in texts]
    options |= {"does": "die"}
    with pytest.raises(WorkerError, match=r"samples '64' to '127', the last one without a message"):
        score(texts, WORD, options=options, cache=False, workers=2, ray=cluster)
    assert len(list(folder.glob("*-dead"))) == 1 + executor.LIVES


def test_an_error_is_the_one_that_this_process_would_raise(cluster):
    texts, options = samples(poison=100), {"does": "raise"}
    with pytest.raises(MetricError) as here:
        score(texts, WORD, options=options, cache=False)
    with pytest.raises(MetricError) as there:
        score(texts, WORD, options=options, cache=False, workers=1, ray=cluster)
    assert str(there.value) == str(here.value)


def test_a_task_without_a_place_says_what_it_takes_and_what_is_free(cluster, monkeypatch):
    monkeypatch.setattr(ours, "PLACE_S", 1.0)
    with (
        ours.joined(cluster) as there,
        pytest.raises(WorkerError, match=r"takes 4 CPU; free: [0-3] CPU of 3 CPU"),
    ):
        ours.RayTasks(there, Tasks(1, cpus=4, gpus=0, threads=1))


def test_another_version_on_a_node_ends_the_run(cluster, monkeypatch):
    monkeypatch.setattr(ours, "__version__", "9.9")
    with pytest.raises(UserError, match=r"^node .* has levelfield [0-9.]+; expected 9.9, as here"):
        score(samples(), WORD, cache=False, ray=cluster)


@pytest.mark.kill
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_after_the_driver_is_ended_the_same_command_goes_on(cluster, folder, end):
    """At most the partition that each process was at is scored again."""
    file = folder.parent / "t.jsonl"
    expected = write(file, 768)
    words = ["score", file, "-m", WORD, "-o", f"folder={folder}", "--workers", "2"]
    words += ["--ray", cluster, "--out", str(folder.parent / "s.jsonl")]
    process = command(*words, "-o", "delay=1")
    wait_for(5, folder, process)
    time.sleep(0.3)  # what was there before is kept
    process.send_signal(end)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if end == signal.SIGKILL else 130), said
    if end == signal.SIGINT:
        assert "\n" not in said.strip()
        assert "scored values are in the cache" in said
    time.sleep(1)  # a task may still be at the partition of its driver
    first = begun(folder)
    assert len(first) < 768 / PARTITION
    for path in folder.iterdir():
        path.unlink()
    again = command(*words)
    assert again.wait(timeout=120) == 0
    assert len(begun(folder) & first) <= 2
    assert len(begun(folder) | first) == 768 / PARTITION
    lines = (folder.parent / "s.jsonl").read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == expected


def write(file: Path, n: int) -> list[int]:
    """Writes texts that all differ; returns their lengths."""
    texts = [f"{i}{' word' * (i % 7)}" for i in range(n)]
    records = [{"id": str(i), "text": text} for i, text in enumerate(texts)]
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return [len(text) for text in texts]


def command(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "levelfield", *map(str, words)], stderr=subprocess.PIPE, text=True
    )


def wait_for(n: int, folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while len(begun(folder)) < n:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_drivers_share_a_cache(cluster, folder):
    file = folder.parent / "t.jsonl"
    write(file, 400)
    outs = [folder.parent / f"{i}.jsonl" for i in range(2)]
    both = [
        command("score", file, "-m", WORD, "--ray", cluster, "--workers", 1, "--out", out)
        for out in outs
    ]
    for process, out in zip(both, outs, strict=True):
        _, said = process.communicate(timeout=120)
        assert (process.returncode, said) == (0, f"wrote {out}\n")
    assert outs[0].read_bytes() == outs[1].read_bytes()


@pytest.mark.kill
def test_a_cluster_that_goes_away_ends_with_one_line(folder, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    file = folder.parent / "t.jsonl"
    write(file, 1280)
    words = ["-m", WORD, "-o", f"folder={folder}", "-o", "delay=0.3", "--workers", "2"]
    words += ["--out", str(folder.parent / "s.jsonl")]
    with started(START) as head:
        address = head.stdout.readline().strip()
        process = command("score", file, *words, "--ray", address)
        wait_for(4, folder, process)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 1
    assert f"error: the Ray cluster at {address} is gone; when" in said
    assert "Traceback" not in said


TWO_NODES = """
import ray, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
node = cluster.add_node(num_cpus=2, wait=True)
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node(node, allow_graceful=False)
print("removed", flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.mark.kill
def test_a_node_that_is_killed_loses_nothing(folder, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    file, out = folder.parent / "t.jsonl", folder.parent / "s.jsonl"
    expected = write(file, 1280)
    words = ["-m", WORD, "-o", f"folder={folder}", "-o", "delay=0.5", "--workers", "3"]
    with started(TWO_NODES) as nodes:
        address = nodes.stdout.readline().strip()
        process = command("score", file, *words, "--no-cache", "--out", out, "--ray", address)
        wait_for(5, folder, process)
        nodes.stdin.write("kill\n")
        nodes.stdin.flush()
        _, said = process.communicate(timeout=200)
    assert (process.returncode, said) == (0, f"wrote {out}\n")
    assert [json.loads(line)["value"] for line in out.read_text().splitlines()] == expected


def test_an_address_that_cannot_be_one_is_named():
    for address in ("auto", "local", "head:6379", "ray://10.0.0.1:10001", "[::1]:6379"):
        assert check_address(address) == address
    for address in ("texts.jsonl", "head", "http://head:6379", "head:port", ""):
        with pytest.raises(UserError, match="expected auto, HOST:PORT or ray://HOST:PORT"):
            check_address(address)
    with pytest.raises(UserError, match=r"--ray 127.0.0.1:1: nothing answers there"):
        score(samples(), WORD, ray="127.0.0.1:1")


def plan(*nodes: Node, wanted=None, n=1_000_000, device="auto"):
    tasks = ours.tasks_of(wanted, nodes, [], n, device)
    return tasks.count, tasks.cpus, tasks.gpus, tasks.threads


def test_tasks_are_what_processors_memory_gpus_and_samples_allow(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    much = 1000 * ours.WORKER_BYTES
    assert plan(Node(8, 0, much), Node(4, 0, much)) == (12, 1, 0, 1)
    assert plan(Node(8, 0, 2.5 * ours.WORKER_BYTES), Node(4, 0, much)) == (6, 1, 0, 2)
    assert plan(Node(8, 0, much), n=3 * 4 * PARTITION) == (3, 1, 0, 2)
    assert plan(Node(8, 0, much), n=1) == (1, 1, 0, 8)
    assert plan(Node(8, 0, much), wanted=2) == (2, 1, 0, 4)
    assert plan(Node(2, 0, much), wanted=3) == (3, 0, 0, 1)
    gpus = Node(16, 4, much), Node(16, 4, much)
    assert plan(*gpus) == (8, 1, 1, 4)
    assert plan(*gpus, device="cpu") == (32, 1, 0, 1)
    assert plan(*gpus, wanted=2, device="cuda") == (2, 1, 1, 16)
    for words in ({"device": "cuda:1"}, {"wanted": 9}):
        with pytest.raises(UserError, match=r"with --ray, use cuda|has 8 GPU"):
            plan(*gpus, **words)
    with pytest.raises(UserError, match="no node of the Ray cluster has a GPU"):
        plan(Node(2, 0, much), device="cuda")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert plan(*gpus) == (8, 1, 1, 3)


@pytest.mark.parametrize("workers", [3, None])
def test_twenty_thousand_texts_have_the_bytes_of_one_process(cluster, folder, workers):
    """Three tasks at a time, or as many as fit into Ray on this machine."""
    texts, metrics = samples(20_000), [WORD, "diversity.distinct-2"]
    address = cluster if workers else "local"
    options = {"folder": str(folder)}
    there = score(texts, metrics, cache=False, workers=workers, ray=address, options=options)
    assert len(workers_of(folder)) >= (workers or 1)
    assert os.getpid() not in workers_of(folder)
    here = score(texts, metrics, cache=False)
    assert here.to_dict() == there.to_dict()
    for name, scores in here.scores.items():
        assert scores.values.tobytes() == there.scores[name].values.tobytes()


def test_a_time_limit_holds_in_a_task(cluster):
    with pytest.raises(MetricError, match=r"took longer than 0.2 s, its time limit"):
        score(samples(3), WORD, options={"delay": 9.0}, cache=False, ray=cluster, time_limit=0.2)


def test_one_connection_serves_all_runs_inside(cluster):
    with ours.joined(cluster) as outer, ours.joined(cluster) as inner:
        assert inner is outer


def test_without_ray_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr(place_options.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match="install levelfield with the extra ray"):
        score(samples(), WORD, ray="local")

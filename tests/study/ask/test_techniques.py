"""A technique as a system of a study: one process for all its cells, the texts of its own verbs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import command, lines, plan

from levelfield.core.errors import UserError
from levelfield.generation.contract import Decoding, Request
from levelfield.study.ask import systems
from levelfield.study.ask.processes import SystemProcess
from levelfield.study.ask.requests import requests_of
from levelfield.study.ask.systems import TechniqueProcess
from levelfield.study.cells import CellKey
from levelfield.study.fingerprint import fingerprint
from levelfield.study.plan import Plan, SystemPlan, TechniqueSource
from levelfield.study.run import run
from levelfield.study.status import study_status
from levelfield.study.store import StudyStore
from levelfield.study.store.reading import read_cell
from levelfield.study.verbs import Study

pytest.importorskip("torch")

import tiny

SHORT = Decoding(max_new_tokens=5)
HERE = Path(__file__).parents[1]
Starts = list[SystemProcess]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save("gpt2", tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def source(model: Path) -> TechniqueSource:
    return TechniqueSource(
        "base", {"model": str(model), "batch": 2}, SHORT, timeout_s=60.0, retries=0
    )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], Starts]:
    """Puts a toy in a mode in place of the technique; returns the processes that are started."""

    def put(mode: str) -> Starts:
        starts: Starts = []

        def start(_: TechniqueProcess) -> SystemProcess:
            words = [sys.executable, "-S", str(HERE / "toy_technique.py"), mode]
            starts.append(SystemProcess([*words, str(tmp_path / "log")], os.environ, None))
            return starts[-1]

        monkeypatch.setattr(TechniqueProcess, "_start", start)
        return starts

    return put


def have_ended(starts: Starts) -> bool:
    return all(start.process.returncode is not None for start in starts)


def texts(study: Plan, key: CellKey) -> dict[str, str]:
    return {s.extra["request"]: s.text for s in read_cell(StudyStore(study.out), key).samples}


def written(study: Plan, key: CellKey) -> dict[str, str]:
    """Returns the texts of the technique without a study."""
    from levelfield.generation.table import make_technique

    source = study.system(key.system).source
    assert isinstance(source, TechniqueSource)
    requests = [Request(r.id, r.prompt, r.labels) for r in requests_of(study, key)]
    technique = make_technique(source.technique, source.options)
    answers = technique.generate(requests, decoding=source.decoding, seed=key.seed)
    return {answer.id: answer.text for answer in answers}


def toys(study: Plan, key: CellKey) -> dict[str, str]:
    """Returns the texts of the toy."""
    return {r.id: f"{r.prompt}, {key.seed}" for r in requests_of(study, key)}


def test_texts_are_those_of_the_technique_without_a_study_and_say_what_they_cost(
    tmp_path: Path, source: TechniqueSource
) -> None:
    study = plan(tmp_path, source, seeds=(1, 2))
    report = run(study)
    assert report.counts == {"done": 2}
    for key in study.cells():
        assert texts(study, key) == written(study, key)
    assert texts(study, study.cells()[0]) != texts(study, study.cells()[1])

    (line, *_) = lines(StudyStore(study.out).folder(study.cells()[0]) / "answers.jsonl")
    answer = json.loads(line)
    assert answer["input"] == "Opening 0"
    assert answer["forward_passes"] == answer["tokens"] >= 1  # the base reads once a token
    first, second = (cell.cost for cell in report.cells)
    assert first is not None
    assert second is not None
    assert first.forward_passes == first.tokens
    assert first.loading_s is not None
    assert second.loading_s is not None
    assert first.loading_s > second.loading_s  # models are loaded once
    assert first.wall_s > 0
    status = study_status(study)
    assert list(status.techniques.values()) == [("base", "tiny")]
    table = status.table()
    (row,) = table.rows
    passes = [column.name for column in table.columns].index("passes per token")
    assert row[passes] == "1"
    assert run(study).fresh == frozenset()


@pytest.mark.slow
@pytest.mark.kill
def test_after_kill_9_the_same_texts_are_there_and_none_is_asked_for_twice(
    tmp_path: Path, source: TechniqueSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"""
        import sys
        sys.path[:0] = [{str(HERE)!r}]
        from pathlib import Path
        from studies import plan
        from levelfield.study.plan import TechniqueSource
        from levelfield.study.run import run
        from levelfield.generation.contract import Decoding
        decoding = Decoding(max_new_tokens={SHORT.max_new_tokens})
        source = TechniqueSource("base", {dict(source.options)!r}, decoding)
        run(plan(Path({str(tmp_path)!r}), source, prompts=400))
        """
    study = plan(tmp_path, source, prompts=400)
    (key,) = study.cells()
    journal = StudyStore(study.out).folder(key) / "answers.partial.jsonl"
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    try:
        end = time.monotonic() + 120
        while len(lines(journal)) < 12:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    kept = {json.loads(line)["id"] for line in lines(journal)[1:-1]}
    assert 10 <= len(kept) < 400

    ids: list[str] = []
    opened = TechniqueProcess.open

    def noted(self: TechniqueProcess, requests: list[Request], seed: int) -> SystemProcess:
        ids.extend(request.id for request in requests)
        return opened(self, requests, seed)  # type: ignore[arg-type]

    monkeypatch.setattr(TechniqueProcess, "open", noted)
    assert run(study).counts == {"done": 1}
    assert not kept & set(ids)
    assert len(ids) <= 400 - len(kept)
    assert texts(study, key) == written(study, key)


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_system_has_one_process_for_all_its_cells(
    tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts], jobs: int
) -> None:
    starts = toy("well")
    other = SystemPlan("T", source, ("sentiment",))
    study = plan(tmp_path, source, seeds=(1, 2, 3), others=[other])
    assert run(study, jobs=jobs).counts == {"done": 6}
    assert len(starts) == 2
    assert have_ended(starts)
    assert all(texts(study, key) == toys(study, key) for key in study.cells())
    stderr = StudyStore(study.out).folder(study.cells()[0]) / "stderr.txt"
    assert stderr.read_text() == "a line on stderr\n"
    assert run(study, jobs=jobs).fresh == frozenset()
    assert len(starts) == 2


def test_what_is_said_on_stderr_stands_with_its_cell_however_late_it_is_read(
    tmp_path: Path,
    source: TechniqueSource,
    toy: Callable[[str], Starts],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    toy("well")
    study = plan(tmp_path, source, seeds=(1, 2))
    read = os.read

    def late(fd: int, length: int) -> bytes:
        time.sleep(0.3)  # between this pipe's having something and its being read, all is said
        return read(fd, length)

    monkeypatch.setattr("levelfield.study.ask.processes.os.read", late)
    assert run(study).counts == {"done": 2}
    for key in study.cells():
        stderr = StudyStore(study.out).folder(key) / "stderr.txt"
        assert stderr.read_text() == "a line on stderr\n"


@pytest.mark.slow
def test_what_a_technique_prints_stands_with_its_cell(
    tmp_path: Path, source: TechniqueSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
        import sys
        from levelfield.study.ask import technique_worker
        from levelfield.generation.technique import UncontrolledBase
        generate = UncontrolledBase.generate
        def talkative(self, requests, *, decoding, seed=0):
            print(f"seed {seed}", end=" ")
            return generate(self, requests, decoding=decoding, seed=seed)
        UncontrolledBase.generate = talkative
        technique_worker.main(*sys.argv[1:])
        """

    class Talkative(SystemProcess):
        def __init__(self, words: list[str], *args: Any, **kwargs: Any) -> None:
            worker = words.index("levelfield.study.ask.technique_worker")
            words = [sys.executable, "-c", textwrap.dedent(code), *words[worker + 1 :]]
            super().__init__(words, *args, **kwargs)

    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setattr(systems, "SystemProcess", Talkative)
    study = plan(tmp_path, source, seeds=(1, 2))
    assert run(study).counts == {"done": 2}
    first, second = (StudyStore(study.out).folder(key) / "stderr.txt" for key in study.cells())
    assert first.read_text().endswith("seed 1 ")
    assert second.read_text() == "seed 2 "


def test_tables_have_techniques_and_bases_in_columns_of_their_own(
    tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts]
) -> None:
    toy("well")
    other = SystemPlan("T", command("well"), ("sentiment",))
    study = plan(tmp_path, source, others=[other])
    run(study)
    (ours, _) = study_status(study).to_dict()["cells"]
    assert (ours["technique"], ours["base"]) == ("base", "tiny")
    assert ours["cost"]["forward_passes"] == 24
    assert "S & base & tiny & 1 & 4 of 4" in study_status(study).to_latex()
    report = Study("A study", "study.toml", study).report(audit=False)
    (control,) = report.summary.controls
    assert [cost.passes_per_token for cost in control.costs] == [3.0, None]
    assert report.to_markdown().splitlines()[2:6] == [
        "| system | technique | base |",
        "| :-- | :-- | :-- |",
        "| S | base | tiny |",
        "| T | – | – |",
    ]
    assert "System & Technique & Base & seconds per text" in report.to_latex()
    assert "T & -- & -- &" in report.to_latex()
    only = replace(study, systems=(other,))
    without = Study("A study", "study.toml", only).report(audit=False)
    assert "Technique" not in without.to_latex()
    assert "technique" not in without.to_polars().columns
    assert {"technique", "base"} <= set(report.to_polars().columns)


def test_loading_is_no_time_of_texts_and_memory_is_that_of_the_cell(
    tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts]
) -> None:
    toy("slow to load")
    first, second = (cell.cost for cell in run(plan(tmp_path, source, seeds=(1, 2))).cells)
    assert first is not None
    assert second is not None
    assert first.loading_s is not None
    assert second.loading_s is not None
    assert first.loading_s >= 0.5 > second.loading_s
    assert first.wall_s < first.loading_s
    if Path("/proc/self/status").exists():
        assert first.peak_bytes
        assert second.peak_bytes


def test_a_process_that_dies_is_started_again_for_what_is_open(
    tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts]
) -> None:
    starts = toy("dies once")
    study = plan(tmp_path, replace(source, retries=1), seeds=(1, 2))
    report = run(study)
    assert report.counts == {"done": 2}
    assert report.cells[0].problems == ("attempt 1: killed by signal 9, and nothing on stderr",)
    assert len(starts) == 2
    # the one that was open when it died
    assert lines(tmp_path / "log") == [f"{n}:positive" for n in (0, 1, 2, 2, 3, 0, 1, 2, 3)]
    assert all(texts(study, key) == toys(study, key) for key in study.cells())


def test_when_told_to_stop_the_process_is_ended(
    tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts]
) -> None:
    starts = toy("hangs")
    stop = threading.Event()
    study = plan(tmp_path, source, seeds=(1, 2))
    report = run(study, progress=lambda n: stop.set() if n else None, stop=stop)
    assert [cell.state for cell in report.cells] == ["partial", "missing"]
    assert len(starts) == 1
    assert have_ended(starts)


def test_one_that_takes_too_long_is_ended_and_said(
    tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts]
) -> None:
    starts = toy("hangs")
    study = plan(tmp_path, replace(source, timeout_s=1.0))
    (cell,) = run(study).cells
    assert cell.failure.endswith("exceeded its time limit of 1 s, so it was stopped")
    assert have_ended(starts)


def test_what_the_technique_can_not_do_is_not_tried_again_and_the_process_goes_on(
    tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts]
) -> None:
    starts = toy("gives up")
    study = plan(tmp_path, replace(source, retries=3), prompts=1, seeds=(1, 2))
    store = StudyStore(study.out)
    report = run(study)
    assert [store.record(key).attempts for key in study.cells()] == [1, 1]  # type: ignore[union-attr]
    assert report.cells[0].problems == ("attempt 1: it is too hard",)
    assert len(starts) == 1


class TestWorker:
    """The other end, without a process."""

    def answers(self, source: TechniqueSource, **cell: object) -> list[dict[str, object]]:
        from levelfield.generation.table import make_technique
        from levelfield.study.ask.technique_worker import TechniqueWorker

        worker = TechniqueWorker(make_technique(source.technique, source.options), source.decoding)
        request = {"id": "1", "prompt": "The lake", "labels": {"keywords": ["court", "culture"]}}
        identity = systems.technique_identity(source)
        return list(
            worker.answers({"seed": 1, "identity": identity, "requests": [request], **cell})
        )

    def test_answers_stand_between_a_beginning_and_an_end(self, source: TechniqueSource) -> None:
        begin, answer, end = self.answers(source)
        assert (begin, end) == ({"begin": True}, {"end": True})
        assert answer["id"] == "1"
        assert str(answer["text"]).startswith("The lake")

    def test_the_input_is_what_the_model_read_with_its_instructions(
        self, source: TechniqueSource
    ) -> None:
        prompting = replace(
            source, technique="prompting", options={"model": source.options["model"]}
        )
        _, answer, _ = self.answers(prompting)
        assert str(answer["input"]).endswith("The lake")
        assert "court" in str(answer["input"])

    def test_weights_that_have_changed_since_the_cell_was_looked_at_are_refused(
        self, source: TechniqueSource
    ) -> None:
        with pytest.raises(UserError, match="a model or guide has changed since"):
            self.answers(source, identity=["another"])

    def test_what_the_technique_can_not_do_is_raised(self, source: TechniqueSource) -> None:
        hopeless = replace(source, decoding=Decoding(max_new_tokens=600))
        with pytest.raises(UserError, match="max_new_tokens is 600"):
            self.answers(hopeless)


class TestFingerprint:
    def of(self, folder: Path, source: TechniqueSource) -> str:
        study = plan(folder, source)
        (key,) = study.cells()
        return fingerprint(study, key, requests_of(study, key)).answers

    def test_every_choice_of_decoding_and_the_precision_are_in_it(
        self, tmp_path: Path, source: TechniqueSource
    ) -> None:
        changes = (
            {"max_new_tokens": 6},
            {"temperature": 0.9},
            {"top_k": 5},
            {"top_p": 0.8},
            {"repetition_penalty": 1.2},
            {"greedy": True},
        )
        others = [replace(source, decoding=replace(SHORT, **change)) for change in changes]
        others.append(replace(source, options={**source.options, "dtype": "bfloat16"}))
        prints = [self.of(tmp_path, changed) for changed in (source, *others)]
        assert len(set(prints)) == len(prints)

    def test_what_no_text_depends_on_is_not(self, tmp_path: Path, source: TechniqueSource) -> None:
        same = replace(source, options={**source.options, "batch": 7, "device": "cpu"}, retries=9)
        assert self.of(tmp_path, same) == self.of(tmp_path, source)

    def test_it_holds_the_bytes_of_the_model_and_neither_its_place_nor_our_version(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here, there, other = (tmp_path / name / "m" for name in ("a", "b", "c"))
        for folder, seed in ((here, 0), (there, 0), (other, 1)):
            tiny.save("gpt2", folder, seed=seed)
        fingerprints = {
            folder: self.of(tmp_path, TechniqueSource("base", {"model": str(folder)}))
            for folder in (here, there, other)
        }
        assert fingerprints[here] == fingerprints[there] != fingerprints[other]
        monkeypatch.setattr("levelfield.core.signature.SIGNED", "9.9")
        assert (
            self.of(tmp_path, TechniqueSource("base", {"model": str(here)})) == fingerprints[here]
        )

    def test_another_model_makes_a_finished_cell_stale(
        self, tmp_path: Path, source: TechniqueSource, toy: Callable[[str], Starts]
    ) -> None:
        toy("well")
        study = plan(tmp_path, source)
        assert run(study).counts == {"done": 1}
        other = tiny.save("gpt2", tmp_path / "other", seed=1)
        changed = plan(tmp_path, replace(source, options={"model": str(other)}))
        assert study_status(changed).counts == {"stale": 1}

    def test_a_model_that_is_not_there_is_said_with_the_system(self, tmp_path: Path) -> None:
        gone = TechniqueSource("base", {"model": str(tmp_path / "gone")})
        with pytest.raises(UserError, match=r'^system "S": there is no model folder'):
            study_status(plan(tmp_path, gone))

"""A technique as a system of a study: one process for all its cells, the texts of its own verbs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from studies import lines, plan

from levelfield.study.ask import technique_process
from levelfield.study.ask.requests import requests_of
from levelfield.study.ask.technique_process import TechniqueProcess
from levelfield.study.ask.techniques import technique_identity
from levelfield.study.cells import CellKey
from levelfield.study.fingerprint import fingerprint
from levelfield.study.plan import Plan, SystemPlan, TechniqueSource
from levelfield.study.run import run
from levelfield.study.status import study_status
from levelfield.study.store.folder import StudyStore
from levelfield.study.store.reading import read_cell
from levelfield.systems.contract import Decoding, Request

pytest.importorskip("torch")

import tiny

SHORT = Decoding(max_new_tokens=5)
HERE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save("gpt2", tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def source(model: Path) -> TechniqueSource:
    return TechniqueSource("base", {"model": str(model), "batch": 2}, SHORT, 60.0, 0)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The ids of the processes that were started."""
    pids: list[int] = []

    class Counted(technique_process.SystemProcess):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[arg-type]
            pids.append(self.process.pid)

    monkeypatch.setattr(technique_process, "SystemProcess", Counted)
    yield pids
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def texts(study: Plan, key: CellKey) -> dict[str, str]:
    return {s.extra["request"]: s.text for s in read_cell(StudyStore(study.out), key).samples}


def written(study: Plan, key: CellKey) -> dict[str, str]:
    """What the technique writes without a study."""
    from levelfield.systems.making import make_technique

    source = study.system(key.system).source
    assert isinstance(source, TechniqueSource)
    asked = [Request(r.id, r.prompt, r.labels) for r in requests_of(study, key)]
    technique = make_technique(source.technique, source.options)
    of = technique.generate(asked, decoding=source.decoding, seed=key.seed)
    return {one.id: one.text for one in of}


def test_one_process_writes_all_cells_and_the_texts_are_those_of_the_technique_itself(
    tmp_path: Path, source: TechniqueSource, starts: list[int]
) -> None:
    study = plan(tmp_path, source, seeds=(1, 2, 3))
    report = run(study, jobs=2)
    assert report.counts == {"done": 3}
    assert len(starts) == 1
    for key in study.cells():
        assert texts(study, key) == written(study, key)
    assert texts(study, study.cells()[0]) != texts(study, study.cells()[1])
    assert run(study).fresh == frozenset()
    assert len(starts) == 1


def test_answers_keep_what_was_read_and_what_it_cost_without_the_time_of_loading(
    tmp_path: Path, source: TechniqueSource
) -> None:
    study = plan(tmp_path, source, seeds=(1, 2))
    first, second = (cell.cost for cell in run(study).cells)
    (one, *_) = lines(StudyStore(study.out).folder(study.cells()[0]) / "answers.jsonl")
    answer = json.loads(one)
    assert answer["input"] == "Opening 0"
    assert 1 <= answer["tokens"] <= answer["forward_passes"]
    assert first is not None
    assert second is not None
    assert first.tokens is not None
    assert first.forward_passes == first.tokens  # the base reads once a token
    assert first.loading_s is not None
    assert second.loading_s is not None
    assert first.loading_s > 10 * second.loading_s
    assert first.loading_s > first.wall_s > 0
    assert second.peak_bytes is None or second.peak_bytes > 50_000_000


def test_two_systems_have_a_process_each(
    tmp_path: Path, source: TechniqueSource, starts: list[int]
) -> None:
    longer = replace(source, decoding=replace(SHORT, max_new_tokens=7))
    study = plan(tmp_path, source, others=[SystemPlan("T", longer, ("sentiment",))])
    assert run(study, jobs=2).counts == {"done": 2}
    assert len(starts) == 2
    s, t = (texts(study, key) for key in study.cells())
    assert all(t[id].startswith(s[id].rstrip()) for id in s)


def test_after_kill_9_the_same_texts_are_there_and_none_was_written_twice(
    tmp_path: Path, source: TechniqueSource
) -> None:
    code = f"""
        import sys
        sys.path[:0] = [{str(HERE)!r}, {str(HERE.parent)!r}]
        from pathlib import Path
        from studies import plan
        from levelfield.study.plan import TechniqueSource
        from levelfield.study.run import run
        from levelfield.systems.contract import Decoding
        source = TechniqueSource(
            "base", {dict(source.options)!r}, Decoding(max_new_tokens={SHORT.max_new_tokens})
        )
        run(plan(Path({str(tmp_path)!r}), source, prompts=400))
        """
    study = plan(tmp_path, source, prompts=400)
    (key,) = study.cells()
    journal = StudyStore(study.out).folder(key) / "answers.partial.jsonl"
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    try:
        end = time.monotonic() + 60
        while len(lines(journal)) < 12:
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    kept = [json.loads(line)["id"] for line in lines(journal)[1:-1]]
    assert 10 <= len(kept) < 400

    answered: list[int] = []
    asked: list[int] = []
    opened = TechniqueProcess.open

    def noted(self: TechniqueProcess, requests: list[object], seed: int) -> object:
        asked.append(len(requests))
        return opened(self, requests, seed)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TechniqueProcess, "open", noted)
        report = run(study, progress=answered.append)
    assert report.counts == {"done": 1}
    assert answered[0] >= len(kept)
    assert asked == [400 - answered[0]]
    assert sum(answered) == 400
    assert texts(study, key) == written(study, key)


def test_a_process_that_dies_is_started_again_for_what_is_open(
    tmp_path: Path, source: TechniqueSource, starts: list[int]
) -> None:
    study = plan(tmp_path, replace(source, retries=1), prompts=6, seeds=(1, 2))
    killed: list[int] = []

    def kill(n: int) -> None:
        if n and not killed:
            killed.append(starts[0])
            os.kill(starts[0], signal.SIGKILL)

    report = run(study, progress=kill)
    assert report.counts == {"done": 2}
    assert len(starts) == 2
    assert any("killed by signal 9" in p for cell in report.cells for p in cell.problems)
    for key in study.cells():
        assert texts(study, key) == written(study, key)


def test_when_told_to_stop_the_process_is_ended(
    tmp_path: Path, source: TechniqueSource, starts: list[int]
) -> None:
    stop = threading.Event()
    study = plan(tmp_path, source, prompts=300, seeds=(1, 2))
    report = run(study, progress=lambda n: stop.set() if n else None, stop=stop)
    assert [cell.state for cell in report.cells] == ["partial", "missing"]
    assert len(starts) == 1


def test_one_that_takes_too_long_is_ended_and_said(
    tmp_path: Path, source: TechniqueSource, starts: list[int]
) -> None:
    study = plan(tmp_path, replace(source, timeout_s=0.2))
    (cell,) = run(study).cells
    assert "ran into its time limit of 0.2 s" in cell.failure
    assert len(starts) == 1


def test_what_the_technique_can_not_do_fails_its_cells_and_is_not_tried_again(
    tmp_path: Path, source: TechniqueSource, starts: list[int]
) -> None:
    hopeless = replace(source, decoding=Decoding(max_new_tokens=600), retries=3)
    study = plan(tmp_path, hopeless, seeds=(1, 2))
    report = run(study)
    assert report.counts == {"failed": 2}
    assert "max_new_tokens is 600; the model takes 512 tokens" in report.cells[0].failure
    assert len(starts) == 1
    assert StudyStore(study.out).record(study.cells()[0]).attempts == 1  # type: ignore[union-attr]


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
        prints = [self.of(tmp_path, one) for one in (source, *others)]
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
        of = {
            folder: self.of(tmp_path, TechniqueSource("base", {"model": str(folder)}))
            for folder in (here, there, other)
        }
        assert of[here] == of[there] != of[other]
        monkeypatch.setattr("levelfield.core.signature.__version__", "9.9")
        assert self.of(tmp_path, TechniqueSource("base", {"model": str(here)})) == of[here]

    def test_another_model_makes_a_finished_cell_stale(
        self, tmp_path: Path, source: TechniqueSource
    ) -> None:
        study = plan(tmp_path, source)
        assert run(study).counts == {"done": 1}
        other = tiny.save("gpt2", tmp_path / "other", seed=1)
        changed = plan(tmp_path, replace(source, options={"model": str(other)}))
        assert study_status(changed).counts == {"stale": 1}

    def test_a_model_that_is_not_there_is_said_with_the_system(self, tmp_path: Path) -> None:
        from levelfield.core.errors import UserError

        gone = TechniqueSource("base", {"model": str(tmp_path / "gone")})
        with pytest.raises(UserError, match=r'^system "S": there is no model folder'):
            study_status(plan(tmp_path, gone))

    def test_weights_that_change_after_they_were_looked_at_are_noticed(
        self, tmp_path: Path, source: TechniqueSource, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = [*technique_identity(source)[:-1], "another"]
        monkeypatch.setattr(technique_process, "technique_identity", lambda _: before)
        (cell,) = run(plan(tmp_path, source)).cells
        assert "a model or guide is not the one that it was" in cell.failure

"""BLEURT on a random small model, and COMET with a module that takes the place of its package."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tokenizers import processors

import tiny_classifier
from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.metrics import environments, learned
from levelfield.metrics.environments import Environment
from levelfield.metrics.learned import (
    BLEURTReferences,
    BLEURTSource,
    COMETReferences,
    COMETSource,
)
from levelfield.models.load import load
from levelfield.models.loading import Loading

FAKE = '''
"""Stands for the package: the value is the length of the text over that of what it is compared
with, and some texts make it misbehave."""
import os, sys


class _Encoder:
    max_positions = 12

    def tokenizer(self, texts):
        return {"input_ids": [[0, *text.split(), 2] for text in texts]}


class _Model:
    encoder = _Encoder()

    def __init__(self, kind):
        self.kind = kind
        self.hparams = {"input_segments": ["mt", "src", "ref"]} if kind == "optional" else {}

    def requires_references(self):
        return self.kind == "required"

    def predict(self, samples, batch_size, gpus, progress_bar, num_workers):
        print("some library says hello on stdout")
        for sample in samples:
            if sample["mt"] == "crash":
                sys.stderr.write("Traceback\\nthe model has no more memory\\n")
                sys.stderr.flush()
                os._exit(3)
            if sample["mt"] == "raise":
                raise RuntimeError("no such thing\\nin many lines")
            if sample["mt"] == "garbage":
                os.write(garbage, b"not JSON\\n")
        return {"scores": [len(s["mt"]) / len(s.get("ref", s["src"] * 2)) for s in samples]}


# the pipe of the answers, which nothing but the worker should know of
garbage = max(int(fd) for fd in os.listdir("/proc/self/fd") if fd.isdigit()
              and os.path.exists(f"/proc/self/fd/{fd}")) if os.path.isdir("/proc/self/fd") else 1


def load_from_checkpoint(path, local_files_only):
    kind = open(path).read()
    if kind == "offline":
        raise OSError("xlm-roberta-large is not on this machine\\nand more")
    return _Model(kind)
'''


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with a Python of its own and the fake in the place of the package."""
    path = tmp_path_factory.mktemp("environments") / "comet"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True)
    site = next(path.glob("[Ll]ib/**/site-packages"))
    (site / "comet.py").write_text(FAKE)
    # `devices` asks it whether there is a GPU
    (site / "torch.py").write_text("class cuda:\n    is_available = staticmethod(lambda: False)\n")
    info = site / "unbabel_comet-2.2.7.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: unbabel-comet\nVersion: 2.2.7\n")
    created = Environment("comet", path, environments.RECIPES["comet"].requirements)
    created = Environment(
        "comet", path, created.requirements, environments._packages(created.python)
    )
    environments._write(created)
    return created


@pytest.fixture
def comet(environment: Environment, tmp_path: Path) -> Iterator[dict[str, object]]:
    """Options of the metric with a checkpoint that requires references."""
    yield {
        "model": str(checkpoint(tmp_path / "da", "required")),
        "loading": Loading(allow_pickle=True),
        "environment": str(environment.path),
    }
    for worker, _ in learned._RUNNING.values():
        worker.close()
    learned._RUNNING.clear()


def checkpoint(folder: Path, kind: str) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "model.ckpt").write_text(kind)
    (folder / "hparams.yaml").write_text("class_identifier: regression_metric\n")
    return folder


def sample(text: str, id: str = "1", source: str = "the lake froze", **fields: object) -> Sample:
    return Sample(id=id, text=text, source=source, **fields)  # type: ignore[arg-type]


def test_the_source_is_compared_with_the_text(comet):
    scores = COMETSource(**comet).score([sample("frozen lake"), sample("ice", "2")])
    np.testing.assert_allclose(scores.values, [11 / 14, 3 / 14])
    assert scores.parts is not None
    assert scores.parts.rows() == [("1", "source", 11 / 14, 1.0), ("2", "source", 3 / 14, 1.0)]
    assert scores.direction == "higher"


def test_of_several_references_the_best_or_the_mean_counts_and_blank_ones_are_left_out(comet):
    text_sample = sample("ice", references=("a lake", "  ", "frozen water"))
    best = COMETReferences(**comet).score([text_sample])
    mean = COMETReferences(**comet, references="mean").score([text_sample])
    assert best.values == pytest.approx([3 / 6])
    assert mean.values == pytest.approx([(3 / 6 + 3 / 12) / 2])
    assert best.parts is not None
    assert best.parts["part"].to_list() == ["reference 1", "reference 3"]
    assert best.parts["weight"].to_list() == [1.0, 0.0]


def test_what_is_missing_is_the_reason_and_does_not_start_anything(comet):
    samples = [sample(" ", "1"), sample("a", "2", source=""), sample("a", "3", references=("",))]
    scores = COMETReferences(**comet).score(samples)
    assert np.isnan(scores.values).all()
    assert dict(scores.undefined) == {"1": "empty text", "2": "empty source", "3": "no references"}
    assert learned._RUNNING == {}


def test_a_checkpoint_without_references_reads_the_source_alone(comet, tmp_path):
    for kind in ("none", "optional"):
        comet["model"] = str(checkpoint(tmp_path / kind, kind))
        assert COMETSource(**comet).score([sample("ice")]).values == pytest.approx([3 / 28])
    refers = COMETReferences(**comet).score([sample("ice", references=("a lake",))])
    assert refers.values == pytest.approx([3 / 6])
    comet["model"] = str(tmp_path / "none")
    with pytest.raises(ModelError, match=r"reads no references; use --metric comet\.source"):
        COMETReferences(**comet).score([sample("ice", references=("a lake",))])


def test_a_text_that_is_too_long_is_counted_as_truncated(comet):
    fits, long = "lake " * 8, "lake " * 9
    scores = COMETSource(**comet).score([sample(fits, "1"), sample(long, "2")])
    assert scores.truncated == {"2"}


def test_the_signature_names_checkpoint_and_package(comet):
    signature = COMETReferences(**comet).signature
    assert signature.startswith("comet.references|model:da@")
    assert "|comet:2.2.7|references:max|" in signature
    other = dict(
        comet, model=str(checkpoint(Path(str(comet["model"])).parent / "o" / "da", "none"))
    )
    assert COMETReferences(**other).signature != signature


def test_nasty_texts_pass_through_the_pipe(comet):
    texts = ['"quoted"\nand broken\r\n', "😀 ☕", "мир\u2028мир", "\ud800", "x" * 100_000]
    scores = COMETSource(**comet).score([sample(t, str(n)) for n, t in enumerate(texts)])
    np.testing.assert_allclose(scores.values, [len(t) / 14 for t in texts])


def test_a_worker_that_dies_is_named_with_its_last_words_and_the_next_call_starts_another(comet):
    metric = COMETSource(**comet)
    with pytest.raises(ModelError, match="comet ended without an answer: the model has no more"):
        metric.score([sample("crash")])
    assert metric.score([sample("ice")]).values == pytest.approx([3 / 14])


def test_an_answer_without_end_ends_the_worker(comet, monkeypatch):
    monkeypatch.setattr("levelfield.core.limits.ANSWER_BYTES", 20)
    with pytest.raises(ModelError, match="answered with more than 20 characters; it was stopped"):
        COMETSource(**comet).score([sample("ice")])
    assert not any(worker.is_running for worker, _ in learned._RUNNING.values())


def test_an_error_of_the_model_is_one_line_and_the_worker_lives_on(comet):
    metric = COMETSource(**comet)
    with pytest.raises(ModelError, match=r"^comet: RuntimeError: no such thing$"):
        metric.score([sample("raise")])
    [(worker, _)] = learned._RUNNING.values()
    assert worker.is_running
    assert metric.score([sample("ice")]).values == pytest.approx([3 / 14])


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="finds the pipe under /proc")
def test_garbage_on_the_pipe_is_an_error_and_never_a_value(comet):
    with pytest.raises(ModelError, match="answered with something else: 'not JSON'"):
        COMETSource(**comet).score([sample("garbage")])
    assert COMETSource(**comet).score([sample("ice")]).values == pytest.approx([3 / 14])


def test_a_missing_encoder_is_an_error_of_one_line(comet, tmp_path):
    comet["model"] = str(checkpoint(tmp_path / "o", "offline"))
    with pytest.raises(ModelError, match=r"^comet: OSError: xlm-roberta-large is not on this ma"):
        COMETSource(**comet).score([sample("ice")])


def test_a_worker_is_started_once(comet):
    COMETSource(**comet).score([sample("ice", str(n)) for n in range(200)])
    COMETReferences(**comet).score([sample("ice", references=("a lake",))])
    assert len(learned._RUNNING) == 1


def test_without_an_environment_the_command_that_makes_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("LEVELFIELD_ENVIRONMENTS", str(tmp_path))
    with pytest.raises(
        UserError, match=r"does not exist .*`levelfield environment create comet` mak"
    ):
        _ = COMETSource(loading=Loading(allow_pickle=True)).signature
    with pytest.raises(UserError, match=r"`levelfield environment create comet --path here` makes"):
        _ = COMETSource(loading=Loading(allow_pickle=True), environment="here").signature


def test_pickled_weights_must_be_allowed(comet):
    comet["loading"] = Loading()
    with pytest.raises(ModelError, match="trust it with --allow-pickle"):
        _ = COMETSource(**comet).signature


def test_a_missing_model_and_one_without_a_checkpoint_have_different_errors(comet, tmp_path):
    with pytest.raises(ModelError, match=r"is not a checkpoint of COMET: .* has no hparams.yaml"):
        _ = COMETSource(**{**comet, "model": str(tmp_path)}).signature
    with pytest.raises(ModelError, match=r"'Unbabel/wmt22-comet-da' is not on this machine"):
        _ = COMETSource(**{**comet, "model": "Unbabel/wmt22-comet-da"}).signature


def test_an_environment_that_changed_since_its_creation_gives_no_values(comet, environment):
    mark = environment.path / "levelfield-environment.json"
    kept = mark.read_text()
    try:
        mark.write_text(json.dumps(json.loads(kept) | {"packages": {"unbabel-comet": "2.0"}}))
        with pytest.raises(ModelError, match=r"has comet 2\.2\.7, but was made with 2\.0"):
            COMETSource(**comet).score([sample("ice")])
    finally:
        mark.write_text(kept)


@pytest.fixture
def bleurt(tmp_path: Path) -> str:
    folder = tiny_classifier.save(tmp_path / "bleurt", ("score",), family="bert")
    words = tiny_classifier.tokenizer()
    words.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    words.save_pretrained(folder)
    return str(folder)


def test_bleurt_reads_the_reference_first_and_the_text_second(bleurt, put_model):
    seen: list[tuple[str, str]] = []
    model = load("regressor", bleurt)

    class Watched:
        def values(self, pairs):
            seen.extend(pairs)
            return model.values(pairs)

    put_model("regressor", lambda _name, _loading: Watched())
    text_sample = sample("frozen", references=("a lake", " ", "ice"))
    by_source = BLEURTSource(model=bleurt).score([text_sample])
    by_references = BLEURTReferences(model=bleurt).score([text_sample])
    assert seen == [("the lake froze", "frozen"), ("a lake", "frozen"), ("ice", "frozen")]
    assert by_references.parts is not None
    assert by_references.values == by_references.parts["score"].max()
    assert by_references.parts["score"].n_unique() == 2
    mean = BLEURTReferences(model=bleurt, references="mean").score([text_sample])
    assert mean.values == pytest.approx(by_references.parts["score"].mean())
    assert math.isfinite(by_source.values[0])


def test_bleurt_says_what_is_missing(bleurt):
    samples = [
        sample("", "1"),
        sample("a", "2", source=" "),
        sample("\u200b", "3"),
        sample("a", "4"),
    ]
    scores = BLEURTSource(model=bleurt).score(samples)
    assert scores.undefined["1"] == "empty text"
    assert scores.undefined["2"] == "empty source"
    assert "4" not in scores.undefined
    none = BLEURTReferences(model=bleurt).score([sample("a", references=())])
    assert dict(none.undefined) == {"1": "no references"}


def test_bleurt_names_its_choices_and_refuses_other_models(bleurt, tiny_folders):
    assert "|references:max|special:text|dtype:float32|" in BLEURTReferences(model=bleurt).signature
    with pytest.raises(ModelError, match="needs a checkpoint of BLEURT"):
        _ = BLEURTSource(model=str(tiny_folders["bart"])).signature


@pytest.mark.parametrize(
    "metric",
    [BLEURTSource(), BLEURTReferences(references="mean"), COMETSource(), COMETReferences()],
)
def test_metrics_are_plain_arguments(metric):
    assert pickle.loads(pickle.dumps(metric)) == metric

"""The list of metrics that needs no metric, and whether models are on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.core.extensions import METRICS, entries
from levelfield.core.registry import metric_class
from levelfield.metrics.catalogue import FILE, MetricEntry, catalogue, entry_of
from levelfield.models import presence
from levelfield.models.presence import is_here, is_installed
from levelfield.scoring.metrics import works_offline

ROOT = Path(__file__).parent.parent.parent


def test_the_catalogue_is_what_the_classes_declare(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from tools.metric_catalogue import updated

    assert FILE.read_text("utf-8") == updated(), "run `python tools/metric_catalogue.py`"


@pytest.mark.slow
def test_a_metric_is_listed_as_offline_exactly_if_it_works_offline():
    ours = {name: e.value for name, e in entries(METRICS).items() if e.value in catalogue()}
    listed = {name: catalogue()[target].works_offline for name, target in ours.items()}
    assert listed == {name: works_offline(metric_class(name)) for name in ours}


def test_metrics_of_words_need_neither_model_nor_extra():
    for name in ("rouge-1.references", "diversity.distinct-2", "keywords.cov", "meteor.source"):
        entry = catalogue()[entries(METRICS)[name].value]
        assert (entry.models, entry.extra, entry.options) == ((), "", ())
        assert entry.works_offline


def test_a_metric_with_a_required_option_does_not_work_with_its_defaults():
    assert entry_of(metric_class("question")).options == ("question",)
    assert not MetricEntry("sample", (), "", options=("question",)).works_offline


def test_a_metric_without_its_extra_names_it(monkeypatch):
    monkeypatch.setattr(presence, "_folder", lambda _: None)
    entry = catalogue()[entries(METRICS)["fluency.grammar"].value]
    assert (entry.missing_extra, entry.works_offline) == ("grammar", False)


def test_no_extra_is_always_installed():
    assert is_installed("")


def snapshot(cache, name, *files, revision="main", commit="c0ffee"):
    """Writes files of a model where huggingface_hub keeps what it has downloaded."""
    folder = cache / f"models--{name.replace('/', '--')}"
    reference = folder / "refs" / revision
    reference.parent.mkdir(parents=True)
    reference.write_text(commit)
    for file in files:
        path = folder / "snapshots" / commit / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")


def test_a_hub_model_is_here_if_its_revision_is_with_safe_weights(tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert not is_here("an/encoder")
    snapshot(tmp_path, "an/encoder", "config.json", "model.safetensors")
    assert is_here("an/encoder")
    assert is_here("an/encoder@c0ffee")
    assert not is_here("an/encoder@beef")
    snapshot(tmp_path, "a/pickle", "config.json", "pytorch_model.bin")
    assert not is_here("a/pickle")
    snapshot(tmp_path, "google/pegasus-large", "config.json", "model.safetensors")
    assert not is_here("google/pegasus-large")  # pinned to another revision


def test_a_folder_is_here_and_no_name_is_not(tmp_path):
    assert is_here(str(tmp_path))
    assert not is_here("")
    assert not is_here("offline/unknown")


def test_an_embedded_model_is_here_if_the_model_it_builds_on_is(tmp_path, monkeypatch):
    monkeypatch.setattr(presence, "_folder", lambda _: tmp_path)
    assert is_here("offline/editor")
    assert not is_here("offline/smollm2-early")
    (tmp_path / presence._PACKAGED["offline/smollm2"][1]).write_text("weights")
    assert is_here("offline/smollm2-early")

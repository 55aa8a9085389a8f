"""The signature of a metric names an engine where one computes, and is else what it was."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from levelfield.core.errors import ModelError, UserError
from levelfield.metrics.bertscore import BERTScoreSource
from levelfield.metrics.composite import CompositeCoherence
from levelfield.metrics.control import ControlProbability
from levelfield.metrics.ctrleval import CTRLEvalCoherence
from levelfield.metrics.embedding import CosineSource
from levelfield.metrics.movers import WMDSource
from levelfield.models.loading import ENGINES, LOADERS, Engine, Loading


@pytest.fixture(autouse=True)
def _ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine `ours` serves what OpenVINO serves, and needs no package."""
    monkeypatch.setitem(ENGINES, "ours", Engine(("float32",)))
    for kind, engine in list(LOADERS):
        if engine == "openvino":
            monkeypatch.setitem(LOADERS, (kind, "ours"), LOADERS[kind, engine])


@pytest.mark.parametrize(
    ("metric", "computes"),
    [
        (CosineSource(), True),
        (BERTScoreSource(), True),
        (CTRLEvalCoherence(), True),
        (ControlProbability(judges="minilm"), True),
        (ControlProbability(judges="linear,vader"), False),
        (WMDSource(), False),
    ],
)
def test_an_engine_is_named_where_it_computes(metric: Any, computes: bool) -> None:
    signature = dataclasses.replace(metric, loading=Loading(engine="ours")).signature
    if computes:
        assert "|dtype:float32|engine:ours|v:" in signature
    assert signature.replace("|engine:ours", "") == metric.signature
    assert ("engine" in signature) == computes
    for same in ("auto", "torch"):
        assert metric.replace(engine=same).signature == metric.signature


def test_a_composite_names_the_engine_of_any_of_its_parts() -> None:
    metric = CompositeCoherence()
    try:
        plain = metric.signature
    except ModelError:
        pytest.skip("offline/smollm2 is not installed")
    signature = dataclasses.replace(metric, loading=Loading(engine="ours")).signature
    assert signature == plain.replace("|dtype:float32", "|dtype:float32|engine:ours")
    with pytest.raises(UserError, match="--dtype bfloat16: engine ours, which would compute here"):
        _ = dataclasses.replace(metric, loading=Loading(engine="ours", dtype="bfloat16")).signature


def test_an_engine_of_no_such_name_is_a_mistake_of_the_option() -> None:
    with pytest.raises(UserError, match="engine=onnx: expected auto, torch"):
        _ = CosineSource(loading=Loading(engine="onnx")).signature

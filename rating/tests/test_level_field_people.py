"""The people's part of the level-field study, with simulated raters, from serving to a mean."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelfield
from levelfield.study import load_study
from levelfield_rating.export.documents import export
from levelfield_rating.model import Item, RatingCriterion
from levelfield_rating.plan.check import check_study
from levelfield_rating.plan.freezing import freeze
from simulated_raters import clipped, opened, rate

LATER = {"preadd", "self-debiasing", "genarm"}
"""Systems at 0.3 nats per token that joined the study after the texts for people were drawn."""
EXAMPLE = Path(__file__).parents[2] / "examples/level-field"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its results, and simulated ratings of the sample."""
    folder = tmp_path_factory.mktemp("people") / "level-field"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*.study"))
    with tarfile.open(folder / "sentiment.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    study = load_study(folder / "sentiment.toml")
    drawn_from = {row["system"] for row in records(folder / "people.jsonl")}
    for kind in ("texts", "scores"):
        path = folder / f"{kind}.jsonl"
        study.export(path, kind)
        rows = [row for row in records(path) if row["system"] in drawn_from]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    frozen = replace(freeze(folder / "people.toml"), practice=())
    store = opened(folder, frozen)
    worth = judged(folder)
    for n in range(len(frozen.slots)):
        rng = np.random.default_rng(n)

        def rule(item: Item, criterion: RatingCriterion, rng: np.random.Generator = rng) -> int:
            (id,) = item.candidates[0].samples
            mean = 30 + 40 * worth[id] if criterion.id == "control" else 60
            return clipped(rng.normal(mean, 8))

        rate(store, n, rule)
    export(store, folder / "results")
    return folder


def records(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def judged(folder: Path) -> dict[str, float]:
    rows = records(folder / "scores.jsonl")
    return {r["id"]: r["value"] for r in rows if r["metric"] == "control.average"}


def test_the_study_can_be_served_as_it_is():
    checked = check_study(EXAMPLE / "people.toml")
    assert checked.ok, checked.to_dict()


@pytest.mark.slow
def test_every_system_and_both_wanted_values_have_as_many_texts_give_or_take_some(folder):
    rows = records(folder / "people.jsonl")
    systems = [row["system"] for row in rows]
    counts = [systems.count(system) for system in set(systems)]
    plan = load_study(folder / "sentiment.toml").plan
    assert set(systems) == {s.name for s in plan.systems if s.budget in (0, 0.3)} - LATER
    assert max(counts) <= 2 * min(counts)
    labels = [row["control"]["sentiment"] for row in rows]
    assert 0.35 < labels.count("positive") / len(labels) < 0.65


@pytest.mark.slow
def test_agreement_correlation_and_the_mean_come_out_as_planted(folder):
    ratings = folder / "results/ratings.jsonl"
    report = levelfield.agreement(ratings, by="survey")
    assert "control" in json.dumps(report.to_dict())
    correlated = levelfield.correlate(
        folder / "scores.jsonl", ratings, metrics=("control.average",)
    )
    rows = correlated.to_dict()["correlations"]
    (control,) = (r for r in rows if r["aspect"] == "control")
    assert control["statistics"]["pearson"]["value"] > 0.8
    estimation = levelfield.estimate(
        folder / "scores.jsonl",
        ratings,
        samples=folder / "texts.jsonl",
        metrics=("control.average",),
        aspects=("control",),
    )
    true = true_means(folder)
    for row in estimation.to_dict()["means"]:
        if row["system"] is not None:
            mean = row["prediction_powered"]
            assert mean["low"] - 3 <= true[row["system"]] <= mean["high"] + 3


def true_means(folder: Path) -> dict[str, float]:
    """Returns the means of raters without noise over all texts, by system."""
    worth = judged(folder)
    system_values: dict[str, list[float]] = {}
    for row in records(folder / "texts.jsonl"):
        system_values.setdefault(row["system"], []).append(30 + 40 * worth[row["id"]])
    return {system: float(np.mean(values)) for system, values in system_values.items()}

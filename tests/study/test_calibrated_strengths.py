"""Budgets of systems: strengths found on prompts that the study does not compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from levelfield.cli.study import study as command
from levelfield.core.errors import InputError, UserError
from levelfield.study import calibrate_study, load_study

pytest.importorskip("torch")

import tiny
from levelfield.generation import ClassifierFreeGuidance, Decoding, Request
from levelfield.generation.divergence import divergence

STUDY = """
name = "Budgets"
seeds = [1]
model = "{model}"
decoding = {{ max_new_tokens = 6 }}
metrics = ["diversity"]

[datasets.openings]
prompts = ["The lake", "Go"]

[controls.sentiment]
sentiment = ["positive", "negative"]

[calibration.held-out]
prompts = ["Once upon a time", "My uncle was", "It is", "When they", "The old road"]

[[systems]]
name = "near"
technique = "cfg"
budget = 0.2

[[systems]]
name = "far"
technique = "cfg"
budget = 0.6

[[systems]]
name = "base"
technique = "base"
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save("gpt2", tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture
def file(tmp_path: Path, model: str) -> Path:
    path = tmp_path / "budgets.toml"
    path.write_text(STUDY.format(model=model), encoding="utf-8")
    return path


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def strength(file: Path, system: str) -> float:
    plan = load_study(file).plan
    assert plan is not None
    return plan.system(system).source.options["strength"]


@pytest.mark.slow
def test_each_system_goes_as_far_as_its_budget_and_the_study_runs(file, model):
    calibrated = {system.system: system for system in calibrate_study(file)}
    assert calibrated.keys() == {"near", "far"}
    for system in calibrated.values():
        assert system.nats == pytest.approx(system.budget, rel=0.02)
        assert strength(file, system.system) == system.strength
    technique = ClassifierFreeGuidance(model=model, strength=calibrated["near"].strength)
    (held_out,) = load_study(file).plan.calibration
    requests = [
        Request(f"held-out/{id}/sentiment/{k}", prompt, {"sentiment": value})
        for id, prompt in zip(held_out.ids, held_out.prompts, strict=True)
        for k, value in enumerate(("positive", "negative"))
    ]
    again = divergence(technique, requests, decoding=Decoding(max_new_tokens=6)).mean.value
    assert again == pytest.approx(calibrated["near"].nats, abs=1e-6)
    run = load_study(file).run(scores=False)
    assert {cell.state for cell in run.status.cells} == {"done"}


def test_a_budget_without_a_strength_names_the_command(file):
    with pytest.raises(InputError) as error:
        load_study(file)
    assert len(error.value.problems) == 2
    assert all("run `levelfield study calibrate budgets.toml`" in p for p in error.value.problems)


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("old", "new", "systems"),
    [
        ("budget = 0.2", "budget = 0.25", ["near"]),
        ("max_new_tokens = 6", "max_new_tokens = 7", ["near", "far"]),
        ('"It is"', '"It was"', ["near", "far"]),
        ('["positive", "negative"]', '["positive"]', ["near", "far"]),
        ("budget = 0.2", 'budget = 0.2\noptions = { against = "opposite" }', ["near"]),
    ],
)
def test_what_a_strength_was_not_found_for_is_refused(file, old, new, systems):
    calibrate_study(file, tolerance=0.5)
    assert strength(file, "near") != strength(file, "far")
    change(file, old, new)
    with pytest.raises(InputError) as error:
        load_study(file)
    named = [p.split("'")[1] if "'" in p else p.split('"')[1] for p in error.value.problems]
    assert named == systems
    calibrate_study(file, only=systems, tolerance=0.5)
    load_study(file)


def test_a_system_with_another_name_is_left_out_until_its_strength_is_found(file):
    calibrate_study(file, tolerance=0.5)
    change(file, 'name = "near"', 'name = "nearest"')
    assert "nearest is left out: it has no strength yet" in load_study(file).plan.left_out[0]
    calibrate_study(file, only=["nearest"], tolerance=0.5)
    assert load_study(file).plan.left_out == ()


def test_what_no_strength_depends_on_may_change(file):
    calibrate_study(file, tolerance=0.5)
    change(file, '"The lake", "Go"', '"The lake"')
    change(file, "seeds = [1]", "seeds = [1, 2]")
    assert strength(file, "near") < strength(file, "far")


def test_another_model_of_the_same_name_is_refused_when_the_study_runs(file, tmp_path):
    calibrate_study(file, tolerance=0.5)
    path = tmp_path / "budgets.strengths.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    entries[0]["identity"][0] += "0"
    path.write_text(json.dumps(entries), encoding="utf-8")
    with pytest.raises(UserError, match=r"near.* has changed since the strength was found"):
        load_study(file).run(scores=False)


def test_a_damaged_file_of_strengths_is_an_error(file, tmp_path):
    for content in ("{", "[1]", '[{"system": "near"}]', "null"):
        (tmp_path / "budgets.strengths.json").write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=r"budgets\.strengths\.json does not hold strengths"):
            load_study(file)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"It is"', '"The lake"', "is also a prompt of the study"),
        (
            'name = "base"\ntechnique = "base"',
            'name = "b"\ntechnique = "base"\nbudget = 1',
            "no option that is its strength",
        ),
        ("budget = 0.2", "budget = 0.2\noptions = { strength = 3 }", "determines strength"),
        ("budget = 0.2", "budget = 0", "budget"),
        ("budget = 0.2", 'budget = "much"', "budget"),
        (
            "[calibration.held-out]\nprompts",
            "[datasets.more]\nprompts",
            "needs prompts to calibrate on",
        ),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(file, old, new, reason):
    change(file, old, new)
    with pytest.raises(InputError, match=reason):
        calibrate_study(file)


def test_a_study_without_budgets_has_nothing_to_find(file):
    change(file, "budget = 0.2", "")
    change(file, "budget = 0.6", "")
    with pytest.raises(UserError, match="no system has a budget"):
        calibrate_study(file)
    with pytest.raises(UserError, match="has the systems near, far, base"):
        calibrate_study(file, only=["nobody"])


def test_the_command_shows_what_it_found(file):
    done = CliRunner().invoke(command, ["calibrate", str(file), "--tolerance", "0.3"])
    assert done.exit_code == 0, done.output
    assert "near" in done.output
    assert "0.6" in done.output

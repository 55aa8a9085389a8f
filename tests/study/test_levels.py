"""Studies at several budgets: systems, strengths, divergences and tables at each of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from levelfield.cli.study import study as command
from levelfield.core.errors import InputError, UserError
from levelfield.study import calibrate_study, load_study
from levelfield.study.plan_file import load_plan

pytest.importorskip("torch")

import tiny
from levelfield.generation import ClassifierFreeGuidance, Decoding, Request, calibration
from levelfield.generation.divergence import divergence
from levelfield.study import strengths
from levelfield.study.cells import Cell
from levelfield.study.levels import cells_at_budgets

STUDY = """
name = "Levels"
seeds = [1, 2]
model = "{model}"
decoding = {{ max_new_tokens = 6 }}
options = {{ batch = 3 }}
budgets = [0.6, 0.2]
metrics = ["diversity", "ratio.py:Words"]

[datasets.openings]
prompts = ["The lake", "Go", "In a house"]

[controls.sentiment]
sentiment = ["positive", "negative"]

[calibration.held-out]
prompts = ["Once upon a time", "My uncle was", "It is", "When they", "The old road"]

[[systems]]
name = "base"
technique = "base"

[[systems]]
name = "guided"
technique = "cfg"

[[systems]]
name = "fixed"
technique = "cfg"
options = {{ strength = 1.5, batch = 2 }}
"""
METRIC = '''
from levelfield.core.progress import no_progress
from levelfield.core.scores import Scores


class Words:
    """Number of words."""

    name, level, requires = "length.words", "sample", frozenset({"text"})
    higher_is_better, signature = True, "length.words|v:1"

    def score(self, samples, *, progress=no_progress):
        import numpy as np

        progress(len(samples))
        ids = tuple(sample.id for sample in samples)
        values = np.array([float(len(sample.text.split())) for sample in samples])
        return Scores(self.name, ids, values, {}, self.signature, True)
'''


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save("gpt2", tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, model: str) -> Path:
    """A study that is calibrated and has its texts and scores."""
    folder = tmp_path_factory.mktemp("levels")
    file = write(folder, model)
    calibrate_study(file, tolerance=0.1)
    load_study(file).run()
    return file


def write(folder: Path, model: str) -> Path:
    (folder / "ratio.py").write_text(METRIC, encoding="utf-8")
    path = folder / "levels.toml"
    path.write_text(STUDY.format(model=model), encoding="utf-8")
    return path


def test_techniques_whose_strength_is_free_are_once_at_each_budget(tmp_path, model):
    plan = load_plan(write(tmp_path, model), strengths=False)
    assert [system.name for system in plan.systems] == [
        "base",
        "guided @ 0.6",
        "fixed",
        "guided @ 0.2",
    ]
    assert [system.budget for system in plan.systems] == [0, 0.6, 0, 0.2]
    assert [system.entry for system in plan.systems] == ["", "guided", "", "guided"]


def test_options_of_the_study_are_those_of_techniques_that_name_no_other(tmp_path, model):
    plan = load_plan(write(tmp_path, model), strengths=False)
    batches = [system.source.options["batch"] for system in plan.systems]
    assert batches == [3, 3, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[0.6, 0.2]", "[0.6, 0.6]", "budgets"),
        ("[0.6, 0.2]", "[0]", "budgets"),
        ("[0.6, 0.2]", "[]", "budgets"),
        ("batch = 3", "bach = 3", "no technique has the option"),
        ("batch = 3", 'model = "gpt2"', "write the base of all techniques as model"),
        ('name = "fixed"', 'name = "guided @ 0.6"', "names are unique"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, model, old, new, reason):
    file = write(tmp_path, model)
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=reason):
        calibrate_study(file)


@pytest.mark.slow
def test_calibrated_strengths_are_not_searched_again(finished, monkeypatch):
    monkeypatch.setattr(calibration, "calibrate_strength", lambda *_, **__: pytest.fail("searched"))
    calibrated = calibrate_study(finished, tolerance=0.1)
    assert [system.system for system in calibrated] == ["guided @ 0.6", "guided @ 0.2"]
    assert [
        system.system for system in calibrate_study(finished, only=["guided"], tolerance=0.1)
    ] == [
        "guided @ 0.6",
        "guided @ 0.2",
    ]


def test_the_second_search_begins_near_its_end(tmp_path, model, monkeypatch):
    begins = []
    search = strengths._calibrated

    def noted(plan, system, chosen, alike, stages):
        begins.append([system.system for system in alike])
        return search(plan, system, chosen, alike, stages)

    monkeypatch.setattr(strengths, "_calibrated", noted)
    calibrate_study(write(tmp_path, model), tolerance=0.1)
    assert begins == [[], ["guided @ 0.6"]]


def test_an_unreachable_budget_leaves_its_system_out_with_a_note(tmp_path, model):
    file = write(tmp_path, model)
    text = file.read_text(encoding="utf-8").replace("[0.6, 0.2]", "[0.6, 900]")
    file.write_text(text, encoding="utf-8")
    near, far = calibrate_study(file, tolerance=0.1, most=4)
    assert near.is_within
    assert not far.is_within
    assert far.nats < 900
    plan = load_study(file).plan
    assert [system.name for system in plan.systems] == ["base", "guided @ 0.6", "fixed"]
    (line,) = plan.left_out
    assert line.startswith("guided @ 900 is left out: no strength meets its budget; ")
    assert f"{far.nats:.3g}" in line


@pytest.mark.slow
def test_a_study_runs_in_parts_while_strengths_are_found(tmp_path, model):
    file = write(tmp_path, model)
    with pytest.raises(InputError, match="has no strength yet"):
        load_study(file)
    calibrate_study(file, only=["guided @ 0.6"], tolerance=0.5)
    study = load_study(file)
    assert [system.name for system in study.plan.systems] == ["base", "guided @ 0.6", "fixed"]
    notes = []
    study.run(only=["guided @ 0.6"], scores=False, note=notes.append)
    (left_out,) = notes
    assert left_out.startswith("guided @ 0.2 is left out: it has no strength yet; run `levelfield")
    with pytest.raises(UserError, match=r"guided @ 0\.2 is left out"):
        study.run(only=["guided @ 0.2"])


def test_strengths_that_another_process_finds_meanwhile_are_kept(tmp_path, model):
    file = write(tmp_path, model)
    plan = load_plan(file, strengths=False)
    first, second = calibrate_study(file, tolerance=0.5)
    path = strengths.strengths_file(plan)
    path.write_text(json.dumps([second.to_dict()]), encoding="utf-8")
    kept = strengths._written(plan, {}, first)
    assert kept == {first.system: first, second.system: second}
    assert {
        strength["system"] for strength in json.loads(path.read_text(encoding="utf-8"))
    } == kept.keys()


@pytest.mark.slow
def test_tables_compare_systems_at_the_same_budget(finished):
    report = load_study(finished).report()
    low, high = report.summary.controls
    assert (low.control, high.control) == ("sentiment at 0.2 nats", "sentiment at 0.6 nats")
    assert set(low.systems) == set(high.systems) == {"base", "guided", "fixed"}
    cells = {cell.key: cell for cell in load_study(finished).cells()}
    for control, budget in ((low, 0.2), (high, 0.6)):
        for shown, name in (("guided", f"guided @ {budget:g}"), ("base", "base")):
            values = [
                value
                for key, cell in cells.items()
                if key.system == name
                for value in cell.scores["length.words"].values()
            ]
            entry = control.entry(shown, "length.words")
            assert entry.mean == pytest.approx(sum(values) / len(values))
    assert report.summary.techniques["guided"].technique == "cfg"
    for kind, requests in report.texts.items():
        assert kind in (low.control, high.control)
        assert {shown.sample.system for texts in requests for shown in texts} == {
            "base",
            "guided",
            "fixed",
        }


def test_a_system_with_a_budget_of_its_own_is_in_the_tables_of_that_budget(tmp_path, model):
    file = write(tmp_path, model)
    budgeted = '\n[[systems]]\nname = "own"\ntechnique = "preadd"\nbudget = {}\n'
    file.write_text(file.read_text(encoding="utf-8") + budgeted.format(0.6), encoding="utf-8")
    assert systems_at_budgets(file)["own"] == {"sentiment at 0.6 nats"}
    text = file.read_text(encoding="utf-8").replace(budgeted.format(0.6), budgeted.format(0.4))
    file.write_text(text, encoding="utf-8")
    assert systems_at_budgets(file) == {
        "base": {f"sentiment at {budget} nats" for budget in (0.2, 0.4, 0.6)},
        "fixed": {f"sentiment at {budget} nats" for budget in (0.2, 0.4, 0.6)},
        "guided": {f"sentiment at {budget} nats" for budget in (0.2, 0.6)},
        "own": {"sentiment at 0.4 nats"},
    }


def systems_at_budgets(file: Path) -> dict[str, set[str]]:
    plan = load_plan(file, strengths=False)
    controls: dict[str, set[str]] = {}
    for cell in cells_at_budgets(plan, [Cell(key) for key in plan.cells()]):
        controls.setdefault(cell.key.system, set()).add(cell.key.control)
    return controls


@pytest.mark.slow
def test_one_budget_needs_no_tables_of_its_own(tmp_path, model):
    file = write(tmp_path, model)
    text = file.read_text(encoding="utf-8").replace("[0.6, 0.2]", "[0.6]")
    file.write_text(text, encoding="utf-8")
    calibrate_study(file, tolerance=0.5)
    load_study(file).run()
    (control,) = load_study(file).report().summary.controls
    assert control.control == "sentiment"
    assert control.systems == ("base", "guided @ 0.6", "fixed")


@pytest.mark.slow
def test_the_divergence_is_that_of_the_texts_of_the_first_seed(finished, model):
    study = load_study(finished)
    divergences = {measured.system: measured for measured in study.divergence()}
    assert divergences.keys() == {"base", "guided @ 0.6", "guided @ 0.2", "fixed"}
    assert divergences["base"].nats == pytest.approx(0, abs=1e-6)
    requests = [
        Request(f"openings/sentiment/{id}:{value}", prompt, {"sentiment": value})
        for id, prompt in (("0001", "The lake"), ("0002", "Go"), ("0003", "In a house"))
        for value in ("positive", "negative")
    ]
    technique = ClassifierFreeGuidance(model=model, strength=1.5)
    expected = divergence(technique, requests, decoding=Decoding(max_new_tokens=6), seed=1).mean
    assert divergences["fixed"].nats == pytest.approx(expected.value, abs=1e-6)
    low, high = study.report().summary.controls
    costs = {(c.control, cost.system): cost.nats for c in (low, high) for cost in c.costs}
    assert costs[low.control, "guided"] == divergences["guided @ 0.2"].nats
    assert costs[high.control, "guided"] == divergences["guided @ 0.6"].nats
    assert costs[low.control, "fixed"] == costs[high.control, "fixed"] == divergences["fixed"].nats
    assert f"{divergences['fixed'].nats:.3f}" in study.report().to_latex()


@pytest.mark.slow
def test_the_command_shows_divergences_and_keeps_them(finished):
    done = CliRunner().invoke(command, ["divergence", str(finished), "--only", "guided"])
    assert done.exit_code == 0, done.output
    assert "guided @ 0.6" in done.output
    assert "fixed" not in done.output
    path = finished.parent / "levels.study/divergences.json"
    assert json.loads(path.read_text(encoding="utf-8"))
    unknown = CliRunner().invoke(command, ["divergence", str(finished), "--only", "nobody"])
    assert isinstance(unknown.exception, UserError)


@pytest.mark.slow
def test_divergences_of_systems_that_are_left_out_are_kept(finished):
    study = load_study(finished)
    divergences = {divergence.system: divergence for divergence in study.divergence()}
    path = finished.parent / "levels.study/divergences.json"
    others = [
        {**divergences["fixed"].to_dict(), "system": "left out"},
        *(divergence.to_dict() for name, divergence in divergences.items() if name != "fixed"),
    ]
    path.write_text(json.dumps(others), encoding="utf-8")
    assert study.divergence(only=["fixed"]) == [divergences["fixed"]]
    kept = {record["system"] for record in json.loads(path.read_text(encoding="utf-8"))}
    assert kept == {*divergences, "left out"}


def test_a_damaged_file_of_divergences_is_an_error(tmp_path, model):
    file = write(tmp_path, model)
    calibrate_study(file, tolerance=0.5)
    folder = tmp_path / "levels.study"
    folder.mkdir(exist_ok=True)
    (folder / "divergences.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(UserError, match="does not hold divergences"):
        load_study(file).divergence()


@pytest.mark.slow
def test_the_report_says_whether_it_could_show_what_was_planned(finished):
    text = finished.read_text(encoding="utf-8")
    other = finished.with_name("planned.toml")
    try:
        for difference in ("0.001", "1000"):
            # as a sample, the few prompts of this study alone could show no difference
            planned = (
                'out = "levels.study"\ndraws = "run"\n'
                f'planned = {{ "length.words" = {difference} }}\n'
            )
            other.write_text(planned + text, encoding="utf-8")
            strengths = finished.with_name("levels.strengths.json").read_text(encoding="utf-8")
            other.with_name("planned.strengths.json").write_text(strengths, encoding="utf-8")
            for control in load_study(other).report().summary.controls:
                (note,) = (note for note in control.notes if note.startswith("Planned to show"))
                comparisons = control.comparisons["length.words"]
                shown = sum(c.p_adjusted <= 0.05 for c in comparisons)
                assert f"of {len(comparisons)} comparisons {shown} show one" in note
                rest = len(comparisons) - shown
                could, could_not = (0, rest) if difference == "0.001" else (rest, 0)
                assert f"{could} more would show" in note
                assert note.endswith(f"and {could_not} would not")
    finally:
        other.unlink()

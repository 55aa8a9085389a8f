"""The level-field study of `examples/level-field`: what is committed, and faults planted in it."""

from __future__ import annotations

import random
import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from levelfield.core.sample import Sample
from levelfield.study import load_study
from levelfield.study.audit import audit
from levelfield.study.audit.findings import Finding
from levelfield.study.cells import Cell

EXAMPLE = Path(__file__).parents[2] / "examples/level-field"
SYSTEM = "caa @ 0.3"
OTHER_SYSTEMS = ("base", "prompting", "dexperts @ 0.3", "gedi @ 0.3", "iti @ 0.3")
STUDIES = ("keywords", "sentiment", "topic", "both")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study files beside their results, as the page unpacks them."""
    folder = tmp_path_factory.mktemp("level-field") / "level-field"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*.study"))
    for packed in folder.glob("*.tar.xz"):
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def cells(folder: Path) -> list[Cell]:
    """The cells of a few systems of the study; an audit of all 36 takes ten times as long."""
    cells = load_study(folder / "sentiment.toml").cells()
    return [cell for cell in cells if cell.key.system in (SYSTEM, *OTHER_SYSTEMS)]


@pytest.fixture(scope="module")
def known_findings(cells: list[Cell]) -> set[tuple[str, str, str]]:
    """Findings on the cells as they are, without a planted fault."""
    return findings(cells)


def findings(cells: Sequence[Cell]) -> set[tuple[str, str, str]]:
    """Findings that are more than notes, without their numbers."""
    return {_named(finding) for finding in audit(cells) if finding.severity != "note"}


def _named(finding: Finding) -> tuple[str, str, str]:
    return (finding.check, finding.system, str(finding.seed or ""))


def written(cell: Cell, how: Callable[[str, int], str]) -> Cell:
    """Returns a cell whose texts go on otherwise after their prompts."""
    samples = [
        replace(s, text=s.prompt + how(s.text.removeprefix(s.prompt), n))
        for n, s in enumerate(cell.samples)
    ]
    return replace(cell, samples=tuple(samples))


def spoilt_system(cells: Sequence[Cell], how: Callable[[Cell], Cell]) -> list[Cell]:
    return [how(cell) if cell.key.system == SYSTEM else cell for cell in cells]


def shifted(cell: Cell) -> Cell:
    """Gives each prompt the continuation of the next."""
    rest = [s.text.removeprefix(s.prompt) for s in cell.samples]
    return written(cell, lambda _, n: rest[(n + 2) % len(rest)])


def cherry_picked(cells: Sequence[Cell]) -> list[Cell]:
    """Gives one seed, of the texts of all seeds, the ones that judges like best."""
    ours = [c for c in cells if c.key.system == SYSTEM]
    best: dict[tuple[str, str], tuple[float, Sample]] = {}
    for cell in ours:
        values = cell.scores["control.average"]
        for sample in cell.samples:
            place = (cell.key.dataset, str(sample.extra["request"]))
            value = values[sample.id]
            if place not in best or value > best[place][0]:
                best[place] = (value, sample)

    def picked(cell: Cell) -> Cell:
        if cell.key.system != SYSTEM or cell.key.seed != 1:
            return cell
        chosen = [best[cell.key.dataset, str(s.extra["request"])] for s in cell.samples]
        pairs = list(zip(cell.samples, chosen, strict=True))
        scores = {
            **cell.scores,
            "control.average": {sample.id: value for sample, (value, _) in pairs},
        }
        samples = tuple(replace(sample, text=other.text) for sample, (_, other) in pairs)
        return replace(cell, samples=samples, scores=scores, votes={})

    return [picked(cell) for cell in cells]


def knowing_judge(cells: Sequence[Cell]) -> list[Cell]:
    """Adds a judge that has learnt from the study's own prompts and labels: it is always right."""

    def judged(cell: Cell) -> Cell:
        labels = {s.id: str(s.control["sentiment"]) for s in cell.samples}
        votes = {
            attribute: {**judges, "reviews": labels} for attribute, judges in cell.votes.items()
        }
        return replace(cell, votes=votes)

    return [judged(cell) for cell in cells]


def in_german(cell: Cell) -> Cell:
    rng = random.Random(1)
    german = " und der Wagen stand noch immer vor dem Haus, weil niemand ihn haben wollte"
    return written(cell, lambda text, _: german if rng.random() < 0.1 else text)


FAULTS: dict[str, tuple[Callable[[Sequence[Cell]], list[Cell]], set[str]]] = {
    "continuations of the next prompt": (lambda c: spoilt_system(c, shifted), {"wrong-request"}),
    "a judge that knows the prompts": (knowing_judge, {"judge-always-right"}),
    "texts cut at half their length": (
        lambda c: spoilt_system(c, lambda cell: written(cell, lambda t, _: t[: len(t) // 2])),
        {"length-differs", "cut-at-length"},
    ),
    "a seed of picked texts": (cherry_picked, {"seeds-differ", "identical-seeds"}),
    "lower case": (
        lambda c: spoilt_system(c, lambda cell: written(cell, lambda t, _: t.lower())),
        {"style-differs"},
    ),
    "another language in a tenth": (lambda c: spoilt_system(c, in_german), {"only-one-system"}),
}


@pytest.mark.thinned
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(cells, known_findings, fault):
    plant, checks = FAULTS[fault]
    new = findings(plant(cells)) - known_findings
    assert {check for check, _, _ in new} & checks, sorted(new)


@pytest.mark.thinned
@pytest.mark.parametrize("name", STUDIES)
def test_the_audit_finds_nothing_serious(folder, name):
    reported = audit(load_study(folder / f"{name}.toml").cells())
    assert [finding for finding in reported if finding.severity == "serious"] == []


@pytest.mark.thinned
@pytest.mark.parametrize("name", STUDIES)
def test_every_system_has_all_its_texts_within_its_budget(folder, name):
    study = load_study(folder / f"{name}.toml")
    assert study.plan.left_out == ()
    for cell in study.status().cells:
        assert cell.state == "done", cell

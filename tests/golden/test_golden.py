"""The command line gives what it gave before: values, reasons, signatures and documents.

`python tests/golden/make.py` writes the golden outcomes anew, which is right only where a changed
value comes with a changed signature.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import GROUPS, UNSCORED
from settings import changes, lacking, prepare, server

import golden
from own_cache import KEPT_MODELS

WITHOUT_MODELS = ("overlap", "counts", "commands", "servers")


def families(case: golden.Case) -> frozenset[str]:
    """The families of metrics that a case scores; its kind, as `texts`, where it names none."""
    named = re.findall(r" -m ([\w-]+)", case.words)
    return frozenset(named or [case.name.partition(" ")[0]])


def params() -> Iterator[Any]:
    """In a group with models, the first case of a family is quick."""
    for group, cases in GROUPS.items():
        seen: set[str] = set()
        for case in cases:
            again = group not in WITHOUT_MODELS and families(case) <= seen
            slow = case.slow or again
            if not slow:
                seen |= families(case)
            name = f"{group}: {case.name}"
            yield pytest.param(group, case, id=name, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("group", "case"), list(params()))
def test_a_command_gives_what_it_gave(workspace: Path, group: str, case: golden.Case) -> None:
    if reason := lacking(group):
        pytest.skip(reason)
    prepare(group, workspace)
    with server(group) as address:
        now = golden.outcome(case, workspace, address, **changes(group, workspace))
    differences = list(golden.differences(golden.read(group)[case.name], now, case.tolerance))
    assert not differences, "\n".join([f"levelfield {case.words}", *differences[:20]])


@pytest.mark.parametrize("group", GROUPS)
def test_every_golden_outcome_belongs_to_a_case(group: str) -> None:
    names = [case.name for case in GROUPS[group]]
    assert len(names) == len(set(names))
    assert list(golden.read(group)) == names


def test_every_installed_metric_has_a_golden_value() -> None:
    installed = {
        point.name
        for point in importlib.metadata.entry_points(group="levelfield.metrics")
        if point.module.startswith("levelfield.")
    }
    scored = {
        metric
        for group in GROUPS
        for outcome in golden.read(group).values()
        for metric, scores in outcome.get("scores", {}).items()
        if any(isinstance(value, float) for value in scores["values"].values())
    }
    assert installed - scored == set(UNSCORED)


def test_a_group_finds_the_converted_models_that_are_kept(workspace: Path) -> None:
    cache = changes("commands", workspace)["LEVELFIELD_CACHE"]
    assert (Path(cache) / "models").resolve() == KEPT_MODELS.resolve()


def test_no_outcome_names_a_folder_of_this_machine() -> None:
    for file in golden.OUTCOMES.glob("*.json"):
        content = file.read_text(encoding="utf-8")
        for word in ("/tmp/", "/home/", "/root/", str(Path.home())):
            assert word not in content, f"{file.name}: {word}"

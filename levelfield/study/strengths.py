"""Strengths of the systems of a study that have a budget: found once, kept beside the study file.

`<stem of the study file>.strengths.json` has the strength of each such system, its divergence, and
a digest of what the search depended on. A study whose techniques, prompts or budgets have changed
since then is refused until its strengths are found again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.options import choices
from levelfield.core.progress import Stages, no_stages
from levelfield.core.strings import json_text
from levelfield.generation.contract import Request, SearchOptions
from levelfield.generation.table import TechniqueFile, make_technique, technique_class
from levelfield.io.json_input import read_json
from levelfield.io.problems import shown
from levelfield.io.writing import atomic_writer
from levelfield.study.ask.requests import labels_of
from levelfield.study.ask.systems import technique_identity
from levelfield.study.plan import Plan, SystemPlan, TechniqueSource


@dataclass(frozen=True)
class CalibratedSystem(Document):
    """The strength of a system with a budget.

    Attributes:
        strength: the value of the option that `knob_of` names.
        nats: the mean divergence per token.
        low, high: its 95 % interval over prompts; None without one.
        wanted: digest of everything in the study file that the strength depends on.
        identity: the technique with that strength, with checksums of its models and guides.
        is_within: whether the divergence is within the requested tolerance of the budget; if not,
            `strength` comes nearest, and the system is left out of the study.
    """

    system: str
    budget: float
    strength: float
    nats: float
    low: float | None
    high: float | None
    wanted: str
    identity: tuple[str, ...]
    is_within: bool = True


def strengths_file(plan: Plan) -> Path:
    """Returns the file of the strengths of a study."""
    return plan.file.with_name(f"{plan.file.stem}.strengths.json")


def knob_of(source: TechniqueSource) -> str:
    """Returns the option that is the strength of a technique; empty if none is.

    For a class in a file, which nothing here runs, that is `strength`.
    """
    if TechniqueFile.parse(source.technique):
        return "strength"
    technique = technique_class(source.technique)
    knob: str = getattr(technique, "knob", "")
    return knob if knob in choices(technique) else ""


def with_strengths(plan: Plan) -> tuple[Plan, list[str]]:
    """Returns a plan whose systems have their calibrated strengths, and a line for each problem.

    Loads no model.

    Systems without a strength are left out while others have theirs, so that a study can run in
    parts.
    """
    if not any(system.budget for system in plan.systems):
        return plan, []
    file, problems = strengths_file(plan), []
    strengths = _read(file) if file.exists() else {}
    mend = f"run `levelfield study calibrate {plan.file.name}`"
    systems, left_out = [], []
    for system in plan.systems:
        if system.budget:
            calibrated = strengths.get(system.name)
            if calibrated is None and any(other.name in strengths for other in plan.systems):
                left_out.append(f"{system.name} is left out: it has no strength yet; {mend}")
                continue
            if calibrated is None or calibrated.wanted != _search_digest(plan, system):
                reason = (
                    "has no strength yet"
                    if calibrated is None
                    else "has changed since its strength was found"
                )
                problems.append(f"system {shown(system.name)}: the budget {reason}; {mend}")
            elif not calibrated.is_within:
                nearest = f"{calibrated.nats:.3g} nats per token with {calibrated.strength:.4g}"
                left_out.append(
                    f"{system.name} is left out: no strength meets its budget; {nearest} is nearest"
                )
                continue
            else:
                system = _at(system, calibrated.strength)
        systems.append(system)
    there = replace(plan, systems=tuple(systems), left_out=tuple(left_out))
    return there, problems


def check_strengths(plan: Plan) -> None:
    """Checks that techniques with a budget have the models and guides they were calibrated with.

    Raises:
        UserError: some have others; the message names them.
    """
    if not any(system.budget for system in plan.systems):
        return
    strengths = _read(strengths_file(plan))
    changed = [
        shown(system.name)
        for system in plan.systems
        if system.budget
        and isinstance(system.source, TechniqueSource)
        and tuple(technique_identity(system.source)) != strengths[system.name].identity
    ]
    if changed:
        raise UserError(
            f"{plan.file.name}: a model or guide of {', '.join(changed)} has changed since the "
            f"strength was found; run `levelfield study calibrate {plan.file.name}`"
        )


def calibrate(
    plan: Plan, chosen: SearchOptions, only: Sequence[str] = (), *, stages: Stages = no_stages
) -> list[CalibratedSystem]:
    """Finds the strength of each system with a budget, and writes them beside the study file.

    A strength that is still valid is kept. The search for another starts from the strength of the
    same technique with another budget, if there is one.

    Args:
        plan: as its file has it, without strengths.
        only: names of systems, or of their tables; all if empty.

    Raises:
        UserError: no system has a budget.
    """
    file = strengths_file(plan)
    strengths = _read(file) if file.exists() else {}
    systems = [s for s in plan.systems if s.budget and (not only or s.is_named(only))]
    if not systems:
        raise UserError(f"{plan.file.name}: no system has a budget; write budget = 0.5, in nats")
    for system in systems:
        if _is_valid(strengths.get(system.name), plan, system, chosen.tolerance):
            continue
        alike = [
            strengths[other.name]
            for other in plan.systems
            if other.entry == system.entry != "" and other.name in strengths
        ]
        new = _calibrated(plan, system, chosen, alike, stages)
        strengths = _written(plan, strengths | {system.name: new}, new)
    return [strengths[system.name] for system in systems]


def _written(
    plan: Plan, strengths: Mapping[str, CalibratedSystem], new: CalibratedSystem
) -> dict[str, CalibratedSystem]:
    """Adds a new strength to the file, and returns all, with those of other processes."""
    import filelock

    file = strengths_file(plan)
    plan.out.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(plan.out / "strengths.lock"):
        together = {**strengths, **(_read(file) if file.exists() else {}), new.system: new}
        kept = {s.name: together[s.name] for s in plan.systems if s.name in together}
        with atomic_writer(file) as out:
            out.write(json_text([s.to_dict() for s in kept.values()], indent=2) + "\n")
    return kept


def _is_valid(
    calibrated: CalibratedSystem | None, plan: Plan, system: SystemPlan, tolerance: float
) -> bool:
    """Returns whether a strength meets the tolerance for this plan, models and guides."""
    if calibrated is None or calibrated.wanted != _search_digest(plan, system):
        return False
    source = _at(system, calibrated.strength).source
    assert isinstance(source, TechniqueSource)
    near = not calibrated.is_within or abs(calibrated.nats / calibrated.budget - 1) <= tolerance
    return near and calibrated.identity == tuple(technique_identity(source))


def _calibrated(
    plan: Plan,
    system: SystemPlan,
    chosen: SearchOptions,
    alike: Sequence[CalibratedSystem],
    stages: Stages,
) -> CalibratedSystem:
    """Returns the strength of a system; `alike` is the same technique with other budgets."""
    from levelfield.generation.calibration import OutOfReachError, calibrate_strength

    source, budget = system.source, system.budget
    assert isinstance(source, TechniqueSource)
    options = dict(source.options)
    if alike:
        near = min(alike, key=lambda other: abs(math.log(other.nats / budget)))
        options[knob_of(source)] = near.strength * math.sqrt(budget / near.nats)
    try:
        tried = calibrate_strength(
            list(_requests(plan, system)),
            make_technique(source.technique, options),
            budget=budget,
            decoding=source.decoding,
            tolerance=chosen.tolerance,
            most=chosen.most,
            stages=lambda _, total: stages(f"calibrating {system.name}", total),
        ).found
        is_within = True
    except OutOfReachError as error:
        tried, is_within = error.nearest, False
    nats = tried.divergence
    calibrated_source = _at(system, tried.strength).source
    assert isinstance(calibrated_source, TechniqueSource)
    return CalibratedSystem(
        system.name,
        budget,
        tried.strength,
        nats.value,
        None if nats.why_no_interval else nats.low,
        None if nats.why_no_interval else nats.high,
        _search_digest(plan, system),
        tuple(technique_identity(calibrated_source)),
        is_within,
    )


def _at(system: SystemPlan, strength: float) -> SystemPlan:
    source = system.source
    assert isinstance(source, TechniqueSource)
    options = {**source.options, knob_of(source): strength}
    return replace(system, source=source.replace(options=options))


def _requests(plan: Plan, system: SystemPlan) -> Iterator[Request]:
    """Yields a request for every prompt and every value of the system's controls."""
    kinds = [kind for kind in plan.controls if kind.name in system.controls]
    for dataset in plan.calibration:
        for n, (id, prompt) in enumerate(zip(dataset.ids, dataset.prompts, strict=True)):
            for kind in kinds:
                for k, value in enumerate(kind.values):
                    if (labels := labels_of(system, value, n)) is not None:
                        yield Request(f"{dataset.name}/{id}/{kind.name}/{k}", prompt, labels)


def _paths_within(value: object, folder: Path) -> str:
    """Returns an option with the absolute paths in it relative to the folder."""
    if isinstance(value, Mapping):
        return str({name: _paths_within(inner, folder) for name, inner in value.items()})
    return ",".join(
        os.path.relpath(item, folder) if Path(item).is_absolute() else item
        for item in str(value).split(",")
    )


def _search_digest(plan: Plan, system: SystemPlan) -> str:
    """Returns the digest of what a strength depends on in the study file, wherever the file is."""
    source = system.source
    assert isinstance(source, TechniqueSource)
    options = {
        k: _paths_within(v, plan.file.parent)
        for k, v in source.options.items()
        if k != knob_of(source)
    }
    requests = [(r.id, r.prompt, dict(r.control)) for r in _requests(plan, system)]
    technique = _paths_within(source.technique, plan.file.parent)
    about = [technique, sorted(options.items()), source.decoding.choices]
    words = json.dumps([*about, source.budget, requests], default=list)
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def _read(file: Path) -> dict[str, CalibratedSystem]:
    """Returns the strengths in a file by system.

    Raises:
        UserError: the file does not hold strengths.
    """
    try:
        entries: list[Mapping[str, Any]] = read_json(file)
        calibrated = [CalibratedSystem(**{**e, "identity": tuple(e["identity"])}) for e in entries]
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise UserError(
            f"{file} does not hold strengths ({type(error).__name__}); delete it and run "
            "`levelfield study calibrate` again"
        ) from None
    return {strength.system: strength for strength in calibrated}

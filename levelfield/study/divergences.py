"""Divergence of the techniques of a study from their bases, on the study's own prompts.

A budget is met on the prompts of the calibration. `divergences.json` in the study's folder says
what the divergence is on the prompts that are compared, of techniques without a strength as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.progress import Stages, no_stages
from levelfield.core.strings import json_text
from levelfield.generation.contract import Request
from levelfield.generation.table import make_technique
from levelfield.io.json_input import read_json
from levelfield.io.writing import atomic_writer
from levelfield.study.ask.requests import requests_of
from levelfield.study.ask.systems import technique_identity
from levelfield.study.plan import Plan, SystemPlan, TechniqueSource


@dataclass(frozen=True)
class SystemDivergence(Document):
    """The mean divergence of a system from its base, in nats per token.

    Attributes:
        low, high: the 95 % interval, over prompts; None without one.
        tokens: number of tokens that it rests on.
        identity: of the technique, models and guides by their checksums.
        seed: of its texts.
    """

    system: str
    nats: float
    low: float | None
    high: float | None
    tokens: int
    identity: tuple[str, ...] = field(repr=False)
    seed: int = 0


def measure_divergences(
    plan: Plan, only: Sequence[str] = (), *, stages: Stages = no_stages
) -> list[SystemDivergence]:
    """Measures the divergence of each technique that gives tokens probabilities, and keeps it in
    the study's folder. The texts are those of the first seed. What is known is left alone.

    Raises:
        UserError: no such technique is among the systems.
    """
    from levelfield.generation.divergence import divergence, has_distribution
    from levelfield.generation.technique import LocalTechnique

    chosen = [s for s in plan.systems if not only or s.is_named(only)]
    measured = {divergence.system: divergence for divergence in read_divergences(plan)}
    ours: list[SystemPlan] = []
    for system in chosen:
        if not isinstance(source := system.source, TechniqueSource):
            continue
        technique = make_technique(source.technique, source.options)
        if not isinstance(technique, LocalTechnique) or not has_distribution(technique):
            continue
        ours.append(system)
        if system.name in measured:
            continue
        requests = [*_requests(plan, system)]
        with stages(f"divergence of {system.name}", 1) as progress:
            mean = divergence(
                technique, requests, decoding=source.decoding, seed=plan.seeds[0]
            ).mean
            progress(1)
        measured[system.name] = SystemDivergence(
            system.name,
            mean.value,
            None if mean.why_no_interval else mean.low,
            None if mean.why_no_interval else mean.high,
            mean.n,
            tuple(technique_identity(source)),
            plan.seeds[0],
        )
        _write(plan, measured)
    if not ours:
        raise UserError(f"{plan.file.name}: no system is a technique with token probabilities")
    return [measured[system.name] for system in ours]


def read_divergences(plan: Plan) -> list[SystemDivergence]:
    """Returns what is known of the systems as they are now.

    Raises:
        UserError: the file holds no divergences.
    """
    now = {
        system.name: tuple(technique_identity(system.source))
        for system in plan.systems
        if isinstance(system.source, TechniqueSource)
    }
    return [
        entry
        for entry in _every(_file(plan))
        if now.get(entry.system) == entry.identity and entry.seed == plan.seeds[0]
    ]


def _every(file: Path) -> list[SystemDivergence]:
    """Returns what a file holds, of whatever systems."""
    if not file.exists():
        return []
    try:
        entries: list[Mapping[str, Any]] = read_json(file)
        return [SystemDivergence(**{**e, "identity": tuple(e["identity"])}) for e in entries]
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise UserError(
            f"{file} does not hold divergences ({type(error).__name__}); delete it and run "
            "`levelfield study divergence` again"
        ) from None


def _requests(plan: Plan, system: SystemPlan) -> list[Request]:
    """The requests of the first seed, each under a name that no other dataset or kind has."""
    return [
        Request(f"{key.dataset}/{key.control}/{request.id}", request.prompt, request.labels)
        for key in plan.cells()
        if key.system == system.name and key.seed == plan.seeds[0]
        for request in requests_of(plan, key)
    ]


def _write(plan: Plan, measured: Mapping[str, SystemDivergence]) -> None:
    """Writes divergences beside those of systems that the plan leaves out."""
    import filelock

    plan.out.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(plan.out / "divergences.lock"):
        together = {**{entry.system: entry for entry in _every(_file(plan))}, **measured}
        with atomic_writer(_file(plan)) as out:
            out.write(json_text([entry.to_dict() for entry in together.values()], indent=2) + "\n")


def _file(plan: Plan) -> Path:
    return plan.out / "divergences.json"

"""A study's plan: what its TOML file says, checked.

`plan_file.load_plan` reads it; `docs/study-file.md` documents what it may say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from levelfield.core.sample import Control
from levelfield.study.cells import CellKey
from levelfield.systems.contract import Decoding


@dataclass(frozen=True)
class PromptSet:
    """A dataset of a study: the prompts that every system has to continue.

    Attributes:
        name: as tables have it.
        prompts: in order; `("",)` if texts are made from the control alone.
        ids: one a prompt, unique.
        weight: of the set in means over sets; the number of its prompts unless the file says so.
        rewrite: whether the prompts are sources to rewrite, not beginnings to continue.
        references: what people wrote for each source; empty where there are none.
    """

    name: str
    prompts: tuple[str, ...]
    ids: tuple[str, ...]
    weight: float
    rewrite: bool = False
    references: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class ControlKind:
    """A kind of control: the combinations of wanted values, one text each for every prompt.

    Attributes:
        name: as tables have it, e.g. `sentiment`, `multiple`.
        values: e.g. `{"sentiment": "positive"}`; with several attributes, all combinations.
    """

    name: str
    values: tuple[Control, ...]


@dataclass(frozen=True)
class FilesSource:
    """Texts that exist already. `pattern` may hold {system}, {dataset}, {control}, {seed}.

    Attributes:
        pattern: path, relative to the study file's folder.
        format, mapping: as `levelfield score --format --map`.
    """

    pattern: str
    format: str | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CommandSource:
    """A command that reads requests as JSONL on stdin and writes answers as JSONL on stdout.

    Attributes:
        command: program and arguments; no shell. Run in the study file's folder.
        timeout_s: of one attempt at one cell.
        retries: further attempts, for the requests that have no answer yet.
        environment: added to ours.
    """

    command: tuple[str, ...]
    timeout_s: float = 3600.0
    retries: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CallableSource:
    """A Python callable: `MODULE:NAME`, or a name in the entry-point group `levelfield.systems`.

    It is called with a list of requests (mappings as a command reads them) and yields answers
    (mappings as a command writes them), in a process of its own.
    """

    target: str
    timeout_s: float = 3600.0
    retries: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TechniqueSource:
    """A technique of `levelfield.systems`, in a process that answers all cells of the system.

    Attributes:
        technique: its name.
        options: those of its class, by name; `model` is always there if the class has it.
        decoding: how tokens are chosen.
        timeout_s, retries: as of a command; the time of loading models is part of the first
            attempt.
    """

    technique: str
    options: Mapping[str, Any] = field(default_factory=dict)
    decoding: Decoding = field(default_factory=Decoding)
    timeout_s: float = 3600.0
    retries: int = 1

    @property
    def base(self) -> str:
        """The base model as tables have it: its name, or that of its folder; empty if none."""
        model = str(self.options.get("model", ""))
        return Path(model).name if Path(model).is_absolute() else model


class SystemTechnique(NamedTuple):
    """The technique of a system, and the base model that it runs on."""

    technique: str
    base: str


Source = FilesSource | CommandSource | CallableSource | TechniqueSource


@dataclass(frozen=True)
class SystemPlan:
    """A system of a study.

    Attributes:
        name: as tables have it.
        source: where its texts come from.
        controls: the kinds of control it takes part in.
        labels: attribute -> the study's value -> the system's words for it. Several words are
            taken in turn over the prompts; none (an empty tuple) means that the system has no
            such value, and those requests are not made. A value that is not named is its own word.
        postprocess: named steps, in order; see `postprocess`.
        prompting: how an instructed model was prompted; only a name for tables.
    """

    name: str
    source: Source
    controls: tuple[str, ...]
    labels: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    postprocess: tuple[str, ...] = ()
    prompting: str = ""


@dataclass(frozen=True)
class MetricPlan:
    """A metric (or family) and its options as the user wrote them."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A study.

    Attributes:
        name: its title.
        file: the study file; paths in it are relative to its folder.
        out: the folder of cells; `<stem of the file>.study` beside it unless the file says so.
        datasets, controls, systems: the grid.
        seeds: at least one.
        metrics: what to measure.
    """

    name: str
    file: Path
    out: Path
    datasets: tuple[PromptSet, ...]
    controls: tuple[ControlKind, ...]
    systems: tuple[SystemPlan, ...]
    seeds: tuple[int, ...]
    metrics: tuple[MetricPlan, ...]

    def cells(self) -> list[CellKey]:
        """All cells, systems outermost."""
        return [
            CellKey(system.name, dataset.name, control.name, seed)
            for system in self.systems
            for control in self.controls
            if control.name in system.controls
            for dataset in self.datasets
            for seed in self.seeds
        ]

    @property
    def attributes(self) -> frozenset[str]:
        """What texts are wanted to have."""
        return frozenset(a for kind in self.controls for value in kind.values for a in value)

    @property
    def techniques(self) -> Mapping[str, SystemTechnique]:
        """System -> its technique and base, of those that are asked through one."""
        return {
            system.name: SystemTechnique(system.source.technique, system.source.base)
            for system in self.systems
            if isinstance(system.source, TechniqueSource)
        }

    def system(self, name: str) -> SystemPlan:
        return next(s for s in self.systems if s.name == name)

    def dataset(self, name: str) -> PromptSet:
        return next(d for d in self.datasets if d.name == name)

    def control(self, name: str) -> ControlKind:
        return next(c for c in self.controls if c.name == name)

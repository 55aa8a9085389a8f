"""A study's plan: the checked content of its TOML file.

`plan_file.load_plan` reads it; `docs/study-file.md` documents what it may say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from levelfield.core.errors import UserError
from levelfield.core.limits import RETRIES
from levelfield.core.metric import Metric
from levelfield.core.options import Options, option
from levelfield.core.sample import Control
from levelfield.generation.contract import Decoding
from levelfield.generation.table import TECHNIQUES, TechniqueFile
from levelfield.io import FORMATS
from levelfield.stats.resampling import Draws
from levelfield.study.cells import CellKey


@dataclass(frozen=True)
class PromptSet:
    """A dataset of a study: the prompts that every system continues.

    Attributes:
        name: as tables have it.
        prompts: in order; `("",)` if texts are made from the control alone.
        ids: one per prompt, unique.
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
class FilesSource(Options):
    """Existing texts."""

    pattern: str = option(
        help="Path of the texts, relative to the folder of the study file; may contain {system}, "
        "{dataset}, {control} and {seed}.",
        positional=True,
        key="files",
        example='"texts/{dataset}-{control}-{seed}.jsonl"',
    )
    format: str | None = option(
        None, "Format of the files.", among=lambda: tuple(FORMATS), otherwise="what the suffix says"
    )
    mapping: Mapping[str, str] = option(
        {},
        "Fields of samples and the columns that hold them, as in `levelfield score --map`; write a "
        "name with a dot in quotes.",
        key="map",
    )


@dataclass(frozen=True, kw_only=True)
class AskedSource(Options):
    """Base of the sources that write texts on request."""

    timeout_s: float = option(
        3600.0,
        "Seconds for one attempt at one cell; for a technique, the first attempt includes the time "
        "of loading its models.",
        above=0,
    )
    retries: int = option(
        1, "Number of further attempts for requests without an answer.", least=0, most=RETRIES
    )


@dataclass(frozen=True)
class CommandSource(AskedSource):
    """A command that reads requests as JSONL on stdin and writes answers as JSONL on stdout."""

    command: tuple[str, ...] = option(
        help="Program and arguments, run without a shell in the folder of the study file.",
        positional=True,
        fewest=1,
        blank=True,
        example='["python3", "gedi.py"]',
    )
    environment: Mapping[str, str] = option(
        {}, "Variables added to the environment of the command.", blank=True
    )


@dataclass(frozen=True)
class CallableSource(AskedSource):
    """A Python callable.

    It is called with a list of requests (mappings as a command reads them) and yields answers
    (mappings as a command writes them), in a process of its own.
    """

    target: str = option(
        help="MODULE:NAME in Python, or the name of an installed system (entry-point group "
        "`levelfield.systems`).",
        positional=True,
        key="callable",
        example='"my_package.gedi:answers"',
    )
    options: Mapping[str, Any] = option({}, "Arguments for the callable.", blank=True)


@dataclass(frozen=True)
class TechniqueSource(AskedSource):
    """A technique of `levelfield.generation`, in a process that answers all cells of the system.

    Of its options, `model` is always there if the class has it.
    """

    technique: str = option(
        help="Name of a technique that `levelfield techniques` lists, or a class in a file, "
        "my_technique.py:Class.",
        positional=True,
        example='"gedi"',
        schema=lambda: {"anyOf": [{"enum": list(TECHNIQUES)}, {"pattern": r"\.py:\w+$"}]},
    )
    options: Mapping[str, Any] = option({}, "Options of the technique, by name.", blank=True)
    decoding: Decoding = option(Decoding(), "Decoding of the technique.")
    budget: float | None = option(
        None,
        "Mean divergence of the technique from its base, in nats per token; its strength is the "
        "one that `levelfield study calibrate` finds.",
        above=0,
        otherwise="none: the options give the strength",
        example="0.5",
    )

    @property
    def base(self) -> str:
        """The base model as tables have it: its name, or that of its folder; empty if none."""
        model = str(self.options.get("model", ""))
        return Path(model).name if Path(model).is_absolute() else model


class SystemTechnique(NamedTuple):
    """The technique of a system, and the base model that it runs on."""

    technique: str
    base: str


def _label(technique: str) -> str:
    """Returns a technique as tables have it."""
    file = TechniqueFile.parse(technique)
    return file.label if file else technique


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
        draws: what a seed draws for.
        entry: name of its table in the study file, which has a system for each budget of the study;
            empty if that is `name`.
    """

    name: str
    source: Source
    controls: tuple[str, ...]
    labels: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    postprocess: tuple[str, ...] = ()
    prompting: str = ""
    draws: Draws = "run"
    entry: str = ""

    @property
    def budget(self) -> float:
        """Its budget in nats per token; 0 without one."""
        return (self.source.budget or 0.0) if isinstance(self.source, TechniqueSource) else 0.0

    def is_named(self, names: Collection[str]) -> bool:
        """Returns whether a name refers to this system: its own, or its table's."""
        return self.name in names or self.entry in names


def fields_of(datasets: Sequence[PromptSet]) -> frozenset[str]:
    """Returns the fields of a sample that texts of these datasets have; sources and references
    where all datasets have them."""
    fields = {"id", "text", "prompt", "control", "system", "dataset", "seed"}
    if datasets and all(dataset.rewrite for dataset in datasets):
        fields.add("source")
        if all(any(dataset.references) for dataset in datasets):
            fields.add("references")
    return frozenset(fields)


def check_fields(metrics: Iterable[Metric], fields: Set[str]) -> None:
    """Checks that metrics read no other fields of a sample than these.

    Raises:
        UserError: one does.
    """
    for metric in metrics:
        if lacking := sorted(metric.requires - fields):
            raise UserError(
                f"metric '{metric.name}' reads {', '.join(lacking)}, which a study's texts don't "
                "have"
            )


Word = str | float | bool
"""An option as a study file has it."""


@dataclass(frozen=True)
class MetricPlan(Options):
    """A metric (or family) and its options as the user wrote them.

    The file of a metric that a study file names runs when its texts are measured, never before.
    """

    name: str = option(
        help="Name of a metric or a family, or PATH.py:CLASS.",
        positional=True,
        example='"diversity"',
    )
    options: Mapping[str, Word] = option(
        {}, "Options of the metric, as `levelfield metrics NAME` lists them.", blank=True
    )


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
        calibration: prompts on which strengths are found, for systems with a budget.
        left_out: systems that have no strength for their budget yet, or can have none, in words.
        planned: metric -> the difference of two systems that the study is to show.
    """

    name: str
    file: Path
    out: Path
    datasets: tuple[PromptSet, ...]
    controls: tuple[ControlKind, ...]
    systems: tuple[SystemPlan, ...]
    seeds: tuple[int, ...]
    metrics: tuple[MetricPlan, ...]
    calibration: tuple[PromptSet, ...] = ()
    left_out: tuple[str, ...] = ()
    planned: Mapping[str, float] = field(default_factory=dict)

    def cells(self) -> list[CellKey]:
        """Returns all cells, systems outermost."""
        return [
            CellKey(system.name, dataset.name, control.name, seed)
            for system in self.systems
            for control in self.controls
            if control.name in system.controls
            for dataset in self.datasets
            for seed in self.seeds
        ]

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a sample that the texts of the study have."""
        return fields_of(self.datasets)

    @property
    def attributes(self) -> frozenset[str]:
        """Names of the attributes that are requested."""
        return frozenset(a for kind in self.controls for value in kind.values for a in value)

    @property
    def techniques(self) -> Mapping[str, SystemTechnique]:
        """System -> its technique and base, of those that are asked through one."""
        return {
            system.name: SystemTechnique(_label(system.source.technique), system.source.base)
            for system in self.systems
            if isinstance(system.source, TechniqueSource)
        }

    def ignores_control(self, system: str) -> bool:
        """Returns whether a system's technique ignores control by design."""
        source = self.system(system).source
        return (
            isinstance(source, TechniqueSource)
            and source.technique in TECHNIQUES
            and TECHNIQUES[source.technique].mechanism == "none"
        )

    def system(self, name: str) -> SystemPlan:
        return next(s for s in self.systems if s.name == name)

    def dataset(self, name: str) -> PromptSet:
        return next(d for d in self.datasets if d.name == name)

    def control(self, name: str) -> ControlKind:
        return next(c for c in self.controls if c.name == name)

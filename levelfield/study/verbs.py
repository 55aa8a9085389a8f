"""The verbs of a study, as in `levelfield study`: run, measure, status, audit, report, export."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levelfield.core.class_file import ClassFile, files_withheld
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.options import keywords
from levelfield.core.paths import existing_path, user_path
from levelfield.core.progress import Stages, no_stages, time_limit
from levelfield.core.registry import MetricFile
from levelfield.generation.table import TechniqueFile, make_technique
from levelfield.io import open_samples
from levelfield.io.frames import Framed, FrameRows
from levelfield.io.problems import printable, shown
from levelfield.io.tables import Table
from levelfield.scoring.metrics import ready
from levelfield.scoring.options import Execution, Note
from levelfield.scoring.scorer import cached_scorer
from levelfield.study.aggregate import aggregate
from levelfield.study.ask.systems import lacking
from levelfield.study.audit import audit
from levelfield.study.audit.findings import AuditReport
from levelfield.study.cells import Cell, CellKey
from levelfield.study.divergences import SystemDivergence, measure_divergences
from levelfield.study.layout import layout_of
from levelfield.study.levels import cells_at_budgets, with_plan
from levelfield.study.measure import measure, metrics_of
from levelfield.study.plan import CallableSource, Plan, TechniqueSource
from levelfield.study.plan_file import load_plan
from levelfield.study.report import StudyReport, drawn_texts
from levelfield.study.run import run
from levelfield.study.settings import (
    StudyAuditOptions,
    StudyCalibrateOptions,
    StudyMeasureOptions,
    StudyReportOptions,
    StudyRunOptions,
    SystemOptions,
)
from levelfield.study.status import CellStatus, StudyStatus, study_status
from levelfield.study.store import StudyStore
from levelfield.study.store.reading import Exported, export, read_cell
from levelfield.study.strengths import CalibratedSystem, calibrate, check_strengths
from levelfield.workers.places import working_place


@dataclass(frozen=True)
class StudyRun(Framed):
    """Outcome of a run of a study, or of a measurement of its texts.

    Attributes:
        out: the folder of the study.
        status: of the cells that the run was about.
        asked_now: number of cells that this run asked a system for, or made texts of.
        measured_now: number of cells that were measured; None without scores.
        notes: further facts for the user, one line each.
    """

    out: Path
    status: StudyStatus
    asked_now: int
    measured_now: int | None
    notes: tuple[str, ...]

    _entries = "study=status.study out cells=status.cells asked_now measured_now notes"

    @property
    def failed(self) -> tuple[CellStatus, ...]:
        """The cells that failed."""
        return tuple(cell for cell in self.status.cells if cell.state == "failed")

    def _frame(self) -> FrameRows:
        return self.status._frame()

    def _drawn(self) -> Sequence[Table]:
        return [self.status.table()]


@dataclass(frozen=True)
class Study:
    """A study: a plan with its folder, or a folder in an installed layout.

    Attributes:
        name: its title.
        path: where it was read from.
        plan: what its file says; None for a published study, which is audited and reported only.
    """

    name: str
    path: str
    plan: Plan | None

    @keywords(StudyRunOptions)
    def run(
        self,
        chosen: StudyRunOptions | None = None,
        *,
        stages: Stages = no_stages,
        note: Note = lambda _: None,
        on_cell: Callable[[CellStatus], object] = lambda _: None,
        **words: Any,
    ) -> StudyRun:
        """Asks the systems for their texts and measures them, as `levelfield study run` does.

        Finished cells are left alone. A cell that fails does not stop the others.

        Args:
            chosen: how systems are asked, and texts measured.
            stages: receives the progress of each stage: texts, scores.
            note: called with each note for the user, as it comes up.
            on_cell: called with every cell requested from a system, when it is finished.
            words: options of `StudyRunOptions`, such as `jobs`, `only`, `scores` and `execution`,
                instead of those there.

        Raises:
            UserError: no such system or option, or what is wrong with a metric or model; before any
                work.
            KeyboardInterrupt: Ctrl-C, after all systems have been ended; says what is kept.
        """
        plan = self._plan()
        chosen = StudyRunOptions.of(chosen, **words)
        only, execution = chosen.only, chosen.execution
        check_systems(plan, only)
        metrics = _metrics(plan, execution, note) if chosen.scores else []
        cells = study_status(plan, only).cells
        cells = cells[execution.part(len(cells))]
        shard = {cell.key for cell in cells}
        check_strengths(plan)
        waiting = {cell.key.system for cell in cells if cell.state != "done"}
        _check_callables(plan, waiting)
        _check_techniques(plan, waiting, note)
        for line in plan.left_out:
            note(line)
        total = sum(cell.asked for cell in cells)
        with stages("texts", total) as progress:
            outcome = run(
                plan,
                jobs=chosen.jobs,
                only=shard.__contains__,
                progress=progress,
                on_cell=on_cell,
            )
        for line in outcome.notes:
            note(line)
        keys = [cell.key for cell in outcome.cells]
        measured = None
        if chosen.scores:
            measured = _measure(plan, keys, metrics, execution, stages, note)
        status = StudyStatus(plan.name, outcome.cells, plan.techniques)
        return StudyRun(plan.out, status, len(outcome.fresh), measured, outcome.notes)

    @keywords(StudyMeasureOptions)
    def measure(
        self,
        chosen: StudyMeasureOptions | None = None,
        *,
        stages: Stages = no_stages,
        note: Note = lambda _: None,
        **words: Any,
    ) -> StudyRun:
        """Measures the existing texts without running a system, as `levelfield study measure` does.

        Texts of a cell that is stale are left alone, since `run` asks for them again.

        Args:
            chosen: which texts are measured, how and where.
            stages, note: as for `run`.
            words: options of `StudyMeasureOptions`, such as `only` and `execution`, instead of
                those there.

        Raises:
            UserError: there are no texts yet; no such system, or what is wrong with a metric or
                model.
            KeyboardInterrupt: says what is kept.
        """
        plan = self._plan()
        chosen = StudyMeasureOptions.of(chosen, **words)
        execution = chosen.execution
        check_systems(plan, chosen.only)
        metrics = _metrics(plan, execution, note)
        status = study_status(plan, chosen.only)
        store = StudyStore(plan.out)
        cells = status.cells[execution.part(len(status.cells))]
        texts = [cell for cell in cells if store.record(cell.key)]
        if not texts:
            mend = f"`levelfield study run {self.path} --no-scores` gets them"
            raise UserError(f"{self.path}: there are no texts yet; {mend}")
        keys = [cell.key for cell in texts if cell.state != "stale"]
        notes = () if len(keys) == len(texts) else (_stale(len(texts) - len(keys)),)
        for line in (*plan.left_out, *notes):
            note(line)
        measured = _measure(plan, keys, metrics, execution, stages, note)
        return StudyRun(plan.out, status, 0, measured, notes)

    def status(self) -> StudyStatus:
        """Returns the state of every cell; writes nothing, and runs nothing of the study."""
        with files_withheld():
            return study_status(self._plan())

    @keywords(SystemOptions)
    def divergence(
        self,
        chosen: SystemOptions | None = None,
        *,
        stages: Stages = no_stages,
        **words: Any,
    ) -> list[SystemDivergence]:
        """Measures the divergence of each technique from its base on the prompts of the study, as
        `levelfield study divergence` does; the report shows it beside other costs.

        Args:
            chosen: which systems.
            stages: receives the progress, a stage a system.
            words: options of `SystemOptions`, instead of those there.

        Raises:
            UserError: no such system, or none is a technique with probabilities of tokens.
        """
        plan = self._plan()
        chosen = SystemOptions.of(chosen, **words)
        check_systems(plan, chosen.only)
        check_strengths(plan)
        return measure_divergences(plan, chosen.only, stages=stages)

    @keywords(StudyAuditOptions)
    def audit(self, chosen: StudyAuditOptions | None = None, **words: Any) -> AuditReport:
        """Returns the faults to know before the study is published; writes nothing.

        Args:
            chosen: what texts are compared with.
            words: options of `StudyAuditOptions`, such as `training`, instead of those there.

        Raises:
            UserError: there are no texts yet, or a file can't be read.
        """
        chosen = StudyAuditOptions.of(chosen, **words)
        files = [open_samples([file]) for file in chosen.training]
        for file in files:
            file.check()
        texts = (sample.text for file in files for sample in file)
        with files_withheld():
            return self._audit(self.cells(), texts if files else ())

    @keywords(StudyReportOptions)
    def report(self, chosen: StudyReportOptions | None = None, **words: Any) -> StudyReport:
        """Returns the tables of the study.

        Args:
            chosen: what the report holds.
            words: options of `StudyReportOptions`, such as `audit`, `seed` and `family`, instead of
                those there. Of a family `run`, p is adjusted over all comparisons of a kind of
                control.

        Raises:
            UserError: there are no texts yet.
        """
        chosen = StudyReportOptions.of(chosen, **words)
        with files_withheld():
            return self._report(chosen)

    def _report(self, chosen: StudyReportOptions) -> StudyReport:
        cells = self.cells()
        findings = self._audit(cells).findings if chosen.audit else None
        weights = self._weights(cells)
        shown = cells_at_budgets(self.plan, cells) if self.plan else cells
        summary = aggregate(shown, weights=weights, resampling=chosen.resampling)
        if self.plan:
            summary = with_plan(summary, self.plan)
        return StudyReport(self.name, self.path, summary, findings, drawn_texts(shown))

    def export(self, file: str | os.PathLike[str], what: Exported) -> int:
        """Writes all texts or scores to one .jsonl, .csv or .parquet file.

        Returns:
            The number of rows.
        """
        plan = self._plan()
        return export(StudyStore(plan.out), Path(file), plan.cells(), what)

    def cells(self) -> list[Cell]:
        """Returns the cells with everything that the study has of them.

        Raises:
            UserError: there are no texts yet, or a file is broken.
        """
        if self.plan is None:
            folder = user_path(self.path)
            return layout_of(folder).cells(folder)
        store = StudyStore(self.plan.out)
        plan = self.plan
        cells = [
            replace(
                read_cell(store, key),
                ignores_control=plan.ignores_control(key.system),
                draws=plan.system(key.system).draws,
            )
            for key in plan.cells()
        ]
        if not any(cell.samples for cell in cells):
            mend = f"`levelfield study run {self.path}` gets them"
            raise UserError(f"{self.path}: there are no texts yet; {mend}")
        return cells

    @property
    def report_folder(self) -> Path:
        """The default folder of a report."""
        return self.plan.out / "report" if self.plan else Path("study-report")

    def _plan(self) -> Plan:
        # for a folder, loading raises that it is not a study file
        return self.plan or load_plan(self.path)

    def _audit(self, cells: Sequence[Cell], training: Iterable[str] = ()) -> AuditReport:
        keys = self.plan.cells() if self.plan else []
        return AuditReport(self.name, tuple(audit(cells, expected=keys, training=training)))

    def _weights(self, cells: Sequence[Cell]) -> Mapping[str, float] | None:
        if self.plan:
            return {dataset.name: dataset.weight for dataset in self.plan.datasets}
        return layout_of(user_path(self.path)).weights(cells)


@keywords(StudyCalibrateOptions)
def calibrate_study(
    path: str | os.PathLike[str],
    chosen: StudyCalibrateOptions | None = None,
    *,
    stages: Stages = no_stages,
    **words: Any,
) -> list[CalibratedSystem]:
    """Finds the strengths of the systems of a study file that have a budget, as `levelfield study
    calibrate` does, and writes them beside it.

    Args:
        chosen: whose strengths are found, and how near they come to the budgets.
        stages: receives the progress, a stage a system.
        words: options of `StudyCalibrateOptions`, instead of those there.

    Raises:
        UserError: no such system, no system with a budget, or a budget that no strength reaches.
        InputError: with everything that is wrong in the file.
    """
    chosen = StudyCalibrateOptions.of(chosen, **words)
    plan = load_plan(path, strengths=False)
    check_systems(plan, chosen.only)
    return calibrate(plan, chosen, chosen.only, stages=stages)


def check_systems(plan: Plan, only: Sequence[str]) -> None:
    """Checks that a study has these systems.

    Raises:
        UserError: it lacks one.
    """
    systems = [system.name for system in plan.systems]
    if unknown := sorted(set(only) - {*systems, *(system.entry for system in plan.systems)}):
        named = f"{plan.file.name} has the systems {', '.join(systems)}"
        raise UserError("; ".join((f"--only {unknown[0]}: {named}", *plan.left_out)))


def load_study(path: str | os.PathLike[str]) -> Study:
    """Returns the study in a TOML file, or in a folder in an installed layout.

    No model is loaded and no system is started.

    Raises:
        UserError: there is no such file, or it is not TOML.
        InputError: with everything that is wrong in it, one line each.
    """
    name = os.fspath(path)
    if (folder := existing_path(name)) and folder.is_dir():
        return Study(folder.resolve().name, name, None)
    plan = load_plan(name)
    return Study(plan.name, name, plan)


def _check_callables(plan: Plan, systems: Collection[str]) -> None:
    """Checks that the callables of these systems exist.

    Raises:
        UserError: some do not; the message names them.
    """
    lines = [
        f"{plan.file.name}: system {shown(system.name)}: callable {shown(source.target)}: {reason}"
        for system in plan.systems
        if system.name in systems
        and isinstance(source := system.source, CallableSource)
        and (reason := lacking(source.target, plan.file.parent))
    ]
    if lines:
        raise UserError("\n".join(lines))


def _check_techniques(plan: Plan, systems: Collection[str], note: Note) -> None:
    """Checks that techniques in files of these systems can be made; notes which files run.

    Raises:
        UserError: one can't be.
    """
    for system in plan.systems:
        source = system.source
        if system.name not in systems or not isinstance(source, TechniqueSource):
            continue
        if file := TechniqueFile.parse(source.technique):
            _say_it_runs(file, note)
            make_technique(source.technique, source.options)


def _say_it_runs(file: ClassFile, note: Note) -> None:
    digest = file.mark.rpartition("|")[2]
    note(f"{file.kind} {printable(str(file))} runs Python from a file ({digest})")


def _stale(cells: int) -> str:
    return f"{cells:,} stale cells are left alone; `levelfield study run` requests them again"


def _metrics(plan: Plan, execution: Execution, note: Note) -> list[Metric]:
    """Returns the metrics of a study, known to work here; says which files run for them."""
    for file in filter(None, (MetricFile.parse(metric.name) for metric in plan.metrics)):
        _say_it_runs(file, note)
    with time_limit(execution.time_limit):
        metrics = metrics_of(plan, execution.loading.to_dict())
        ready(metrics, plan.attributes)
    return metrics


def _measure(
    plan: Plan,
    keys: Sequence[CellKey],
    metrics: Sequence[Metric],
    execution: Execution,
    stages: Stages,
    note: Note,
) -> int:
    """Measures the cells whose texts or metrics have changed; returns their number."""
    notes: list[str] = []
    store = StudyStore(plan.out)
    texts = sum(record.answered for key in keys if (record := store.record(key)))
    with (
        time_limit(execution.time_limit),
        working_place(
            execution, metrics, texts, execution.loading.device, notes.append
        ) as executor,
        cached_scorer(notes, enabled=execution.cache, executor=executor) as scorer,
        stages("scores", texts * len(metrics)) as progress,
    ):
        cells = measure(keys, store, metrics, scorer, progress=progress)
    for line in notes:
        note(line)
    return cells

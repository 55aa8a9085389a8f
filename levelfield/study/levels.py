"""A study at each of its budgets: the tables that compare techniques at equal cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from levelfield.scoring.comparison import ALPHA
from levelfield.scoring.sensitivity import SHARE
from levelfield.study.aggregate.results import ControlSummary, StudySummary
from levelfield.study.cells import Cell
from levelfield.study.divergences import read_divergences
from levelfield.study.observations import measure_of
from levelfield.study.plan import Plan, SystemPlan


def cells_at_budgets(plan: Plan, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Returns the cells that tables compare at each budget of the study.

    At a budget they are those of every technique with it, under the name of its table, of systems
    with that budget of their own, and of systems without one. The kind of control names the budget:
    `sentiment at 0.3 nats`. The cells of a study with one budget, or none, are returned unchanged.
    """
    budgets = _budgets(plan)
    return [
        _at(budget, plan.system(cell.key.system), cell)
        for budget in budgets
        for cell in cells
        if _stands(plan.system(cell.key.system), budget)
    ] or cells


def with_plan(summary: StudySummary, plan: Plan) -> StudySummary:
    """Returns a summary with facts from the plan: techniques, divergences, and systems left out."""
    several = bool(_budgets(plan))
    names = {s.name: s.entry if several and s.entry else s.name for s in plan.systems}
    techniques = {names[name]: technique for name, technique in plan.techniques.items()}
    nats = {
        (kind.control, names[divergence.system]): divergence
        for kind in summary.controls
        for divergence in read_divergences(plan)
        if not several or _stands_in(plan.system(divergence.system), kind.control)
    }
    controls = [
        replace(
            control,
            notes=(*control.notes, *_as_planned(control, plan.planned), *plan.left_out),
            costs=tuple(
                replace(cost, nats=mean.nats, nats_low=mean.low, nats_high=mean.high)
                if (mean := nats.get((control.control, cost.system)))
                else cost
                for cost in control.costs
            ),
        )
        for control in summary.controls
    ]
    levels = {
        control.name: tuple(_named(control.name, budget) for budget in _budgets(plan))
        for control in plan.controls
        if several
    }
    return replace(summary, techniques=techniques, controls=tuple(controls), levels=levels)


def _budgets(plan: Plan) -> list[float]:
    """Returns the budgets of a study, the lowest first.

    They are none unless there are several, and systems that take part at each.
    """
    budgets = sorted({system.budget for system in plan.systems if system.budget})
    return budgets if len(budgets) > 1 and any(s.entry for s in plan.systems) else []


def _as_planned(control: ControlSummary, planned: Mapping[str, float]) -> Iterator[str]:
    """Yields notes on whether the comparisons could show the planned differences."""
    for metric, difference in planned.items():
        name = measure_of(metric)
        comparisons = control.comparisons.get(name, ())
        open_ones = [c for c in comparisons if not c.p_adjusted <= ALPHA]
        if comparisons:
            size = difference * (100 if control.measure(name).percent else 1)
            could = sum(c.detectable <= size for c in open_ones)
            yield (
                f"Planned to show a difference of {difference:g} in {metric}: of "
                f"{len(comparisons):,} comparisons {len(comparisons) - len(open_ones):,} show one, "
                f"{could:,} more would show one of that size in {SHARE} of such studies, and "
                f"{len(open_ones) - could:,} would not"
            )


def _at(budget: float, system: SystemPlan, cell: Cell) -> Cell:
    name = system.entry or system.name
    return replace(
        cell,
        key=cell.key._replace(system=name, control=_named(cell.key.control, budget)),
        samples=tuple(replace(sample, system=name) for sample in cell.samples),
    )


def _named(control: str, budget: float) -> str:
    return f"{control} at {budget:g} {'nat' if budget == 1 else 'nats'}"


def _stands(system: SystemPlan, budget: float) -> bool:
    return not system.budget or system.budget == budget


def _stands_in(system: SystemPlan, control: str) -> bool:
    """Returns whether a system is in the table of a kind of control at some budget."""
    return not system.budget or control.endswith(_named("", system.budget))

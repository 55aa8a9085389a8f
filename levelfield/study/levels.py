"""A study at each of its budgets: the tables in which techniques stand at equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from levelfield.study.aggregate.results import StudySummary
from levelfield.study.cells import Cell
from levelfield.study.divergences import read_divergences
from levelfield.study.plan import Plan, SystemPlan


def at_each_budget(plan: Plan, cells: Sequence[Cell]) -> Sequence[Cell]:
    """Returns cells as tables compare them: for each budget of the study, every technique with that
    budget under the name of its table, and all systems without one.

    The kind of control says the budget: `sentiment at 0.3 nats`. A study with one budget, or none,
    is compared as it stands.
    """
    budgets = sorted({system.budget for system in plan.systems if system.entry})
    if len(budgets) < 2:
        return cells
    return [
        _at(budget, plan.system(cell.key.system), cell)
        for budget in budgets
        for cell in cells
        if _stands(plan.system(cell.key.system), budget)
    ]


def of_plan(summary: StudySummary, plan: Plan) -> StudySummary:
    """Returns a summary with what the plan knows of the systems: techniques, how far they go from
    their bases, and which are left out."""
    several = len({system.budget for system in plan.systems if system.entry}) > 1
    names = {s.name: s.entry if several and s.entry else s.name for s in plan.systems}
    techniques = {names[name]: technique for name, technique in plan.techniques.items()}
    nats = {
        (kind.control, names[one.system]): one
        for kind in summary.controls
        for one in read_divergences(plan)
        if not several or _stands_in(plan.system(one.system), kind.control)
    }
    controls = [
        replace(
            control,
            notes=(*control.notes, *plan.out_of_reach),
            costs=tuple(
                replace(cost, nats=known.nats, nats_low=known.low, nats_high=known.high)
                if (known := nats.get((control.control, cost.system)))
                else cost
                for cost in control.costs
            ),
        )
        for control in summary.controls
    ]
    return replace(summary, techniques=techniques, controls=tuple(controls))


def _at(budget: float, system: SystemPlan, cell: Cell) -> Cell:
    name = system.entry or system.name
    return replace(
        cell,
        key=cell.key._replace(system=name, control=_named(cell.key.control, budget)),
        samples=tuple(replace(sample, system=name) for sample in cell.samples),
    )


def _named(control: str, budget: float) -> str:
    return f"{control} at {budget:g} nats"


def _stands(system: SystemPlan, budget: float) -> bool:
    return not system.entry or system.budget == budget


def _stands_in(system: SystemPlan, control: str) -> bool:
    """Whether a system stands in the table of a kind of control at some budget."""
    return not system.entry or control.endswith(_named("", system.budget))

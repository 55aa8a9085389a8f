"""Folders in the layout of the published study, read as cells; nothing is written to them.

`results/<control>/<run>/` holds `evaluation_results_<run>.json`, what the study measured, and
`processed_<run>.csv`, its texts; either may be absent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.paths import user_path
from levelfield.core.sample import Sample
from levelfield.datasets import lpf
from levelfield.datasets.lpf import PublishedRun
from levelfield.study.cells import Cell, CellKey, GroupValue, Rate, value_name
from levelfield.study.layout import StudyLayout
from levelfield_reproductions.recipes.lpf import COVERAGES, SIZES

_MAJORITY = "control_effectiveness_majority"
_OVERALL = "overall"
_COVERAGES = {
    "any": "keywords.any",
    "all": "keywords.all",
    "coverage": "keywords.cov",
    "extended coverage": "keywords.ext-cov",
}
_DEPTHS = ("", "*/", "*/*/", "*/*/*/")


def _published_files(where: Path) -> list[Path]:
    return [
        path
        for depth in _DEPTHS
        for pattern in ("evaluation_results_*.json", "processed_*.csv")
        for path in where.glob(depth + pattern)
        # a folder may have further files, with partial results
        if path.stem.endswith(("_results_" + path.parent.name, "processed_" + path.parent.name))
    ]


def published_cells(folder: Path | str) -> list[Cell]:
    """Returns the cells of a folder in the published layout, sorted by key.

    A cell's system is the technique (`falcon-40b-instruct zero_shot`), its seed the run's. Rates
    are the judges' accuracies as the file has them, with value `` for all texts; the study's
    majority is judge `majority`, with several attributes its `Both` is judge `both`. Perplexity
    and SLOR (one for each language model), Distinct-n and keyword coverage are values of groups.
    A judge with no rate by value is the group metric `control.<judge>`, since the study leaves it
    out of its average. `asked` is the size of the prompt set times the number of values that the
    system was asked for in any of its seeds.

    Args:
        folder: the set's root, its `results`, a folder of one control, or one run.

    Raises:
        UserError: there is no run, or a file or folder is not as the study's are.
    """
    where = user_path(folder)
    files = _published_files(where)
    if not files:
        raise UserError(
            f"{where}: no evaluation_results_<run>.json or processed_<run>.csv in a folder <run>; "
            "name a folder in the layout results/<control>/<run>/"
        )
    results: dict[CellKey, PublishedRun] = {}
    texts: dict[CellKey, list[Sample]] = {}
    for path in files:
        run = lpf.run_of(path) if path.suffix == ".json" else lpf.named(path)
        key = CellKey(run.technique, run.dataset, run.control, run.seed)
        read = results if path.suffix == ".json" else texts
        if key in read:
            raise UserError(f"{path}: there is another run of {key}; keep one of them")
        if path.suffix == ".json":
            results[key] = run
        else:
            texts[key] = lpf.texts_of(path)
    keys = sorted({*results, *texts})
    cells = [_cell(key, results.get(key), texts.get(key, [])) for key in keys]
    # a run that stopped early lacks values that the system's other seeds have
    seeds: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        seeds.setdefault(cell.key[:3], []).append(cell)
    numbers = {system: len(_values_of(runs)) for system, runs in seeds.items()}
    return [_with_number(cell, numbers[cell.key[:3]]) for cell in cells]


def _values_of(cells: Sequence[Cell]) -> set[str]:
    """Returns the requested values of these runs, from their texts and their results."""
    texts = {value_name(sample.control) for cell in cells for sample in cell.samples}
    # results of several attributes are named attribute by attribute
    if texts and cells[0].key.control == "multiple":
        return texts
    return texts | {g.value_asked for cell in cells for g in cell.groups if g.value_asked}


def _with_number(cell: Cell, values: int) -> Cell:
    """Returns the cell with the number of requested texts, and with that of its groups."""
    n = SIZES[cell.key.dataset]
    texts = n * values or None
    groups = (group._replace(n=n if group.value_asked else texts or n) for group in cell.groups)
    return replace(cell, asked=texts, groups=tuple(groups))


def _cell(key: CellKey, run: PublishedRun | None, samples: Sequence[Sample]) -> Cell:
    measured = run.results if run else {}
    if not isinstance(measured, Mapping):
        raise UserError(f"results of {key}: expected a JSON object of judges and measures")
    return Cell(
        key=key,
        samples=tuple(samples),
        groups=tuple(GroupValue(*group, n=0) for group in _groups(measured, key)),
        rates=tuple(_rates(measured, key.control)),
    )


def _rates(measured: Mapping[str, Any], control: str) -> Iterator[Rate]:
    """Yields rates; for several attributes only the reported ones: each alone, and both."""
    if control == "multiple":
        for name, measures in _objects(measured.get("multiple")):
            judge = "both" if name == _OVERALL else name
            for value, percent in _numbers({_OVERALL: measures}, "accuracy", control):
                yield Rate(judge, value, percent)
        return
    for judge, accuracies in _accuracies(measured, control):
        if any(value for value, _ in accuracies):
            yield from (Rate(judge, value, percent) for value, percent in accuracies)


def _accuracies(
    measured: Mapping[str, Any], control: str
) -> Iterator[tuple[str, list[tuple[str, float]]]]:
    """Yields each judge with its accuracies by requested value."""
    for name, measures in _objects(measured):
        judge = "majority" if name == _MAJORITY else name
        yield judge, [*_numbers(measures, "accuracy", control)]


def _groups(measured: Mapping[str, Any], key: CellKey) -> Iterator[tuple[str, str, float]]:
    control = key.control
    for _, model_numbers in _objects(measured.get("perplexity")):
        for name, number in model_numbers.items():
            if name == "overall_slor":
                metric, value = "fluency.slor", ""
            else:
                metric, value = "fluency.perplexity", _value(name, control)
            if name != "overall_unigram" and _is_number(number):
                yield metric, value, float(number)
    distinct = measured.get("distinct-n")
    for n in (1, 2, 3):
        for value, number in _numbers(distinct, f"dist{n}", control):
            yield f"diversity.distinct-{n}", value, number
    for column, metric in _COVERAGES.items():
        for value, number in _numbers(measured.get("word_coverage"), COVERAGES[column], control):
            yield metric, value, number
    for judge, accuracies in _accuracies(measured, control):
        alone = not any(value for value, _ in accuracies)
        if judge != "multiple" and (alone or control == "multiple"):
            yield from ((f"control.{judge}", value, number) for value, number in accuracies)


def _objects(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        yield from (
            (name, measures) for name, measures in value.items() if isinstance(measures, Mapping)
        )


def _numbers(measures: object, measure: str, control: str) -> Iterator[tuple[str, float]]:
    """Yields requested value, or `` for all, and its number."""
    for name, figures in _objects(measures):
        if _is_number(figures.get(measure)):
            yield _value(name, control), float(figures[measure])


def _value(name: str, control: str) -> str:
    return "" if name == _OVERALL else value_name(lpf.wanted(control, name))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _weights(cells: Sequence[Cell]) -> Mapping[str, float] | None:
    """Returns the sizes of the prompt sets, if the study has no other ones."""
    return SIZES if {cell.key.dataset for cell in cells} <= set(SIZES) else None


LAYOUT = StudyLayout(
    recognises=lambda folder: bool(_published_files(folder)),
    cells=published_cells,
    weights=_weights,
)

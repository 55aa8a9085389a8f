"""The installed metrics: found by name, made from what the user wrote."""

from __future__ import annotations

import difflib
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from levelfield.core.errors import UserError, first_line
from levelfield.core.metric import Metric, check_metric, held_to_its_contract
from levelfield.core.metric_file import MetricFile
from levelfield.core.options import Declaration, choices, make, parsed, required

GROUP = "levelfield.metrics"
"""The entry-point group under which metrics, ours and other people's, announce themselves."""


def installed() -> Mapping[str, EntryPoint]:
    """Name -> entry point of every installed metric, sorted by name."""
    return _installed(tuple(sys.path))


@functools.cache
def _installed(_places: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """As `installed`, read once for the folders that Python looks for packages in."""
    return {e.name: e for e in sorted(entry_points(group=GROUP), key=lambda e: e.name)}


def matching(name: str) -> tuple[str, ...]:
    """The metrics that a name stands for: itself, or all members of a family such as `ctrleval`.

    `PATH.py:CLASS` stands for the class in that file.
    """
    if MetricFile.parse(name):
        return (name,)
    names = tuple(installed())
    members = tuple(n for n in names if n == name or n.startswith(f"{name}."))
    if not members:
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "`levelfield metrics` lists them"
        raise UserError(f"there is no metric '{name}'; {hint}")
    return members


def metric_class(name: str) -> Callable[..., Metric]:
    """The class (or factory) behind one metric's name."""
    file = MetricFile.parse(name)
    if file is None and name not in installed():
        if name in _in_files:
            return _in_files[name]
        raise UserError(f"'{name}' is a family of metrics: {', '.join(matching(name))}")
    where = str(file.path) if file else installed()[name].value
    try:
        factory: Callable[..., Metric] = (file or installed()[name]).load()
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # whatever a third party's module raises when imported
        what = f"{type(error).__name__}: {first_line(error)}"
        raise UserError(f"metric '{name}' can't be loaded from {where}: {what}") from error
    if not callable(factory):
        raise UserError(f"metric '{name}' can't be loaded: {where} is not a class")
    if file:
        _in_files[str(getattr(factory, "name", name))] = factory
    return factory


_in_files: dict[str, Callable[..., Metric]] = {}
"""Metrics of files that this process has loaded, by the names that their values go by."""


def options(metric: Callable[..., Metric], *, name: str = "") -> dict[str, Declaration]:
    """Returns the options of a metric's class by name.

    Raises:
        MetricError: the class can't be asked.
    """
    with held_to_its_contract(metric, "can't be asked for its options", name=name):
        return choices(metric)


def create(
    names: Sequence[str], common: Mapping[str, Any], words: Mapping[str, object]
) -> list[Metric]:
    """The metrics of these names with the options that each of them knows.

    Args:
        names: names of metrics, no families.
        common: options with their values; a metric that does not have one is made without it.
        words: options as the user wrote them, or values; one that no metric has is the user's
            mistake.
            `METRIC:NAME` or `FAMILY:NAME` is of these metrics alone, and goes before `NAME`.
    """
    known = {n: options(metric_class(n), name=n) for n in names}
    mine = {name: _words_of(name, words) for name in names}
    for word in words:
        whose, _, option = word.rpartition(":")
        having = {n: known[n] for n in names if not whose or _is_of(n, whose)}
        if not having:
            raise UserError(f"--option {word}=…: '{whose}' is none of {', '.join(names)}")
        if not any(option in parameters for parameters in having.values()):
            all_of = sorted({p for parameters in having.values() for p in parameters})
            raise UserError(f"no option '{option}' in {', '.join(having)}; there are {all_of}")
    metrics = []
    for name, its_own in known.items():
        values = {k: v for k, v in common.items() if k in its_own}
        values |= parsed(name, its_own, mine[name])
        if missing := required(its_own, values):
            raise UserError(f"metric '{name}' needs --option {missing[0]}=…")
        metric_type = metric_class(name)
        with held_to_its_contract(metric_type, "can't be made", name=name):
            metric = make(metric_type, values)
        check_metric(metric, name=name)
        metrics.append(metric)
    return metrics


def _words_of(name: str, words: Mapping[str, object]) -> dict[str, Any]:
    """The options among `words` that are for a metric; what names it more closely wins."""
    mine: dict[str, Any] = {}
    for word in sorted(words, key=lambda word: len(word.rpartition(":")[0])):
        whose, _, option = word.rpartition(":")
        if not whose or _is_of(name, whose):
            mine[option] = words[word]
    return mine


def _is_of(name: str, whose: str) -> bool:
    """Whether a metric is what a word names: itself or a member of the family."""
    own = str(getattr(metric_class(name), "name", name)) if MetricFile.parse(name) else name
    return whose in (name, own) or own.startswith(f"{whose}.")

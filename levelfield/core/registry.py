"""The installed metrics: found by name, made from what the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

from levelfield.core.class_file import ClassFile
from levelfield.core.errors import UserError
from levelfield.core.extensions import METRICS, entries, load_foreign
from levelfield.core.metric import Metric, check_metric, guarded
from levelfield.core.options import Declaration, choices, make, parsed, required, underscored
from levelfield.core.strings import did_you_mean


class MetricFile(ClassFile):
    """A metric in a file."""

    kind = "metric"
    method = "score"


def installed() -> Mapping[str, EntryPoint]:
    """Returns name -> entry point of every installed metric, sorted by name."""
    return entries(METRICS)


def matching(name: str) -> tuple[str, ...]:
    """Returns the metrics of a name: itself, or all members of a family such as `ctrleval`.

    `PATH.py:CLASS` stands for the class in that file.
    """
    names = tuple(installed())
    if members := tuple(n for n in names if n == name or n.startswith(f"{name}.")):
        return members
    if MetricFile.parse(name):
        return (name,)
    lists = "`levelfield metrics` lists them"
    hint = did_you_mean(name, names, most=3, cutoff=0.4, otherwise=lists)
    raise UserError(f"there is no metric '{name}'; {hint}")


def is_metric(name: str) -> bool:
    """Returns whether a name is that of a metric, a family or a class in a file."""
    is_installed = any(n == name or n.startswith(f"{name}.") for n in installed())
    return is_installed or name in _in_files or MetricFile.parse(name) is not None


def metric_class(name: str) -> Callable[..., Metric]:
    """Returns the class (or factory) of the metric with a name."""
    if entry := installed().get(name):
        return _loaded(name, entry.value, entry.load)
    if file := MetricFile.parse(name):
        factory = _loaded(name, str(file.path), file.load)
        _in_files[str(getattr(factory, "name", name))] = factory
        return factory
    if name in _in_files:
        return _in_files[name]
    raise UserError(f"'{name}' is a family of metrics: {', '.join(matching(name))}")


def _loaded(name: str, origin: str, load: Callable[[], Any]) -> Callable[..., Metric]:
    """Returns what loading gives for the name of a metric."""
    factory: Callable[..., Metric] = load_foreign(
        load, f"metric '{name}' can't be loaded from {origin}"
    )
    if not callable(factory):
        raise UserError(f"metric '{name}' can't be loaded: {origin} is not a class")
    return factory


_in_files: dict[str, Callable[..., Metric]] = {}
"""Metrics of files that this process has loaded, by the names that their values go by."""


def options(metric: Callable[..., Metric], *, name: str = "") -> dict[str, Declaration]:
    """Returns the options of a metric's class by name.

    Raises:
        MetricError: the class can't be asked.
    """
    with guarded(metric, "can't report its options", name=name):
        return choices(metric)


def create(
    names: Sequence[str], common: Mapping[str, Any], words: Mapping[str, object]
) -> list[Metric]:
    """Returns the metrics of these names, each with its options.

    Args:
        names: names of metrics, no families.
        common: options with their values; a metric that does not have one is made without it.
        words: options as the user wrote them, or values; one that no metric has is the user's
            mistake.
            `METRIC:NAME` or `FAMILY:NAME` is of these metrics alone, and goes before `NAME`.
    """
    classes = {name: metric_class(name) for name in names}
    declared = {name: options(cls, name=name) for name, cls in classes.items()}
    words = underscored(words)
    words_of_metrics = {name: _words_of(name, words) for name in names}
    for word in words:
        scope, _, option = word.rpartition(":")
        candidates = {n: declared[n] for n in names if not scope or _is_of(n, scope)}
        if not candidates:
            raise UserError(f"--option {word}=…: '{scope}' is not one of {', '.join(names)}")
        if not any(option in parameters for parameters in candidates.values()):
            options_there = sorted({p for parameters in candidates.values() for p in parameters})
            raise UserError(
                f"no option '{option}' in {', '.join(candidates)}; there are {options_there}"
            )
    metrics = []
    for name, choices_of_metric in declared.items():
        values = {k: v for k, v in common.items() if k in choices_of_metric}
        values |= parsed(name, choices_of_metric, words_of_metrics[name])
        if missing := required(choices_of_metric, values):
            raise UserError(f"metric '{name}' needs --option {missing[0]}=…")
        metric_type = classes[name]
        with guarded(metric_type, "can't be created", name=name):
            metric = make(metric_type, values)
        check_metric(metric, name=name)
        metrics.append(metric)
    return metrics


def _words_of(name: str, words: Mapping[str, object]) -> dict[str, Any]:
    """Returns the options among `words` that are for a metric; what names it more closely wins."""
    values: dict[str, Any] = {}
    for word in sorted(words, key=lambda word: len(word.rpartition(":")[0])):
        scope, _, option = word.rpartition(":")
        if not scope or _is_of(name, scope):
            values[option] = words[word]
    return values


def _is_of(name: str, scope: str) -> bool:
    """Returns whether a metric is what a word names: itself or a member of the family."""
    full_name = str(getattr(metric_class(name), "name", name)) if MetricFile.parse(name) else name
    return scope in (name, full_name) or full_name.startswith(f"{scope}.")

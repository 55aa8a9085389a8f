"""What lists say of the metrics of this package, without importing their classes.

`catalogue.json` is written by `python tools/metric_catalogue.py` from the classes, which declare
it, and a test compares the two. It says nothing of this machine: whether a metric works offline is
looked up in `levelfield.models.presence`, by the names of the models that it reads.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from levelfield.models.presence import MODEL_OPTIONS, is_here, is_installed

if TYPE_CHECKING:
    from levelfield.core.metric import Metric

FILE = Path(__file__).with_suffix(".json")


class MetricEntry(NamedTuple):
    """What a list says of a metric, with its defaults.

    Attributes:
        level: `sample` or `corpus`.
        requires: fields of a sample.
        summary: the first line of the docstring.
        models: names of the models that it reads.
        extra: of levelfield that installs what it computes with; empty where none is needed.
        options: that must be given a value.
    """

    level: str
    requires: tuple[str, ...]
    summary: str
    models: tuple[str, ...] = ()
    extra: str = ""
    options: tuple[str, ...] = ()

    @property
    def missing_extra(self) -> str:
        """The extra that it needs and that is not installed; empty if there is none."""
        return "" if is_installed(self.extra) else self.extra

    @property
    def works_offline(self) -> bool:
        """Whether all that it needs with its defaults is on this machine, as far as names of files
        tell."""
        return not self.options and not self.missing_extra and all(map(is_here, self.models))


@functools.cache
def catalogue() -> Mapping[str, MetricEntry]:
    """Returns what lists say of this package's metrics, by `MODULE:CLASS`."""
    document: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return {target: MetricEntry(**_with_tuples(entry)) for target, entry in document.items()}


def _with_tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}


def entry_of(metric: Callable[..., Metric]) -> MetricEntry:
    """Returns what lists say of a metric's class, as the class declares it; loads no model."""
    from levelfield.core.options import choices, make, required

    options = tuple(required(choices(metric), ()))
    models = () if options else model_names(make(metric, {}))
    extra = getattr(metric, "extra", "")
    if not extra and models:
        extra = "offline" if any(name.startswith("offline/") for name in models) else "models"
    level, requires = claims_of(metric)
    return MetricEntry(level, tuple(requires), summary_of(metric), models, extra, options)


def claims_of(metric: object) -> tuple[str, list[str]]:
    """Returns the level and the fields that a class says of itself.

    A factory, or a class with properties, says them only of what it makes: they are empty.
    """
    level, requires = getattr(metric, "level", ""), getattr(metric, "requires", ())
    return (
        level if isinstance(level, str) else "",
        sorted(map(str, requires)) if isinstance(requires, Set) else [],
    )


def summary_of(metric: object) -> str:
    """Returns the first line of a docstring."""
    doc = (inspect.getdoc(metric) or "").strip()
    return doc.splitlines()[0] if doc else ""


def model_names(metric: Any) -> tuple[str, ...]:
    """Returns the names of the models that a metric reads."""
    if hasattr(metric, "model_names"):
        return tuple(metric.model_names)
    names = (getattr(metric, option, None) for option in MODEL_OPTIONS)
    return tuple(name for name in names if isinstance(name, str))

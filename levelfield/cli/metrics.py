"""`levelfield metrics`: the installed metrics, and what each one measures."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Set
from importlib import resources
from typing import Any

import click

from levelfield.cli.options import JSON, choice_documents, choice_lines
from levelfield.cli.terminal import tell, tell_json
from levelfield.core.direction import direction_of, higher_is_better
from levelfield.core.errors import LevelfieldError
from levelfield.core.registry import installed, matching, metric_class, options
from levelfield.io.toml import read_toml
from levelfield.scoring.metrics import works_offline
from levelfield.show.terminal import listing


@click.command()
@click.argument("name", required=False)
@JSON
def metrics(name: str | None, as_json: bool) -> None:
    """List the installed metrics, or explain those that match NAME.

    Metrics of other packages appear here if they declare an entry point in the group
    levelfield.metrics. PATH.py:CLASS explains the metric in a file. `offline` says whether
    everything that a metric needs with its defaults is on this machine.
    """
    names = matching(name) if name else tuple(installed())
    described = [_describe(each) for each in names]
    if as_json:
        tell_json(described, indent=2)
    elif name:
        tell("\n\n".join(_page(metric) for metric in described))
        if any("judges" in metric.get("options", {}) for metric in described):
            tell("\n" + "\n".join(_judges()))
    else:
        tell(listing(map(_listed, described)))


def _listed(metric: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    needs = ", ".join(metric["requires"])
    facts = (metric["level"], needs and f"needs {needs}", "offline" if metric["offline"] else "")
    return f"{metric['name']:<30} {'; '.join(filter(None, facts))}".rstrip(), (metric["summary"],)


def _describe(name: str) -> dict[str, Any]:
    """Describes a metric without loading a model; for a broken one, why it is broken."""
    try:
        metric = metric_class(name)
        declarations = options(metric, name=name)
    except LevelfieldError as error:
        unknown = {"name": name, "level": "", "requires": [], "offline": False}
        return {**unknown, "summary": str(error), "broken": True}
    doc = inspect.getdoc(metric) or ""
    level, requires = getattr(metric, "level", ""), getattr(metric, "requires", ())
    direction = None
    with contextlib.suppress(AttributeError, ValueError):
        direction = direction_of(metric)
    return {
        "name": name if name in installed() else getattr(metric, "name", name),
        # a factory, or a class with properties, says them only of what it makes
        "level": level if isinstance(level, str) else "",
        "requires": sorted(map(str, requires)) if isinstance(requires, Set) else [],
        "higher_is_better": higher_is_better(direction) if direction else None,
        "offline": works_offline(metric),
        "summary": doc.strip().splitlines()[0] if doc.strip() else "",
        "doc": doc,
        "from": installed()[name].value if name in installed() else name,
        "options": choice_documents(declarations),
    }


def _page(metric: dict[str, Any]) -> str:
    if metric.get("broken"):
        return f"{metric['name']}\n\n{metric['summary']}"
    return "\n".join(
        [
            f"{metric['name']}  ({metric['level']} level, needs {', '.join(metric['requires'])})",
            "",
            metric["doc"],
            "",
            f"With its defaults it {'works' if metric['offline'] else 'does not work'} offline.",
            "",
            "Options and defaults (--option NAME=VALUE):",
            *choice_lines(metric["options"]),
        ]
    )


def _judges() -> list[str]:
    """Returns how accurate judges are: those with a name, and those that a recipe trains."""
    from levelfield.metrics.judges import figures

    lines = ["Judges by name (judges=NAME), share of texts judged correctly:"]
    for f in figures():
        right = f.accuracy / 100 if f.kind == "published" else f.accuracy
        n = f"n = {f.n:,}" if f.n else f.kind
        lines.append(f"  {f.judge:16} {f.attribute:10} {f.dataset:30} {n:12} {right:.1%}")
    lines += ["", "Judges that `levelfield train judge --recipe NAME` trains, on held-out texts:"]
    file = resources.files("levelfield.train.judge") / "figures.toml"
    for row in read_toml(file)["measured"]:
        figure = f"accuracy {row['accuracy']:.1%}, macro F1 {row['macro_f1']:.3f}"
        if "spearman" in row:
            figure = f"Spearman with the ratings {row['spearman']:.3f}"
        lines.append(f"  {row['recipe']:27} {row['dataset']:30} n = {row['n']:<8,} {figure}")
    return lines

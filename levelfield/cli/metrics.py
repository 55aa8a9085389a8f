"""`levelfield metrics`: the installed metrics, and what each one measures."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import click

from levelfield.cli.options import JSON, choice_documents, choice_lines
from levelfield.cli.terminal import tell, tell_json
from levelfield.core.errors import LevelfieldError, with_extra
from levelfield.core.extensions import METRICS, entries
from levelfield.metrics.catalogue import catalogue, claims_of, summary_of
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
    if not name and not as_json:
        tell(listing(_listed(_summary(each)) for each in entries(METRICS)))
        return
    from levelfield.core.registry import matching

    described = [_describe(each) for each in (matching(name) if name else entries(METRICS))]
    if as_json:
        tell_json(described, indent=2)
        return
    tell("\n\n".join(_page(metric) for metric in described))
    if any("judges" in metric.get("options", {}) for metric in described):
        tell("\n" + "\n".join(_judges()))


def _listed(metric: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    needs = ", ".join(metric["requires"])
    offline = "offline" if metric["offline"] else ""
    if metric.get("extra"):
        offline = f"requires the extra {metric['extra']}"
    facts = (metric["level"], needs and f"needs {needs}", offline)
    return f"{metric['name']:<30} {'; '.join(filter(None, facts))}".rstrip(), (metric["summary"],)


def _summary(name: str) -> Mapping[str, Any]:
    """Returns what the list says of a metric; imports and resolves nothing of this package's."""
    entry = catalogue().get(entries(METRICS)[name].value)
    if entry is None:
        return _describe(name)
    return {
        "name": name,
        "level": entry.level,
        "requires": entry.requires,
        "offline": entry.works_offline,
        "summary": entry.summary,
        "extra": entry.missing_extra,
    }


def _describe(name: str) -> dict[str, Any]:
    """Describes a metric without loading a model; for a broken one, why it is broken."""
    from levelfield.core.direction import direction_of, higher_is_better
    from levelfield.core.registry import installed, metric_class, options
    from levelfield.scoring.metrics import works_offline

    try:
        metric = metric_class(name)
        declarations = options(metric, name=name)
        entry = catalogue().get(installed()[name].value) if name in installed() else None
        extra = entry.missing_extra if entry else ""
        offline = not extra and works_offline(metric)
    except LevelfieldError as error:
        unknown = {"name": name, "level": "", "requires": [], "offline": False}
        return {**unknown, "summary": str(error), "broken": True}
    level, requires = claims_of(metric)
    direction = None
    with contextlib.suppress(AttributeError, ValueError):
        direction = direction_of(metric)
    return {
        "name": name if name in installed() else getattr(metric, "name", name),
        "level": level,
        "requires": requires,
        "higher_is_better": higher_is_better(direction) if direction else None,
        "offline": offline,
        **({"extra": extra} if extra else {}),
        "summary": summary_of(metric),
        "doc": inspect.getdoc(metric) or "",
        "from": installed()[name].value if name in installed() else name,
        "options": choice_documents(declarations),
    }


def _page(metric: dict[str, Any]) -> str:
    if metric.get("broken"):
        return f"{metric['name']}\n\n{metric['summary']}"
    install = f": {with_extra(metric['extra'])}." if "extra" in metric else "."
    return "\n".join(
        [
            f"{metric['name']}  ({metric['level']} level, needs {', '.join(metric['requires'])})",
            "",
            metric["doc"],
            "",
            f"With its defaults it {'works' if metric['offline'] else 'does not work'} offline"
            f"{install}",
            "",
            "Options and defaults (--option NAME=VALUE):",
            *choice_lines(metric["options"]),
        ]
    )


def _judges() -> Sequence[str]:
    """Returns how accurate judges are: those with a name, and those that a recipe trains."""
    from importlib import resources

    from levelfield.io.toml import read_toml
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

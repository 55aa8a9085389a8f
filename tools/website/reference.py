"""The reference: commands, metrics, techniques and the Python interface, from what they say of
themselves."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click

from levelfield.cli import levelfield
from levelfield.cli.options import DeclaredOption
from levelfield.core.options import Declaration, Options, choices
from levelfield.core.registry import installed, metric_class
from levelfield.generation.table import TECHNIQUES, TechniqueEntry, technique_class
from tools.option_tables import HEAD, row
from tools.website.docstrings import markdown, shown
from tools.website.pages import ROOT, Page, place_of

PYTHON = {
    "levelfield": "The verbs",
    "levelfield.generation": "Generating",
    "levelfield.study": "Studies",
    "levelfield.metrics": "Metrics",
    "levelfield.datasets": "Data sets",
    "levelfield.io": "Reading and writing",
    "levelfield.show": "Pages and tables",
}
"""Modules whose exported names the reference explains."""

_WIDTH = 88


def reference_pages() -> Iterator[Page]:
    """Yields the pages of the reference."""
    yield _overview()
    for name, command in _commands():
        yield Page(f"reference/commands/{name}.md", "\n".join(_command(name, command)))
    for family, names in _families().items():
        yield Page(f"reference/metrics/{family}.md", "\n".join(_metrics(family, names)))
    for entry in TECHNIQUES.values():
        yield Page(f"reference/techniques/{entry.name}.md", "\n".join(_technique(entry)))
    for module in PYTHON:
        yield Page(f"reference/python/{module}.md", "\n".join(_module(module)))


def _overview() -> Page:
    lines = [
        "# Reference",
        "",
        "Everything here is written by the program itself: from `--help`, from the declarations of",
        "options, and from docstrings.",
        "",
        "## Commands",
        "",
        *(
            f"- [levelfield {n}](commands/{n}.md): {_first_sentence(c.help)}"
            for n, c in _commands()
        ),
        "",
        "## Metrics",
        "",
        *(
            f"- [{family}](metrics/{family}.md): {_metric_list(n)}"
            for family, n in _families().items()
        ),
        "",
        "## Techniques of controlled generation",
        "",
        *(f"- [{n}](techniques/{n}.md): {shown(e.summary)}" for n, e in TECHNIQUES.items()),
        "",
        "## Python",
        "",
        *(f"- [{m}](python/{m}.md): {title.lower()}" for m, title in PYTHON.items()),
        "",
    ]
    return Page("reference/index.md", "\n".join(lines))


# -- commands


def _commands() -> list[tuple[str, click.Command]]:
    context = click.Context(levelfield, info_name="levelfield")
    named = [
        (name, levelfield.get_command(context, name)) for name in levelfield.list_commands(context)
    ]
    return sorted((name, command) for name, command in named if command is not None)


def _command(name: str, command: click.Command, level: int = 1) -> Iterator[str]:
    """Yields the lines about a command, and about those below it."""
    context = click.Context(command, info_name=f"levelfield {name}")
    yield f"{'#' * level} levelfield {name}"
    yield ""
    yield "```text"
    yield f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    yield "```"
    yield ""
    yield _help(command.help)
    yield ""
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    yield from _rows(_option(option) for option in options)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            below = command.get_command(context, inner)
            if below is not None and not below.hidden:
                yield from _command(f"{name} {inner}", below, level + 1)


def _help(text: str | None) -> str:
    """Returns the help of a command as Markdown; `\\b` begins a block that keeps its lines."""
    blocks = re.split(r"\n\s*\n", inspect.cleandoc(text or ""))
    shown = []
    for block in blocks:
        if block.startswith("\b"):
            shown.append(f"```text\n{block.removeprefix(chr(8)).strip(chr(10))}\n```")
        else:
            shown.append(re.sub(r"([*_<|])", r"\\\1", block))
    return "\n\n".join(shown)


def _option(option: click.Option) -> str:
    if isinstance(option, DeclaredOption):
        return row(option.choice, flags=True, metavars=True)
    context = click.Context(click.Command("x"))
    record = option.get_help_record(context)
    help = option.help or ""
    values = "" if option.is_flag or record is None else option.make_metavar(context)
    default = option.get_help_extra(context).get("default", "")
    cells = (
        ", ".join(f"`{word}`" for word in option.opts),
        f"`{values}`" if values else "",
        "required" if option.required else f"`{default}`" if default else "",
        help,
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


# -- metrics


def _families() -> dict[str, list[str]]:
    return {
        family: list(names)
        for family, names in itertools.groupby(sorted(installed()), lambda n: n.partition(".")[0])
    }


def _metrics(family: str, names: Sequence[str]) -> Iterator[str]:
    yield f"# {family}: metrics"
    yield ""
    yield f"Choose with `--metric {names[0]}`"
    yield f"or the whole family with `--metric {family}`." if len(names) > 1 else "."
    yield ""
    for name in names:
        metric = metric_class(name)
        yield f"## {name}"
        yield ""
        needs = ", ".join(sorted(getattr(metric, "requires", ())))
        yield f"One value {_PER[metric.level]}; needs {needs}. In Python"  # type: ignore[attr-defined]
        yield f"`levelfield.metrics.{metric.__name__}`."
        yield ""
        yield markdown(metric)
        yield from _table(choices(metric).values())


_PER = {"sample": "a text", "corpus": "a group of texts"}


def _first_sentence(text: str | None) -> str:
    return shown(" ".join(inspect.cleandoc(text or "").partition("\n\n")[0].split()))


def _metric_list(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


# -- techniques


def _technique(entry: TechniqueEntry) -> Iterator[str]:
    cls = technique_class(entry.name)
    yield f"# {entry.name}: technique"
    yield ""
    yield markdown(cls)
    yield f"- Controls {shown(entry.controls)}."
    yield f"- Control enters at: {entry.mechanism}."
    yield f"- Cost a token: {shown(entry.cost)}. {_COST}"
    yield from ([f"- Paper: {entry.paper}."] if entry.paper else [])
    yield f"- In Python: `levelfield.generation.{cls.__name__}`."
    if entry.documentation:
        page = place_of(ROOT / entry.documentation)
        yield f"- [Explanation, examples and results](../../{page})"
    yield ""
    yield from _table(choices(cls).values())


_COST = "F is a forward pass of the base model, B a pass back through it."


# -- Python


def _module(name: str) -> Iterator[str]:
    """Yields the lines about a module: what it exports, and what that returns."""
    module = importlib.import_module(name)
    members = {key: getattr(module, key) for key in module.__all__ if not key.startswith("__")}
    documented = {key: value for key, value in members.items() if _is_documented(value)}
    elsewhere = {
        key: value
        for key, value in documented.items()
        if isinstance(value, type) and value in _explained_elsewhere(name)
    }
    here = {key: value for key, value in documented.items() if key not in elsewhere}
    yield f"# {name}"
    yield ""
    yield markdown(module)
    if elsewhere:
        yield "## Classes with pages of their own"
        yield ""
        for key, value in elsewhere.items():
            yield f"- [`{key}`]({_explained_elsewhere(name)[value]}): {_first_line(value)}"
        yield ""
    for key, value in here.items():
        yield from _member(f"{name}.{key}", key, value)
    results = _results(here.values())
    if results:
        yield "## Results"
        yield ""
        for cls in results:
            yield from _member(f"{name}.{cls.__name__}", cls.__name__, cls, level=3)


def _is_documented(value: object) -> bool:
    return callable(value) and bool(inspect.getdoc(value))


@functools.cache
def _explained_elsewhere(module: str) -> dict[Callable[..., object], str]:
    """Returns classes of metrics and techniques -> where the reference explains them."""
    if module == "levelfield.metrics":
        return {
            metric_class(name): f"../metrics/{name.partition('.')[0]}.md#{_anchor(name)}"
            for name in installed()
        }
    if module == "levelfield.generation":
        return {
            cls: f"../techniques/{name}.md"
            for name in TECHNIQUES
            if isinstance(cls := technique_class(name), type)
        }
    return {}


def _results(members: Iterable[object]) -> list[type]:
    """Returns the package's classes that functions and methods of members return."""
    members = list(members)
    results: dict[type, None] = {}
    functions: list[Any] = [m for m in members if inspect.isfunction(m)]
    methods = [f for m in members if isinstance(m, type) for _, f in _methods(m)]
    functions += [f.fget if isinstance(f, property) else f for f in methods]
    for function in functions:
        for cls in _returned(function):
            if cls not in members and cls.__module__.startswith("levelfield"):
                results[cls] = None
    return list(results)


def _returned(function: Callable[..., Any]) -> Iterator[type]:
    """Yields the classes that the annotation of a function's return value names."""
    annotation = inspect.signature(function).return_annotation
    if isinstance(annotation, str):
        scope = vars(sys.modules[function.__module__])
        for word in re.findall(r"[A-Z]\w+", annotation):
            if isinstance(cls := scope.get(word), type):
                yield cls
    elif isinstance(annotation, type):
        yield annotation


def _member(path: str, name: str, value: Any, level: int = 2) -> Iterator[str]:
    """Yields the lines about a function or a class."""
    yield f"{'#' * level} {name} {{ #{_anchor(path)} }}"
    yield ""
    yield from _signature(name, value)
    yield markdown(value)
    declared = getattr(value, "__choices__", {})
    if isinstance(value, type) and issubclass(value, Options):
        declared = choices(value)
    if declared:
        yield "**Options**"
        yield ""
        yield from _table(declared.values())
    if isinstance(value, type):
        for method, function in _methods(value):
            yield f"{'#' * (level + 1)} {name}.{method} {{ #{_anchor(f'{path}.{method}')} }}"
            yield ""
            if not isinstance(function, property):
                yield from _signature(method, function)
            yield markdown(function)
            declared = getattr(function, "__choices__", {})
            if declared:
                yield "**Options**"
                yield ""
                yield from _table(declared.values())


def _methods(cls: type) -> list[tuple[str, Any]]:
    """Returns public methods and properties that have docstrings, as the class lists them."""
    return [
        (name, getattr(value, "__func__", value))
        for name, value in vars(cls).items()
        if not name.startswith("_")
        and isinstance(value, property | classmethod | staticmethod | types.FunctionType)
        and getattr(value, "__doc__", None)
    ]


def _signature(name: str, function: Any) -> Iterator[str]:
    """Yields a block with the signature; options are in a table of their own."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    declared = {**getattr(function, "__choices__", {})}
    if isinstance(function, type) and issubclass(function, Options):
        declared = choices(function)
    words = []
    kind = None
    for parameter in signature.parameters.values():
        if parameter.name in declared or parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and kind not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            words.append("*")
        kind = parameter.kind
        words.append(_parameter(parameter))
    if declared:
        words.append("**options")
    arrow = signature.return_annotation
    end = (
        ""
        if arrow in (signature.empty, None, "None") or isinstance(function, type)
        else (f" -> {_annotation(arrow)}")
    )
    line = f"{name}({', '.join(words)}){end}"
    if len(line) > _WIDTH:
        line = "\n".join([f"{name}(", *(f"    {word}," for word in words), f"){end}"])
    yield f"```python\n{line}\n```"
    yield ""


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
    stars = "**" if parameter.kind is parameter.VAR_KEYWORD else stars
    has_type = parameter.annotation is not parameter.empty
    annotation = f": {_annotation(parameter.annotation)}" if has_type else ""
    default = ""
    if parameter.default is not parameter.empty:
        value = parameter.default
        shown = repr(value) if isinstance(value, str | int | float | bool | tuple | None) else "…"
        shown = "{}" if value == {} else shown
        default = f" = {shown}" if annotation else f"={shown}"
    return f"{stars}{parameter.name}{annotation}{default}"


def _annotation(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", text)


# -- what they share


def _table(declared: Iterable[Declaration]) -> Iterator[str]:
    yield from _rows(row(choice, flags=False) for choice in declared)


def _rows(rows: Iterable[str]) -> Iterator[str]:
    """Yields a table of options, if there are any."""
    rows = list(rows)
    if rows:
        yield from ('<div class="options" markdown="1">', "", *HEAD, *rows, "", "</div>", "")


def _first_line(subject: object) -> str:
    first = (inspect.getdoc(subject) or "").partition("\n\n")[0]
    return shown(" ".join(first.split()))


def _anchor(name: str) -> str:
    """Returns the anchor of a heading that is a name."""
    return re.sub(r"[^\w-]", "", name).lower()

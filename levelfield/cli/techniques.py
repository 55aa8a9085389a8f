"""`levelfield techniques`: the techniques, and what each one does."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import Any

import click

from levelfield.cli.options import JSON, choice_documents, choice_lines
from levelfield.cli.terminal import tell, tell_json
from levelfield.core.options import choices
from levelfield.generation.table import TECHNIQUES, TechniqueEntry, technique_class, technique_entry
from levelfield.show.terminal import listing


@click.command()
@click.argument("name", required=False)
@JSON
def techniques(name: str | None, as_json: bool) -> None:
    """List techniques of controlled generation, or explain the one called NAME.

    The line of a technique says where control enters. Cost is in forward passes per token: F is
    one pass of the base model.
    """
    if name:
        described = _describe(technique_entry(name))
        if as_json:
            tell_json(described, indent=2)
        else:
            tell(_page(described))
        return
    if as_json:
        tell_json([_listed(entry) for entry in TECHNIQUES.values()], indent=2)
        return
    tell(
        listing(
            (
                f"{entry.name:<17} {entry.mechanism}",
                (f"controls: {entry.controls}", f"cost: {entry.cost}"),
            )
            for entry in TECHNIQUES.values()
        )
    )


def _listed(entry: TechniqueEntry) -> dict[str, Any]:
    document = asdict(entry)
    del document["documentation"], document["guide"]
    return {**document, "from": document.pop("target")}


def _describe(entry: TechniqueEntry) -> dict[str, Any]:
    """Returns the facts of a technique without loading a model."""
    technique = technique_class(entry.name)
    return {
        **_listed(entry),
        "doc": inspect.getdoc(technique) or "",
        "options": choice_documents(choices(technique)),
        "documentation": entry.documentation,
    }


def _page(technique: dict[str, Any]) -> str:
    doc = technique["doc"].partition("\nArgs:")[0].strip()
    facts = [
        ("controls", technique["controls"]),
        ("control enters at", technique["mechanism"]),
        ("cost a token", technique["cost"]),
        ("paper", technique["paper"]),
        ("documentation", technique["documentation"]),
    ]
    options = choice_lines(technique["options"])
    return "\n".join(
        [
            f"{technique['name']}: {technique['summary']}",
            "",
            *([doc, ""] if doc not in ("", technique["summary"]) else []),
            *(f"{name + ':':<19}{fact}" for name, fact in facts if fact),
            *(["", "Options and defaults (--option NAME=VALUE):", *options] if options else []),
        ]
    )

"""`levelfield environment`: separate environments, for metrics that can't run in ours."""

from __future__ import annotations

import click

from levelfield.cli.options import JSON
from levelfield.cli.outputs import OutputType, Writing
from levelfield.cli.terminal import say, tell, tell_json
from levelfield.metrics import environments

_NAME = click.argument("name")
_PATH = click.option(
    "--path",
    type=OutputType(),
    help="Folder to use instead of the default; --option environment=FOLDER passes it to a metric.",
)


@click.group()
def environment() -> None:
    """Manage environments for metrics with conflicting requirements.

    They are in $LEVELFIELD_ENVIRONMENTS, else in the user's data folder.
    """


@environment.command(cls=Writing)
@_NAME
@_PATH
def create(name: str, path: str | None) -> None:
    """Make the environment NAME with pip, from the sources that pip is configured for."""
    new = environments.create(name, path or "", report=say)
    tell(f"{new.name}: {environments.recipe(name).package} {new.version} in {new.path}")


@environment.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the available environments, and show which are on this machine."""
    rows = []
    for name, recipe in environments.RECIPES.items():
        built = environments.look(name)
        state = (
            "not here" if built is None else "ready" if built.is_complete else "was not finished"
        )
        rows.append(
            {
                "name": name,
                "requirements": list(recipe.requirements),
                "state": state,
                "version": built.version if built else "",
                "path": str(environments.folder(name)),
            }
        )
    if as_json:
        tell_json(rows)
        return
    for row in rows:
        tell(f"{row['name']}: {row['state']} {row['version']}".rstrip())
        tell(f"  {row['path']}")


@environment.command(cls=Writing)
@_NAME
@_PATH
def remove(name: str, path: str | None) -> None:
    """Remove the environment NAME from this machine."""
    where = environments.folder(name, path or "")
    gone = environments.remove(name, path or "")
    tell(f"{where}: {'removed' if gone else 'no environment there'}")

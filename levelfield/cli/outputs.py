"""Options and arguments that name files: what is read, and what is written; and how results are
delivered.

Every command that writes is a `Writing` command, and each of its outputs has the type `OutputType`,
so that all are checked, before the work, by the one rule of `levelfield.io.outputs`.
"""

from __future__ import annotations

import functools
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from levelfield.cli.terminal import say, say_note, tell_json
from levelfield.core.errors import UserError
from levelfield.core.paths import existing_path, user_path

if TYPE_CHECKING:
    from levelfield.io.outputs import OutputTarget

F = TypeVar("F", bound=Callable[..., Any])

_FORCE = "levelfield.force"


class InputType(click.types.StringParamType):
    """A file or folder that is read."""

    name = "file"


INPUT = InputType()
CORPUS = click.argument("corpus", nargs=-1, required=True, metavar="CORPUS...", type=INPUT)


class OutputType(click.types.StringParamType):
    """A file or folder that is written.

    Args:
        kind: of a file, in `levelfield.io.outputs`; without it, and if not `new`, it is a folder.
        files: name -> kind of the files in a folder, as far as they are known beforehand.
        new: a file that is never one that is there.
    """

    def __init__(
        self, kind: str = "", *, files: Mapping[str, str] | None = None, new: bool = False
    ) -> None:
        self.name = "file" if kind or new else "folder"
        self.kind = kind
        self.files = files or {}
        self.new = new

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        path = super().convert(value, param, ctx)
        return str(user_path(path)) if path.startswith("~") else path

    def target(self, param: click.Parameter, path: str) -> OutputTarget:
        """Returns the target to check."""
        from levelfield.io.outputs import OutputTarget

        option = param.opts[0] if isinstance(param, click.Option) else param.human_readable_name
        return OutputTarget(option, path, self.kind, self.files, self.new)

    @property
    def can_be_forced(self) -> bool:
        """Whether files of another kind may be in the way."""
        return bool(self.files or self.kind)


def out_option(kind: str, help: str, default: str | None = None) -> Callable[[F], F]:
    """Returns the option `--out` of a command that always writes one file of a kind, or one
    folder."""
    type = OutputType(kind)
    if default is None:
        return click.option("--out", required=True, type=type, help=help)
    return click.option("--out", type=type, default=default, show_default=True, help=help)


def files_option(
    *names: str, help: str, metavar: str = "FILE", required: bool = True
) -> Callable[[F], F]:
    """Returns an option that names files to read, one at least if it is required."""
    return click.option(
        *names, multiple=True, required=required, metavar=metavar, type=INPUT, help=help
    )


def _remember(ctx: click.Context, _option: click.Parameter, force: bool) -> None:
    ctx.meta[_FORCE] = force


_FORCE_OPTION = click.Option(
    ["--force"],
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Overwrite files of another kind.",
)


class Writing(click.Command):
    """A command with outputs: checks them before it does anything, and has `--force`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        types = [param.type for param in self.params]
        if any(isinstance(type, OutputType) and type.can_be_forced for type in types):
            self.params.append(_FORCE_OPTION)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command.

        Raises:
            UserError: an output would take the place of something, or two want stdout.
        """
        targets = [
            param.type.target(param, path)
            for param in self.params
            if isinstance(param.type, OutputType)
            for path in _values(ctx, param)
        ]
        on_stdout = [f"{target.option} -" for target in targets if target.path == "-"]
        as_json = bool(ctx.params.get("as_json"))
        if len(on_stdout) + as_json > 1:
            raise UserError(f"only one of {', '.join([*on_stdout, '--json'])} can write to stdout")
        check_outputs(targets)
        return super().invoke(ctx)


def check_outputs(targets: Sequence[OutputTarget]) -> None:
    """Checks outputs of the running command, such as one that it chose itself.

    Raises:
        UserError: one would take the place of something.
    """
    from levelfield.io.outputs import check_targets

    ctx = click.get_current_context()
    check_targets(targets, list(_inputs(ctx)), force=is_forced())


def is_forced() -> bool:
    """Returns whether the command that runs was given `--force`."""
    return bool(click.get_current_context().meta.get(_FORCE, False))


def _inputs(ctx: click.Context) -> Iterator[str]:
    """What the command reads: its inputs, and files and folders that its other arguments name, as
    in `--option iwf=FILE`, `--model FOLDER` and `--metric FILE:CLASS`."""
    for param in ctx.command.params:
        if ctx.get_parameter_source(param.name or "") is ParameterSource.DEFAULT:
            continue
        for word in _values(ctx, param):
            if isinstance(param.type, InputType):
                yield word
            elif not isinstance(param.type, OutputType):
                named = (word, word.partition("=")[2], word.rpartition(":")[0])
                yield from (str(path) for name in named if (path := existing_path(name)))


def _values(ctx: click.Context, param: click.Parameter) -> Iterator[str]:
    """Yields the strings that a parameter was given."""
    value = ctx.params.get(param.name or "")
    values = value if isinstance(value, tuple) else (value,)
    yield from (word for word in values if isinstance(word, str))


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """How a command delivers its result: as JSON, as pages, else as a table.

    Attributes:
        as_json: whether it is one JSON document on stdout.
        files: `report`, `latex` or `markdown` -> the file of this form, where there is to be one.
    """

    as_json: bool
    files: Mapping[str, str]

    def give(
        self,
        result: Any,
        show: Callable[[Any], object],
        *,
        page: Callable[[str], object] | None = None,
        written: Iterable[str | None] = (),
        notes: Iterable[str] = (),
    ) -> None:
        """Prints the notes, writes the files, prints the result, and names the files written.

        Args:
            result: has `to_dict`, and `to_latex` and `to_markdown` where the command has these.
            show: prints it for people; called if neither JSON nor a file has stdout.
            page: writes the report to a file.
            written: files that the command wrote itself.
        """
        from levelfield.io.writing import atomic_writer

        for note in notes:
            say_note(note)
        for form, path in self.files.items():
            if form == "report" and page:
                page(path)
            else:
                with atomic_writer(path) as file:
                    file.write(getattr(result, f"to_{form}")())
        paths = [*filter(None, written), *self.files.values()]
        if self.as_json:
            tell_json(result.to_dict())
        elif "-" not in paths:
            show(result)
        if files := [path for path in paths if path != "-"]:
            say(f"wrote {', '.join(files)}")


_FORMS = {
    "report": ("a page of levelfield", "Write a report page: one HTML file."),
    "latex": ("LaTeX tables", "Write the table as LaTeX for booktabs; - is stdout."),
    "markdown": ("Markdown tables", "Write the table as Markdown."),
}
"""Form of a file -> its kind, and the help."""


def with_params(
    params: Sequence[click.Parameter], value: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[F], Callable[..., Any]]:
    """Adds parameters to a command, which receives what `value` makes of their values.

    Args:
        params: in the order in which they are listed.
        value: name -> value of all parameters of the command, without those that it takes out ->
            what the command gets for them.
    """

    def add(command: F) -> Callable[..., Any]:
        @functools.wraps(command)
        def extended(*args: Any, **words: Any) -> Any:
            values = value(words)
            return command(*args, **values, **words)

        extended.__dict__.setdefault("__click_params__", []).extend(reversed(params))
        return extended

    return add


def delivers(
    *forms: str, json: str = "Print everything as one JSON document on stdout.", **helps: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds the common outputs to a command, which receives them as one `delivery`.

    Args:
        forms: of its files, in the order in which they are listed.
        json: the help of `--json`.
        helps: form of a file -> its help, where it is not the usual one.
    """

    params = [click.Option(["--json", "as_json"], is_flag=True, help=json)]
    for form in forms:
        kind, help = _FORMS[form]
        params.append(
            click.Option([f"--{form}"], type=OutputType(kind), help=helps.get(form, help))
        )

    def value(words: dict[str, Any]) -> dict[str, Any]:
        paths = {form: words.pop(form) for form in forms}
        files = {form: path for form, path in paths.items() if path}
        return {"delivery": Delivery(as_json=words.pop("as_json"), files=files)}

    return with_params(params, value)


def command_line() -> str:
    """The command that runs, as a shell reads it."""
    return shlex.join(["levelfield", *sys.argv[1:]])

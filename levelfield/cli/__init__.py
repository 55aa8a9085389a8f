"""The command line: one file a command group, imported when the group is used.

Other distributions add commands by entry points of the group `levelfield.commands`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from levelfield.cli.terminal import orderly_end, say, tell
from levelfield.core.errors import LevelfieldError, UserError, first_line, models_needed
from levelfield.core.extensions import Extensible, Verb
from levelfield.version import __version__

_HELP = {
    "score": "Score texts, compare systems.",
    "compare": "Compare systems, or the logs of two runs, pair by pair.",
    "generate": "Generate texts under control.",
    "calibrate-strength": "Find the strength that a budget allows a technique.",
    "correlate": "Measure how well metrics agree with people.",
    "agreement": "Measure how well raters agree.",
    "strengths": "Estimate strengths of systems from choices and rankings.",
    "estimate": "Estimate mean ratings from few ratings and many scores.",
    "plan": "Compute how large a study must be.",
    "study": "Run, audit and report a comparison of systems.",
    "metrics": "List the metrics, or explain one.",
    "techniques": "List the techniques of controlled generation, or explain one.",
    "data": "List and fetch rated texts, prompts and labelled texts.",
    "train": "Train models and build files that metrics need.",
    "environment": "Manage environments for metrics with conflicting requirements.",
    "cache": "Show or empty the cache of values.",
}
"""Every command of `levelfield.cli.NAME`, with one line for `--help`."""

_COMMANDS: Mapping[str, Verb] = Extensible(
    "levelfield.commands",
    Verb,
    {
        name: Verb(f"levelfield.cli.{module}:{module}", help)
        for name, help in _HELP.items()
        for module in [name.replace("-", "_")]
    },
)

_ELSEWHERE = {
    "rate": "levelfield-rating",
    "reproduce": "levelfield-reproductions",
    "convert": "levelfield-reproductions",
}
"""Commands of distributions beside this one, by the name that a user may type without them."""


class _NoReader(Exception):  # noqa: N818 (no error: whoever reads our output has seen enough)
    """The reader of our output has closed the pipe."""


class _Lazy(click.Group):
    """Groups are imported when they are called, so that `--help` does not wait for PyTorch."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:  # which click would end the program for
            raise _NoReader from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            if cmd_name in _ELSEWHERE:
                distribution = _ELSEWHERE[cmd_name]
                raise UserError(
                    f"`levelfield {cmd_name}` comes with {distribution}, which is not installed"
                )
            return None
        module, _, name = _COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Returns the commands and options that begin so; imports no command."""
        commands = [
            CompletionItem(name, help=verb.help)
            for name, verb in _COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="levelfield")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
@click.pass_context
def levelfield(ctx: click.Context, debug: bool) -> None:
    """Measure generated text, and measure the measures."""
    ctx.obj = debug


def main() -> None:
    """The program: errors are one line, 2 is the user's mistake, 1 is ours."""
    if _COMPLETE in os.environ:
        _complete()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a table must not fail on a sign of its own
            stream.reconfigure(errors="replace")
    debug = "--debug" in sys.argv
    if debug:
        sys.argv = [word for word in sys.argv if word != "--debug"]
    with orderly_end() as signals:
        code = _run(debug, signals)
    sys.exit(code or 0)


_COMPLETE = "_LEVELFIELD_COMPLETE"
"""The environment variable by which a shell asks for its completion script, or for completions."""


def _complete() -> NoReturn:
    """Answers a shell that completes a command line, and exits.

    A command line that can't be completed has no completions: a message would end up in it.
    """
    with contextlib.suppress(LevelfieldError):
        levelfield.main(prog_name="levelfield", complete_var=_COMPLETE)
    sys.exit(1)


def _run(debug: bool, signals: Sequence[int]) -> int | None:
    """Runs the command that `sys.argv` names; returns its exit code."""
    try:
        with models_needed():
            code: int | None = levelfield.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        tell(error.ctx.get_help() if error.ctx else "")
        code = 2
    except click.ClickException as error:
        where = (
            f"{error.ctx.command_path}: "
            if isinstance(error, click.UsageError) and error.ctx
            else ""
        )
        say(f"error: {where}{error.format_message()}")
        code = 2
    except _NoReader:
        # nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except BaseException as error:
        if debug:
            import traceback

            say(traceback.format_exc().rstrip())
        code, lines = _failure(error, signals)
        for line in lines:
            say(line)
    return code


def _failure(error: BaseException, signals: Sequence[int]) -> tuple[int, list[str]]:
    """Returns the exit code and the message of a command that failed."""
    match error:
        case LevelfieldError():
            return error.exit_code, [f"error: {line}" for line in str(error).split("\n")]
        case KeyboardInterrupt() | click.Abort():
            # click turns one into the other, and keeps what was said of it as the cause
            message = str(error) or str(error.__cause__ or "")
            how = "ended by a signal" if signals else "interrupted"
            line = ": ".join(filter(None, (how, message)))
            return 128 + (signals[0] if signals else signal.SIGINT), [line]
        case OSError():
            return 2, [f"error: {_system_error(error)}"]
        case SystemExit():  # not of click, which is told to raise none
            how = f"the program exited half way, with {error.code!r}"
            return 1, [f"error: this is a bug in levelfield: {how}"]
        case MemoryError():
            return 1, ["error: not enough memory; try fewer or shorter texts at once"]
    mistake = f"{type(error).__name__}: {first_line(error)}"
    return 1, [
        f"error: this is a bug in levelfield: {mistake}",
        "for the traceback, run the same command with --debug",
    ]


def _system_error(error: OSError) -> str:
    """Returns why the operating system refused an operation, with the path if there is one."""
    from levelfield.io.problems import shown

    reason = error.strerror or first_line(error)
    if error.filename is None:
        return reason
    return f"{shown(str(error.filename), 200)}: {reason}; check the path"

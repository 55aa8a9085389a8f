"""Answers of a system, from a command, a Python callable, existing files, or a technique of ours.

Whatever the source, an answer belongs to a request by its id (texts of files also by prompt and
control), never by its place in the output; the first answer to a request counts; and all that is
wrong with the rest is counted and said with an example.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.machine import usable_processors
from levelfield.core.strings import did_you_mean, one_line
from levelfield.generation.contract import Decoding, Technique
from levelfield.generation.table import TechniqueFile, make_technique
from levelfield.study.ask.attempt import Attempt, Endpoint
from levelfield.study.ask.files import read
from levelfield.study.ask.processes import SystemProcess
from levelfield.study.ask.requests import Intake, TimedAnswer, request_record
from levelfield.study.cells import CellKey, CellRequest, SystemAnswer
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    FilesSource,
    Source,
    TechniqueSource,
)


def technique_identity(source: TechniqueSource) -> list[str]:
    """The signature of a technique without our version, and every choice of decoding.

    Models and guides are in it by their checksums, and what no text depends on (batches, devices)
    is not. Our version is left out, so that texts stay when it changes. Of a class in a file,
    which nothing runs here, it is the file's digest and the options.

    Raises:
        UserError: a model or guide is not on this machine.
    """
    if file := TechniqueFile.parse(source.technique):
        return [file.signature(source.options), *_decoding_choices(source.decoding)]
    return identity(make_technique(source.technique, source.options), source.decoding)


def identity(technique: Technique, decoding: Decoding) -> list[str]:
    """The same of a technique that is there."""
    signature, _, _ = technique.signature.rpartition("|v:")
    return [signature, *_decoding_choices(decoding)]


def _decoding_choices(decoding: Decoding) -> list[str]:
    return [f"{name}:{choice}" for name, choice in decoding.choices.items()]


class TechniqueProcess(Endpoint):
    """The process of a technique: started for the first cell, kept for the others until it is
    closed. One that was closed is started again for the next attempt.

    Args:
        source: the technique.
        threads: that its libraries may use, unless OMP_NUM_THREADS says another number.
    """

    stays = True

    def __init__(self, source: TechniqueSource, threads: int) -> None:
        self.name = sys.executable
        self._source, self._threads = source, threads

    def open(self, requests: Sequence[CellRequest], seed: int) -> SystemProcess:
        """Sends the requests of a cell; memory is measured from now on."""
        cell = {
            "seed": seed,
            "identity": technique_identity(self._source),
            "requests": [request_record(request) for request in requests],
        }
        if self._system is None:
            self._system = self._start()
        else:
            self._system.restart_peak()
        self._system.send(json.dumps(cell).encode() + b"\n", last=False)
        return self._system

    def _start(self) -> SystemProcess:
        worker = [sys.executable, "-P", "-m", "levelfield.study.ask.technique_worker"]
        options, decoding = dict(self._source.options), asdict(self._source.decoding)
        words = [self._source.technique, json.dumps(options), json.dumps(decoding)]
        # in our own folder: a name in the options has to stand for what it does here
        environment = {"OMP_NUM_THREADS": str(self._threads), **os.environ}
        return SystemProcess([*worker, *words], environment, folder=None)


def lacking(target: str, folder: Path) -> str:
    """Returns why `MODULE:NAME` can't be called from a study file in this folder; empty if it can
    be, as far as the source tells.

    Nothing is imported. A name of the entry-point group is checked when the file is read.
    """
    module, colon, name = target.partition(":")
    if not colon:
        return ""
    path: list[str] = [str(folder), *sys.path]
    spec = None
    for step, part in enumerate(parts := module.split(".")):
        module = ".".join(parts[: step + 1])
        spec = _spec(module, path)
        if spec is None:
            return f"there is no module {module} beside the study file or installed; check the name"
        path = list(spec.submodule_search_locations or [])
        if not path and part != parts[-1] and len(parts) > step + 1:
            mend = f"write {module}:{name}" if parts[step + 1 :] == ["py"] else "check the name"
            return f"{module} is not a package; {mend}"
    source = Path(spec.origin) if spec and spec.origin else None
    if source is None or source.suffix != ".py":
        return ""
    try:
        tree = ast.parse(source.read_bytes())
    except (OSError, SyntaxError, ValueError) as error:
        return f"{source.name} can't be read: {one_line(error)}"
    names = set(_names(tree))
    first = name.split(".")[0]
    if first in names or names & {"*", "__getattr__"}:
        return ""
    hint = did_you_mean(first, names, form=f"{module}:{{}}".format, otherwise="check the name")
    return f"there is no {first} in {source.name}; {hint}"


def _spec(name: str, path: list[str]) -> ModuleSpec | None:
    """Returns where a module is, by the finders that an import asks."""
    for finder in sys.meta_path:
        with contextlib.suppress(ImportError, AttributeError):
            if spec := finder.find_spec(name, path):
                return spec
    # finders of what is built in, or installed for editing, know no path
    for finder in sys.meta_path:
        with contextlib.suppress(ImportError, AttributeError):
            if "." not in name and (spec := finder.find_spec(name, None)):
                return spec
    return None


def _names(tree: ast.AST) -> Iterator[str]:
    """Yields the names that a module binds, `*` where it takes those of another."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
                continue
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                yield node.id
        yield from _names(node)


class CommandEndpoint(Endpoint):
    """A command, or a callable as one: started again for every attempt."""

    stays = False

    def __init__(self, source: CommandSource | CallableSource, folder: Path) -> None:
        self._command, self._environment = _command(source)
        self.name = self._command[0]
        self._folder = folder

    def open(self, requests: Sequence[CellRequest], seed: int) -> SystemProcess:
        """Starts the command; it may read until it has all the requests."""
        ours = {**os.environ, "PYTHONUNBUFFERED": "1"}
        environment = {**ours, **self._environment, "LEVELFIELD_SEED": str(seed)}
        lines = "".join(json.dumps(request_record(request)) + "\n" for request in requests)
        self._system = SystemProcess(self._command, environment, self._folder)
        self._system.send(lines.encode(), last=True)
        return self._system


def _command(source: CommandSource | CallableSource) -> tuple[Sequence[str], Mapping[str, str]]:
    """What is started, and what is added to the environment."""
    if isinstance(source, CommandSource):
        return source.command, source.environment
    # -P: a file of the study that is named as a standard module must not take its place
    worker = [sys.executable, "-P", "-m", "levelfield.study.ask.callable_worker"]
    return [*worker, source.target, json.dumps(dict(source.options))], {}


@dataclass(frozen=True)
class AskOutcome:
    """How the requests to a system ended; the answers themselves went to `keep`.

    Attributes:
        problems: what was wrong, in words.
        failure: why requests are without answer; empty if none is.
        attempts: how often the system was started or read.
        peak_bytes: most memory its processes held at once; None if unknown.
        loading_s: seconds until a technique was ready; None of other sources.
        stopped: whether it ended because it was told to stop.
    """

    problems: tuple[str, ...] = ()
    failure: str = ""
    attempts: int = 0
    peak_bytes: int | None = None
    loading_s: float | None = None
    stopped: bool = False


def answer(
    source: Source,
    key: CellKey,
    requests: Sequence[CellRequest],
    *,
    folder: Path,
    workplace: Path,
    keep: Callable[[TimedAnswer], object],
    earlier: Collection[SystemAnswer] = (),
    stop: threading.Event | None = None,
    process: TechniqueProcess | None = None,
    started: Callable[[int], object] = lambda _: None,
) -> AskOutcome:
    """Asks a system for the answers that are not known yet.

    A command is started in a session of its own, is given all open requests, and is heard until
    it ends, its time is over, or we are told to stop; then all its processes are ended. Each valid
    answer goes to `keep` as soon as its line is complete. Requests that are still open are asked
    again, as often as the source's `retries` say. A line longer than 16 MiB is not an answer.
    Answers of more than `CELL_BYTES` in one attempt end the command.

    A technique does the same in a process that goes on with the next cell; it is ended where a
    command would be.

    Args:
        source: where answers come from.
        key: the cell; its names fill the pattern of files, its seed is `$LEVELFIELD_SEED`.
        requests: all of the cell.
        folder: of the study file.
        workplace: of the cell; has `stderr.txt` afterwards, if the command said something.
        keep: called with every answer that counts; what it raises ends the command and goes on.
        earlier: answers of an earlier run.
        stop: when set, the command is ended and what is open stays open.
        process: of a technique; without it, one of this cell's own.
        started: called with the number of each attempt before it begins.
    """
    intake = Intake(requests, earlier)
    if isinstance(source, FilesSource):
        reason = read(source, key, folder, intake, keep)
        return AskOutcome(intake.problems(), intake.failure(reason), attempts=1)
    if os.name != "posix":
        raise UserError("running a system requires Linux, macOS or another POSIX system")
    stderr = workplace / "stderr.txt"
    stderr.unlink(missing_ok=True)
    peak: int | None = None
    loading_s: float | None = None
    ends: list[str] = []
    attempts = 0
    spent_s = 0.0
    stopped = False
    endpoint: Endpoint
    if isinstance(source, TechniqueSource):
        endpoint = process or TechniqueProcess(source, usable_processors())
    else:
        endpoint = CommandEndpoint(source, folder)
    with contextlib.nullcontext() if process else contextlib.closing(endpoint):
        while not intake.is_complete() and attempts <= source.retries:
            attempts += 1
            started(attempts)
            attempt = Attempt(attempts, intake, keep, stop or threading.Event(), spent_s)
            end = attempt.run(endpoint, key.seed, source.timeout_s, stderr)
            peak = max(peak or 0, attempt.peak_bytes or 0) or None
            spent_s = attempt.spent_s
            if attempt.loading_s is not None:
                loading_s = (loading_s or 0.0) + attempt.loading_s
            if end.reason:
                ends.append(f"attempt {attempts}: {end.reason}")
            stopped = end.stopped
            if stopped or end.final:
                break
    failure = "" if stopped else intake.failure(ends[-1] if ends else "")
    return AskOutcome((*intake.problems(), *ends), failure, attempts, peak, loading_s, stopped)

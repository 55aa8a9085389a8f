"""Environments of their own, for packages whose requirements clash with ours.

An environment is a folder with a Python of its own, made by `create` and never imported from: a
small script of ours runs in it and answers on a pipe (`Worker`).
The file `levelfield-environment.json` in the folder describes it; its `packages` are written last,
so an environment without them was interrupted and is made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from levelfield.core import limits
from levelfield.core.errors import ModelError, UserError
from levelfield.core.paths import user_path
from levelfield.io.writing import file_replacement, is_temporary

Report = Callable[[str], None]
"""Called with each line that the tools say while an environment is made."""

_MARK = "levelfield-environment.json"

_LAST_BYTES = 1 << 16
"""Of stderr, in which its last line is looked for."""


@dataclass(frozen=True)
class EnvironmentRecipe:
    """What an environment is made of.

    Attributes:
        package: the one that it is for; its version is part of signatures.
        requirements: as pip reads them.
    """

    name: str
    package: str
    requirements: tuple[str, ...]


RECIPES: Mapping[str, EnvironmentRecipe] = {
    # COMET 2.2.7 wants transformers < 5 and numpy < 2; its trainer still imports pkg_resources
    "comet": EnvironmentRecipe("comet", "unbabel-comet", ("unbabel-comet==2.2.7", "setuptools<81"))
}


@dataclass(frozen=True)
class Environment:
    """An environment on this machine.

    Attributes:
        packages: name, in lower case -> version; empty if it was not finished.
    """

    name: str
    path: Path
    requirements: tuple[str, ...]
    packages: Mapping[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.path / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    @property
    def is_complete(self) -> bool:
        """Whether it was finished and its interpreter is still there."""
        return bool(self.packages) and self.python.exists()

    @property
    def version(self) -> str:
        """Of the package that it is for."""
        return self.packages.get(RECIPES[self.name].package, "")


def recipe(name: str) -> EnvironmentRecipe:
    """Returns the recipe of this name.

    Raises:
        UserError: there is none.
    """
    if name not in RECIPES:
        raise UserError(f"there is no environment '{name}'; there are {', '.join(RECIPES)}")
    return RECIPES[name]


def folder(name: str, path: str | Path = "") -> Path:
    """Where an environment lies: `path`, else in `$LEVELFIELD_ENVIRONMENTS`, else in the user's
    data folder."""
    if path:
        return user_path(path).absolute()
    chosen = os.environ.get("LEVELFIELD_ENVIRONMENTS")
    root = Path(chosen) if chosen else platformdirs.user_data_path("levelfield") / "environments"
    return user_path(root).absolute() / name


def look(name: str, path: str | Path = "") -> Environment | None:
    """Returns the environment in that folder, finished or not; None if there is none of ours."""
    recipe(name)
    where = folder(name, path)
    try:
        mark = json.loads((where / _MARK).read_text("utf-8"))
        if mark["name"] != name:
            return None
        return Environment(name, where, tuple(mark["requirements"]), dict(mark["packages"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find(name: str, path: str | Path = "") -> Environment:
    """Returns the environment, ready to use.

    Raises:
        UserError: it is not there or was not finished; says which command makes it.
    """
    environment = look(name, path)
    if environment is not None and environment.is_complete:
        return environment
    state = "does not exist" if environment is None else "is incomplete"
    option = f" --path {path}" if path else ""
    raise UserError(
        f"{name} runs in a separate environment, which {state} ({folder(name, path)}); "
        f"`levelfield environment create {name}{option}` makes it if there is a network"
    )


def create(name: str, path: str | Path = "", *, report: Report = lambda _: None) -> Environment:
    """Makes an environment, unless there already is one with the same requirements.

    One process at a time makes it; others wait and then use it. An interrupted environment is
    removed, or, if the process was killed, made again the next time.

    Raises:
        UserError: the folder is somebody else's, or Python's or pip's own words.
    """
    plan = recipe(name)
    where = folder(name, path)
    with _locked(where):
        existing = look(name, path)
        if (
            existing is not None
            and existing.is_complete
            and existing.requirements == plan.requirements
        ):
            return existing
        if existing is None and where.exists() and (where.is_file() or _holds_files(where)):
            raise UserError(
                f"{where} is not an environment of levelfield; name another with --path, or empty "
                "it yourself"
            )
        shutil.rmtree(where, ignore_errors=True)
        environment = Environment(name, where, plan.requirements)
        try:
            _write(environment)
            _run([sys.executable, "-m", "venv", str(where)], report)
            # pip reads its own configuration, so an index or folder of wheels named there is used
            pip = [str(environment.python), "-m", "pip", "install", "--disable-pip-version-check"]
            _run([*pip, *plan.requirements], report)
            environment = Environment(name, where, plan.requirements, _packages(environment.python))
            _write(environment)
        except OSError as error:
            shutil.rmtree(where, ignore_errors=True)
            raise UserError(
                f"environment {name} can't be made in {where}: {error.strerror or error}; name "
                "another folder with --path"
            ) from error
        except BaseException:  # also Ctrl-C: half an environment is of no use
            shutil.rmtree(where, ignore_errors=True)
            raise
    return environment


def remove(name: str, path: str | Path = "") -> bool:
    """Removes an environment; False if there was none of ours.

    Raises:
        UserError: it can't be removed.
    """
    where = folder(name, path)
    if look(name, path) is None:
        return False
    with _locked(where):
        try:
            (where / _MARK).unlink(missing_ok=True)
            shutil.rmtree(where)
        except OSError as error:
            raise UserError(f"{where} can't be removed: {error.strerror or error}") from error
    return True


class Worker:
    """A script of ours that runs in an environment and answers on a pipe.

    One JSON document a line in either direction: requests on its stdin, answers on its stdout,
    in order. What it or its libraries say otherwise goes to its stderr, of which the last line is
    shown if it dies. An answer `{"error": "…"}` is an error; any other answer is an object. It ends
    when it is closed or when this process ends.
    """

    def __init__(self, environment: Environment, script: Path) -> None:
        self._name = environment.name
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed in `close`
        try:
            self._process = subprocess.Popen(
                # isolated: neither our packages nor the user's reach it
                [str(environment.python), "-I", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                text=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise ModelError(
                f"{environment.python} can't be started: {error.strerror or error}; "
                f"`levelfield environment remove {environment.name}`, then create it again"
            ) from error

    def ask(self, message: Mapping[str, object]) -> dict[str, Any]:
        """Returns the answer to a message. An error of the pipe closes the worker.

        Raises:
            ModelError: the script says why, or has died, or answers with something else.
        """
        try:
            answer = self._exchange(json.dumps(message))
        except BaseException:  # an answer still to come would be taken for the next one's
            self.close()
            raise
        if "error" in answer:
            raise ModelError(f"{self._name}: {answer['error']}")
        return answer

    def _exchange(self, message: str) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        line = ""
        try:
            if stdin is not None and stdout is not None:
                stdin.write(message + "\n")
                stdin.flush()
                line = stdout.readline(limits.ANSWER_BYTES)
        except (OSError, ValueError):  # it has gone, or was closed: no line
            pass
        if len(line) >= limits.ANSWER_BYTES:
            most = f"{limits.ANSWER_BYTES:,} characters"
            raise ModelError(f"{self._name} answered with more than {most}; it was stopped")
        if not line.endswith("\n"):
            raise ModelError(f"{self._name} ended without an answer: {self._last_words()}")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ModelError(f"{self._name} answered with something else: {line.strip()[:200]!r}")
        return answer

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=10)
            size = self._said.seek(0, os.SEEK_END)
            self._said.seek(max(0, size - _LAST_BYTES))
            lines = self._said.read().decode("utf-8", "replace").split("\n")
        except (subprocess.TimeoutExpired, ValueError):
            return "it hangs"
        return next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {code}")

    @property
    def is_running(self) -> bool:
        """Whether it can be asked."""
        return not self._said.closed and self._process.poll() is None

    def close(self) -> None:
        """Ends it."""
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe is not None:
                    pipe.close()
            except OSError:  # it has gone already
                pass
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._said.close()


@contextlib.contextmanager
def _locked(where: Path) -> Iterator[None]:
    import filelock

    try:
        where.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(where.with_name(f".{where.name}.lock"))
        lock.acquire()
    except OSError as error:
        raise UserError(
            f"{where.parent} can't be written: {error.strerror or error}; name another folder with "
            "--path or in $LEVELFIELD_ENVIRONMENTS"
        ) from error
    try:
        yield
    finally:
        lock.release()


def _holds_files(where: Path) -> bool:
    return not all(is_temporary(path.name) for path in where.iterdir())


def _write(environment: Environment) -> None:
    environment.path.mkdir(parents=True, exist_ok=True)
    content = {
        "name": environment.name,
        "requirements": environment.requirements,
        "packages": dict(environment.packages),
    }
    with file_replacement(environment.path / _MARK) as path:
        path.write_text(json.dumps(content, indent=1), "utf-8")


def _run(command: Sequence[str], output: Report) -> None:
    """Runs a tool and passes its output on.

    Raises:
        UserError: it failed; its last words that say why.
    """
    last = ""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")},
    ) as process:
        try:
            for line in process.stdout or ():
                output(line.rstrip())
                if line.strip() and (line.startswith("ERROR") or not last.startswith("ERROR")):
                    last = line.strip()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        tool = "pip" if "pip" in command else "venv"
        raise UserError(
            f"the environment can't be made, {tool} says: {last.removeprefix('ERROR: ')}; it needs "
            "a network, or an index or wheels that pip's configuration names"
        )


_LIST = (
    "import importlib.metadata as m, json; "
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


def _packages(python: Path) -> dict[str, str]:
    done = subprocess.run(
        [str(python), "-I", "-c", _LIST], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(f"{python} does not run: {(done.stderr.splitlines() or ['?'])[-1]}")
    packages: dict[str, str] = json.loads(done.stdout)
    return packages

"""Environments of their own, for packages whose requirements clash with ours.

An environment is a folder with a Python of its own, made by `create` and never imported from: a
small script of ours runs in it and answers on a pipe (`levelfield.metrics.environments.worker`).
The file `levelfield-environment.json` in the folder says what it is; its `packages` are written
last, so an environment without them was interrupted and is made anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from levelfield.core.errors import UserError
from levelfield.io.writing import file_replacement, is_temporary

Said = Callable[[str], None]
"""Called with each line that the tools say while an environment is made."""

_MARK = "levelfield-environment.json"


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
        return Path(path).expanduser().absolute()
    chosen = os.environ.get("LEVELFIELD_ENVIRONMENTS")
    root = Path(chosen) if chosen else platformdirs.user_data_path("levelfield") / "environments"
    return root.expanduser().absolute() / name


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
    state = "is not there" if environment is None else "was not finished"
    option = f" --path {path}" if path else ""
    raise UserError(
        f"{name} runs in an environment of its own, which {state} ({folder(name, path)}); "
        f"`levelfield environment create {name}{option}` makes it, where there is a network"
    )


def create(name: str, path: str | Path = "", *, said: Said = lambda _: None) -> Environment:
    """Makes an environment, or leaves the one that is there if it has the same requirements.

    One process at a time makes it; another waits, and finds it made. What is interrupted is
    removed, or, if nothing was left to do that, made anew the next time.

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
            _run([sys.executable, "-m", "venv", str(where)], said)
            # pip reads its own configuration, so an index or folder of wheels named there is used
            pip = [str(environment.python), "-m", "pip", "install", "--disable-pip-version-check"]
            _run([*pip, *plan.requirements], said)
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


def _run(command: Sequence[str], output: Said) -> None:
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

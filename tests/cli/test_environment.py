"""`levelfield environment`: made whole or not at all, by one process at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from command_line import Run
from levelfield.core.errors import UserError
from levelfield.metrics import environments
from levelfield.metrics.environments import EnvironmentRecipe


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "environments"
    monkeypatch.setenv("LEVELFIELD_ENVIRONMENTS", str(folder))
    return folder


def made_of(monkeypatch: pytest.MonkeyPatch, *requirements: str) -> None:
    recipe = EnvironmentRecipe("comet", "smallest", requirements)
    monkeypatch.setattr(environments, "RECIPES", {"comet": recipe})


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that pip can install without a network."""
    path = tmp_path / "smallest-1.5-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("smallest.py", "answer = 42\n")
        info = "smallest-1.5.dist-info"
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: smallest\nVersion: 1.5\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    made_of(monkeypatch, str(path))
    return path


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The tools are not run: a list of what would have been."""
    ran: list[list[str]] = []

    def run(command, _):
        ran.append(list(command))
        if command[1:3] == ["-m", "venv"]:
            python = Path(command[3]) / "bin" / "python"
            python.parent.mkdir()
            python.symlink_to(sys.executable)

    made_of(monkeypatch, "smallest==1.5")
    monkeypatch.setattr(environments, "_run", run)
    monkeypatch.setattr(environments, "_packages", lambda _: {"smallest": "1.5"})
    return ran


@pytest.mark.slow
@pytest.mark.usefixtures("wheel")
def test_an_environment_is_made_listed_and_removed(run: Run, root: Path):
    assert run("environment", "list").out.startswith("comet: not here")
    ran = run("environment", "create", "comet")
    assert ran.code == 0, ran.err
    assert ran.out == f"comet: smallest 1.5 in {root / 'comet'}\n"
    made = environments.find("comet")
    answer = [str(made.python), "-I", "-c", "import smallest; print(smallest.answer)"]
    assert subprocess.run(answer, capture_output=True, text=True, check=True).stdout == "42\n"
    [listed] = run("environment", "list", "--json").json
    assert (listed["state"], listed["version"]) == ("ready", "1.5")
    assert "removed" in run("environment", "remove", "comet").out
    assert not (root / "comet").exists()
    assert "no environment there" in run("environment", "remove", "comet").out


@pytest.mark.slow
def test_what_pip_says_is_one_line_and_nothing_is_left(run: Run, root: Path, monkeypatch):
    made_of(monkeypatch, "./no-such-folder-anywhere")
    ran = run("environment", "create", "comet")
    assert ran.code == 2
    last = ran.err.splitlines()[-1]
    assert last.startswith("error: the environment can't be made, pip says: ")
    assert "no-such-folder-anywhere" in last
    assert "needs a network" in last
    assert not (root / "comet").exists()


def test_an_unknown_name_lists_the_known_ones(run: Run):
    assert run("environment", "create", "bleurt").complaint == (
        "there is no environment 'bleurt'; there are comet"
    )


@pytest.mark.usefixtures("root")
def test_what_is_there_is_left_unless_the_requirements_changed(pretend, monkeypatch):
    environments.create("comet")
    environments.create("comet")
    assert len(pretend) == 2  # venv and pip, once
    made_of(monkeypatch, "smallest==1.6")
    environments.create("comet")
    assert len(pretend) == 4
    assert environments.find("comet").requirements == ("smallest==1.6",)


@pytest.mark.usefixtures("pretend")
def test_an_interruption_leaves_nothing_and_the_next_time_makes_it(root, monkeypatch):
    def interrupted(_: Path) -> dict[str, str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(environments, "_packages", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environments.create("comet")
    assert not (root / "comet").exists()
    assert environments.create("comet").is_complete


@pytest.mark.usefixtures("root", "pretend")
def test_one_that_was_killed_half_way_is_not_used_and_is_made_anew():
    made = environments.create("comet")
    mark = made.path / "levelfield-environment.json"
    mark.write_text(json.dumps(json.loads(mark.read_text()) | {"packages": {}}))
    (made.path / "left-behind").touch()
    with pytest.raises(UserError, match="is incomplete"):
        environments.find("comet")
    environments.create("comet")
    assert environments.find("comet").is_complete
    assert not (made.path / "left-behind").exists()


@pytest.mark.usefixtures("root")
def test_two_at_once_make_it_once(pretend):
    threads = [threading.Thread(target=environments.create, args=("comet",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(pretend) == 2
    assert environments.find("comet").is_complete


def test_somebody_elses_folder_is_neither_filled_nor_removed(tmp_path: Path, run: Run, pretend):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    said = run("environment", "create", "comet", "--path", mine).complaint
    assert "is not an environment of levelfield" in said
    assert "no environment there" in run("environment", "remove", "comet", "--path", mine).out
    assert (mine / "letter.txt").read_text() == "dear"
    assert pretend == []


@pytest.mark.usefixtures("pretend")
def test_a_path_of_the_users_choice_is_used(tmp_path: Path, run: Run):
    assert run("environment", "create", "comet", "--path", tmp_path / "x").code == 0
    assert environments.find("comet", tmp_path / "x").version == "1.5"


@pytest.mark.usefixtures("pretend")
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path, run: Run):
    (tmp_path / "file").write_text("")
    said = run("environment", "create", "comet", "--path", tmp_path / "file" / "x").complaint
    assert "can't be written" in said

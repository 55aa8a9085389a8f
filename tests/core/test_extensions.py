"""Other distributions add commands, techniques, formats and data sets by entry points."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from levelfield.core import extensions
from levelfield.core.errors import UserError
from levelfield.core.extensions import Extensible, Verb

MODULE = '''
import click
from levelfield.core.extensions import Verb
from levelfield.datasets.registry import DataSet
from levelfield.generation.table import TechniqueEntry
from levelfield.io.formats import Format
from levelfield.io.logged import LogFacts

def rows(path):
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        prompt, text = line.split(" => ")
        yield number, {"prompt": prompt, "text": prompt + text}

@click.command()
def hello():
    """Say hello."""
    click.echo("hello from elsewhere")

def games(path):
    for number, line in enumerate(path.read_text("utf-8").splitlines()[1:], 1):
        player, game, points = line.split(" ")
        scores = {"points": float(points)}
        yield number, {
            "id": game, "text": "x", "system": player, "dataset": "chess",
            "logged": {"item": game, "scores": scores},
        }

def states(path):
    return LogFacts({("chess", "points"): float(path.read_text("utf-8").split()[1])})

def is_games(preview):
    return preview.content.startswith(b"GAMES ")

ARROWS = Format(rows, suffixes=(".arrows",))
GAMES = Format(games, unit="game ", fits=is_games, facts=states)
HELLO = Verb("elsewhere:hello", "Say hello.")
ECHO = TechniqueEntry("echo", "elsewhere:Echo", "none", "Says it again.", "nothing", "none", "")
FABLES = DataSet(
    name="fables", title="Fables", repository="a/b", commit="c", licence="CC0", citation="",
    row="a fable", rows=3, facts=(), parts={}, files=(), loader="", loose=False, default=(),
)
'''
ENTRIES = """
[levelfield.formats]
arrows = elsewhere:ARROWS
games = elsewhere:GAMES
broken = nowhere:NOTHING

[levelfield.commands]
hello = elsewhere:HELLO
score = elsewhere:HELLO
wrong = elsewhere:ECHO
absent = nowhere:NOTHING

[levelfield.techniques]
echo = elsewhere:ECHO

[levelfield.datasets]
fables = elsewhere:FABLES
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an installed distribution, for this process and for those that it starts."""
    folder = tmp_path / "installed"
    metadata = folder / "elsewhere-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    (folder / "elsewhere.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def levelfield(*words: str, code: int = 0) -> str:
    """Returns what a command prints that exits with this code: stderr where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "levelfield", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.fixture
def verbs(elsewhere: Path) -> Mapping[str, Verb]:
    assert elsewhere.is_dir()
    return Extensible("levelfield.commands", Verb, {"score": Verb("here:score", "Ours.")})


def test_names_of_levelfield_come_first_and_win(verbs: Mapping[str, Verb]):
    assert next(iter(verbs)) == "score"
    assert verbs["score"].target == "here:score"
    assert verbs["hello"] == Verb("elsewhere:hello", "Say hello.")
    assert {"score", "hello", "wrong", "absent"} <= set(verbs)
    assert len(verbs) == len(list(verbs))
    assert "nothing" not in verbs
    assert verbs.get("nothing") is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wrong", "entry point 'wrong' of levelfield.commands .* expected a Verb, got a Technique"),
        ("absent", "entry point 'absent' .* can't be loaded: ModuleNotFoundError: .*nowhere"),
    ],
)
def test_a_bad_entry_is_one_line_that_names_it(verbs: Mapping[str, Verb], name: str, message: str):
    with pytest.raises(UserError, match=message):
        verbs[name]


def test_an_installed_command_is_listed_and_run(elsewhere: Path):
    (elsewhere / "elsewhere-1.0.dist-info" / "entry_points.txt").write_text(
        "[levelfield.commands]\nhello = elsewhere:HELLO\n"
    )
    assert re.search(r"^  hello +Say hello\.$", levelfield("--help"), re.MULTILINE)
    assert levelfield("hello") == "hello from elsewhere\n"


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
def test_an_installed_format_reads_files_by_suffix_and_by_name(tmp_path: Path):
    (tmp_path / "a.arrows").write_text("It rained => all day.\nWe went => home.\n")
    (tmp_path / "b.txt").write_text("It rained => all day.\n")
    out = str(tmp_path / "scores.jsonl")
    words = ("--metric", "diversity.distinct-1", "--json", "--no-cache", "--out", out)
    assert '"n": 1' in levelfield("score", str(tmp_path / "a.arrows"), *words)
    assert "diversity" in levelfield("score", str(tmp_path / "b.txt"), "--format", "arrows", *words)


@pytest.mark.usefixtures("elsewhere")
def test_an_installed_format_of_logs_is_told_by_content_and_compared(tmp_path: Path):
    for player, points in (("ann", (1, 0, 1, 1)), ("bo", (0, 0, 0, 1))):
        lines = [f"{player} g{i} {value}" for i, value in enumerate(points)]
        mean = sum(points) / 4 if player == "ann" else 0.75
        path = tmp_path / f"{player}.txt"  # a suffix of another format
        path.write_text("\n".join([f"GAMES {mean}", *lines]))
    printed = levelfield("compare", *(str(tmp_path / f"{player}.txt") for player in ("ann", "bo")))
    assert "ann − bo = 0.500 " in printed
    assert "means equal to those that the logs state: 1" in printed


@pytest.mark.usefixtures("elsewhere")
def test_a_broken_format_is_named_where_no_other_fits(tmp_path: Path):
    path = tmp_path / "a.unknown"
    path.write_text("x")
    assert "entry point 'broken' of levelfield.formats" in levelfield("score", str(path), code=2)


@pytest.mark.usefixtures("elsewhere")
def test_installed_techniques_and_data_sets_are_listed():
    assert "echo" in levelfield("techniques")
    assert "Fables" in levelfield("data", "list")


def test_a_command_of_a_distribution_that_is_not_installed_says_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from levelfield import cli

    monkeypatch.setattr(extensions, "entries", lambda _: {})
    monkeypatch.setattr(sys, "argv", ["levelfield", "rate", "serve", "STUDY.toml"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert "comes with levelfield-rating, which is not installed" in capsys.readouterr().err

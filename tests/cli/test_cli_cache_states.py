"""A cache in any state: what is asked for are values, and they are right."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Ran, Run, Write, values
from levelfield.scoring.cache import SegmentCache, cache_path

N = 150


@pytest.fixture
def texts(write: Write) -> str:
    return write("t.jsonl", [{"id": str(i), "text": f"{i} " + "word " * i} for i in range(N)])


@pytest.fixture
def score(run: Run, texts: str, words: str) -> Callable[..., Ran]:
    """Scores, and sees to it that the values are right."""

    def score(*options: str) -> Ran:
        ran = run("score", texts, "-m", words, *options)
        assert ran.code == 0, ran.err
        assert values() == {(words, str(i)): i + 1 for i in range(N)}
        return ran

    return score


def notes(ran: Ran) -> list[str]:
    """The notes on stderr; there is nothing else beside what was written."""
    *said, wrote = ran.err.splitlines()
    assert wrote == "wrote scores.jsonl"
    assert all(line.startswith("note: ") for line in said)
    return said


def test_a_cache_that_can_not_be_made_is_a_note(
    score: Callable[..., Ran], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", f"{write('file', '')}/below")
    (note,) = notes(score())
    assert "no value of this run is stored" in note


def test_a_home_that_can_not_be_written_is_a_note(
    score: Callable[..., Ran], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEVELFIELD_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(Path(write("home", "")).resolve()))
    assert len(notes(score())) == 1


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_a_cache_file_that_may_not_be_written_is_a_note(score: Callable[..., Ran]) -> None:
    assert notes(score()) == []
    cache_path().parent.chmod(0o500)
    cache_path().chmod(0o400)
    notes(score("-o", "log=x"))


def test_a_cache_file_that_is_a_folder_is_a_note(score: Callable[..., Ran]) -> None:
    cache_path().mkdir(parents=True)
    assert len(notes(score())) == 1


def test_no_cache_asks_for_no_cache(
    score: Callable[..., Ran], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", f"{write('file', '')}/below")
    assert notes(score("--no-cache")) == []


@pytest.mark.parametrize(
    "content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000, b"x"]
)
def test_a_cache_file_that_is_no_cache_is_a_note(score: Callable[..., Ran], content: bytes) -> None:
    cache_path().parent.mkdir(parents=True, exist_ok=True)
    cache_path().write_bytes(content)
    assert len(notes(score())) <= 1  # of a single byte SQLite makes a new cache


def test_damaged_pages_of_a_cache_are_a_note(score: Callable[..., Ran]) -> None:
    assert notes(score()) == []
    raw = bytearray(cache_path().read_bytes())
    raw[4096:] = b"\xab" * (len(raw) - 4096)
    cache_path().write_bytes(raw)
    assert 1 <= len(notes(score())) <= 2


@pytest.mark.parametrize("damage", ["parts = x'00ff00'", "parts = x''", "value = NULL"])
def test_a_damaged_row_of_a_cache_is_scored_anew(score: Callable[..., Ran], damage: str) -> None:
    assert notes(score()) == []
    db = sqlite3.connect(cache_path())
    db.execute(f"UPDATE segments SET {damage}")
    db.commit()
    db.close()
    score()


def test_a_cache_of_another_version_is_a_note_and_its_mend_works(
    score: Callable[..., Ran], run: Run
) -> None:
    assert notes(score()) == []
    db = sqlite3.connect(cache_path())
    db.execute("PRAGMA user_version = 99")
    db.close()
    (note,) = notes(score())
    assert "`levelfield cache clear`" in note
    assert run("cache", "clear").code == 0
    assert notes(score()) == []
    assert run("cache", "info", "--json").json["values"] == {"elsewhere.words": N}


def test_a_cache_that_is_none_can_be_cleared_away(score: Callable[..., Ran], run: Run) -> None:
    cache_path().parent.mkdir(parents=True, exist_ok=True)
    cache_path().write_bytes(b"garbage" * 1000)
    assert run("cache", "clear").code == 0
    assert notes(score()) == []


@pytest.mark.parametrize("command", ["info", "clear"])
def test_a_cache_that_is_none_is_said_in_one_line_with_its_mend(run: Run, command: str) -> None:
    cache_path().parent.mkdir(parents=True, exist_ok=True)
    cache_path().write_bytes(b"garbage" * 1000)
    ran = run("cache", command)
    assert "Traceback" not in ran.err
    if ran.code:
        assert "cache clear" in ran.complaint or "delete" in ran.complaint


def test_a_full_disk_is_one_note_and_nothing_is_scored_twice(
    score: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        """A connection to a database on a disk without room."""

        def __init__(self, db: sqlite3.Connection) -> None:
            self._db = db

        def executemany(self, *_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def __getattr__(self, name: str) -> object:
            return getattr(self._db, name)

    whole = SegmentCache.__init__

    def full(self: SegmentCache, path: Path) -> None:
        whole(self, path)
        self._db = Full(self._db)  # type: ignore[assignment]

    monkeypatch.setattr(SegmentCache, "__init__", full)
    (note,) = notes(score("-o", "log=log"))
    assert "full" in note
    scored = Path("log").read_text().splitlines()
    assert len(scored) == len(set(scored)) == N


def test_info_of_a_cache_that_is_not_there_is_no_error(run: Run) -> None:
    assert run("cache", "info").code == 0
    assert run("cache", "info", "--json").json["values"] == {}
    assert not cache_path().exists()
    assert "there is no cache" in run("cache", "clear").out


def test_converted_models_are_counted_and_go_when_they_are_named(
    score: Callable[..., Ran], run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(here / "cache"))
    score()
    assert "converted models" not in run("cache", "info").out
    folder = here / "cache" / "models"
    (folder / "one").mkdir(parents=True)
    (folder / "one" / "weights").write_bytes(b"x" * 1_500_000)
    assert "converted models, 1.5 MB" in run("cache", "info").out
    models = {"path": str(folder), "bytes": 1_500_000}
    assert run("cache", "info", "--json").json["models"] == models
    assert run("cache", "clear").code == 0
    assert (folder / "one").is_dir()
    score()
    assert "1.5 MB removed" in run("cache", "clear", "--models").out
    assert not (folder / "one").exists()
    assert run("cache", "info", "--json").json["values"] == {"elsewhere.words": N}
    assert "0.0 MB removed" in run("cache", "clear", "--models").out


def test_clear_forgets_everything_and_info_counts(score: Callable[..., Ran], run: Run) -> None:
    score()
    assert run("cache", "info", "--json").json["values"] == {"elsewhere.words": N}
    assert f"elsewhere.words: {N}" in run("cache", "info").out
    assert f"{N} values removed" in run("cache", "clear").out
    assert run("cache", "info", "--json").json["values"] == {}
    score()


@pytest.mark.parametrize("command", ["info", "clear"])
def test_a_folder_that_can_not_be_opened_is_said_in_one_line(
    run: Run, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", "x" * 300)
    assert "File name too long" in run("cache", command).complaint


def test_damaged_values_are_one_note_and_right_afterwards(score: Callable[..., Ran]) -> None:
    assert notes(score()) == []
    db = sqlite3.connect(cache_path())
    db.execute("UPDATE segments SET value = value + 1 WHERE value > 100")
    db.commit()
    db.close()
    (note,) = notes(score())
    assert f"damaged values scored anew: {N - 100}" in note
    assert notes(score()) == []

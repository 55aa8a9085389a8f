"""Transcripts: what a page shows of a terminal is what the commands print.

    python -m tools.website.transcripts                      # runs every page with a transcript
    python -m tools.website.transcripts docs/hardware.md     # runs this page
    python -m tools.website.transcripts --write docs/hardware.md   # rewrites its output

Blocks of a page run in their order, in one folder that has `examples`:

- a fenced block with `title="NAME"` is a file;
- a `console` block has commands after `$` and what they print. Numbers with decimals may differ by
  one in the last digit; `…` stands for any text, on a line of its own for any lines;
- a `python` block runs; an exception fails the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.website.pages import ROOT, page_files

ANYTHING = "…"
_BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)
_NUMBER = re.compile(r"-?\d[\d,]*\.\d+")
_PROGRESS = re.compile(r"^levelfield: \w+ing .* left.*\n", re.MULTILINE)
"""A line that a slow machine adds each minute."""
_WIDTH = "80"


@dataclass(frozen=True)
class Difference:
    """A command that does not print what its page shows."""

    command: str
    shown: str
    printed: str

    def __str__(self) -> str:
        return f"$ {self.command}\n--- shown\n{self.shown}--- printed\n{self.printed}"


def differences(page: Path, folder: Path) -> Iterator[Difference]:
    """Runs a page in a folder; yields what its commands print that the page does not show."""
    _prepare(folder)
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        if block["language"] == "console":
            for entry in _COMMAND.finditer(block["body"]):
                printed = _run(entry["command"], folder)
                if not fits(entry["output"], printed):
                    yield Difference(entry["command"], entry["output"], printed)
        else:
            _other(block, folder)


def updated(page: Path, folder: Path) -> str:
    """Returns a page with what its commands print now; output with `…` stays if it fits."""
    _prepare(folder)

    def anew(entry: re.Match[str]) -> str:
        printed = _run(entry["command"], folder)
        output = entry["output"] if fits(entry["output"], printed) else printed
        return f"$ {entry['command']}\n{output}"

    def run(block: re.Match[str]) -> str:
        if block["language"] != "console":
            _other(block, folder)
            return block[0]
        return block[0].replace(block["body"], _COMMAND.sub(anew, block["body"]))

    return _BLOCK.sub(run, page.read_text("utf-8"))


def fits(shown: str, printed: str) -> bool:
    """Returns whether a command prints what a page shows.

    >>> fits("a  0.12\\n…\\n", "a  0.13\\nb\\nc\\n")
    True
    >>> fits("a  0.12\\n", "a  0.15\\n")
    False
    """
    lines = [re.escape(line.rstrip()) for line in _NUMBER.sub(_hole, shown).strip().split("\n")]
    pattern = "\n".join(lines).replace(re.escape(_HOLE), rf"({_NUMBER.pattern})")
    pattern = re.sub(rf"^{ANYTHING}$", "(?:.*)", pattern, flags=re.MULTILINE)
    pattern = pattern.replace(ANYTHING, "[^\n]*")
    text = "\n".join(line.rstrip() for line in printed.strip().split("\n"))
    match = re.fullmatch(pattern.replace("(?:.*)", "(?:.|\n)*"), text)
    if match is None:
        return False
    return all(map(_is_near, _NUMBER.findall(shown), match.groups()))


_HOLE = "\0"


def _hole(number: re.Match[str]) -> str:
    del number
    return _HOLE


def _is_near(shown: str, printed: str) -> bool:
    """Returns whether two numbers have as many decimals and differ by one in the last at most."""
    decimals = [len(number.partition(".")[2]) for number in (shown, printed)]
    values = [float(number.replace(",", "")) for number in (shown, printed)]
    unit = 10.0 ** -decimals[0]
    return decimals[0] == decimals[1] and abs(values[0] - values[1]) < 1.5 * unit


def _prepare(folder: Path) -> None:
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / ".bin").mkdir()
    for name, words in {"levelfield": " -m levelfield", "python": ""}.items():
        program = folder / ".bin" / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n', "utf-8")
        program.chmod(0o755)


def _run(command: str, folder: Path) -> str:
    environment = {
        **os.environ,
        "PATH": f"{folder / '.bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYTHONUNBUFFERED": "1",  # output and notes in the order in which a terminal has them
        "COLUMNS": _WIDTH,
    }
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return _PROGRESS.sub("", run.stdout)


def _other(block: re.Match[str], folder: Path) -> None:
    if block["title"]:
        (folder / block["title"]).write_text(block["body"], "utf-8")
    elif block["language"] == "python":
        command = [sys.executable, "-c", block["body"]]
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)


def pages_with_transcripts() -> list[Path]:
    """Returns the README and the pages of the documentation that show what commands print."""
    pages = [ROOT / "README.md", *page_files()]
    return [page for page in pages if "\n```console\n" in page.read_text("utf-8")]


def main(words: list[str]) -> int:
    """Runs pages, all that have a transcript unless some are named; returns the exit code."""
    writes = "--write" in words
    pages = [Path(word) for word in words if word != "--write"] or pages_with_transcripts()
    failed = 0
    for page in pages:
        with tempfile.TemporaryDirectory() as place:
            if writes:
                page.write_text(updated(page, Path(place)), "utf-8")
                continue
            problems = list(differences(page, Path(place)))
        failed += len(problems)
        print(f"{page}: {len(problems)} differences" if problems else f"{page}: as shown")
        print("".join(map(str, problems)), end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

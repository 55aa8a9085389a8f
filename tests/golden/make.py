"""Writes the golden outcomes anew: `python tests/golden/make.py [GROUP...]`.

A value may change only together with its signature: whoever commits a new value under an old
signature breaks the caches, score files and published tables of users. Say in the commit why the
signature had to change. Groups of rated data need LEVELFIELD_DATA and are left alone without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
GOLDEN = Path(__file__).parent
sys.path[:0] = [str(GOLDEN), str(GOLDEN.parent)]

from cases import GROUPS  # noqa: E402
from settings import changes, lacking, prepare, server  # noqa: E402

import golden  # noqa: E402


def make(group: str, folder: Path) -> None:
    found = {}
    prepare(group, folder)
    for case in GROUPS[group]:
        with server(group) as address:
            one = golden.outcome(case, folder, address, **changes(group, folder))
        found[case.name] = one
        if one["code"]:
            print(f"{group}: {case.name}: {one['said']}")
    golden.write(group, found)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = golden.workspace(Path(name))
        for group in sys.argv[1:] or GROUPS:
            if reason := lacking(group):
                print(f"{group}: left alone: {reason}")
            else:
                make(group, folder)

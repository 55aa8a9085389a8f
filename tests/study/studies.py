"""Small studies for tests of the runner."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from levelfield.study.cells import CellKey, CellRequest
from levelfield.study.plan import (
    CallableSource,
    CommandSource,
    ControlKind,
    FilesSource,
    Plan,
    PromptSet,
    SystemPlan,
)

SCRIPT = str(Path(__file__).parent / "misbehaving.py")
KEY = CellKey("S", "openings", "sentiment", 1)
Source = CommandSource | CallableSource | FilesSource


def command(mode: str, log: Path | None = None, **options: object) -> CommandSource:
    """Returns the misbehaving system in a mode; by default it gets one attempt of 20 seconds."""
    words = (sys.executable, "-S", SCRIPT, mode, *([str(log)] if log else []))
    return CommandSource(words, **({"timeout_s": 20.0, "retries": 0} | options))  # type: ignore[arg-type]


def requests(n: int = 4) -> list[CellRequest]:
    control = {"sentiment": "positive"}
    return [
        CellRequest(f"{i}:positive", f"Opening {i}", control, control, "d", 1) for i in range(n)
    ]


def plan(
    folder: Path,
    source: Source,
    *,
    prompts: int = 4,
    seeds: Sequence[int] = (1,),
    steps: tuple[str, ...] = (),
    others: Sequence[SystemPlan] = (),
) -> Plan:
    texts = tuple(f"Opening {i}" for i in range(prompts))
    system = SystemPlan("S", source, ("sentiment",), postprocess=steps)
    return Plan(
        name="A study",
        file=folder / "study.toml",
        out=folder / "study.study",
        datasets=(PromptSet("openings", texts, tuple(map(str, range(prompts))), 1.0),),
        controls=(ControlKind("sentiment", ({"sentiment": "positive"},)),),
        systems=(system, *others),
        seeds=tuple(seeds),
        metrics=(),
    )


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

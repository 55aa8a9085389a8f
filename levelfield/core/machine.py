"""What this process may use of the machine: memory and processors, in a container too."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import psutil

_GROUPS = Path("/sys/fs/cgroup")


def usable_memory(groups: Path = _GROUPS) -> int:
    """Returns the bytes that are left: what the machine has available, or what the control group
    has left if that is less."""
    available = int(psutil.virtual_memory().available)
    return max(0, min([available, *_group_memory(groups)]))


def _group_memory(groups: Path) -> Iterator[int]:
    """Yields the bytes that are left to a control group, of either version of Linux.

    They count pages of files that were read, such as a model's weights, as used; the system frees
    inactive ones when it needs them, so they are left.
    """
    old = groups / "memory"
    for limit, used, pages, name in (
        ("memory.max", "memory.current", groups / "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            old / "memory.stat",
            "total_inactive_file",
        ),
    ):
        try:
            most, taken = (int((groups / file).read_text("ascii")) for file in (limit, used))
        except (OSError, ValueError):  # not there, or `max`
            continue
        yield most - taken + min(taken, _entry(pages, name))


def _entry(file: Path, name: str) -> int:
    """Returns the number after a name in a file of names and numbers; 0 if it is not there."""
    try:
        entries = dict(line.split(None, 1) for line in file.read_text("ascii").splitlines())
        return int(entries.get(name, 0))
    except (OSError, ValueError):
        return 0


def usable_processors(groups: Path = _GROUPS) -> int:
    """Returns the number of processors that this process may run on, at least 1.

    That is the processors that it is bound to, or what its control group has time for if that is
    less: a container of 2 processors on a machine of 64 is bound to all 64.

    Args:
        groups: where Linux shows control groups; elsewhere nothing is there.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min([bound or 1, *(math.ceil(quota) for quota in _quotas(groups))]))


def model_threads() -> int:
    """Returns the number of threads that models compute with: what `OMP_NUM_THREADS` says, as it
    does in every worker, else one for each processor."""
    wished = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(wished) if wished.isdecimal() and int(wished) else usable_processors()


def _quotas(groups: Path) -> Iterator[float]:
    """Processors' worth of time that a control group may use, of either version of Linux's."""
    for quota, period in (
        _numbers(groups / "cpu.max"),
        _numbers(groups / "cpu" / "cpu.cfs_quota_us", groups / "cpu" / "cpu.cfs_period_us"),
    ):
        if quota > 0 and period > 0:
            yield quota / period


def _numbers(*files: Path) -> tuple[float, float]:
    """Returns a quota and its period; 0 for what is not there, or without a limit (`max`, `-1`)."""
    try:
        quota, period = " ".join(file.read_text("ascii") for file in files).split()
        return float(quota), float(period)
    except (OSError, ValueError):
        return 0.0, 0.0

"""How much memory this process and those it starts may still take: less than the machine has, in a
container."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/meminfo")


def usable_memory(machine: Path = _MACHINE, groups: Path = _GROUPS) -> int | None:
    """Bytes that are left; None where the system does not say (it is not Linux).

    That is what the machine has available, or what the control group has left if that is less.
    """
    left = [*_of_machine(machine), *_of_group(groups)]
    return max(0, min(left)) if left else None


def _of_machine(file: Path) -> Iterator[int]:
    try:
        for line in file.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) << 10  # it says kB, and means KiB
    except (OSError, ValueError, IndexError):
        return


def _of_group(groups: Path) -> Iterator[int]:
    """Of either version of Linux's control groups."""
    for limit, used in (
        (groups / "memory.max", groups / "memory.current"),
        (groups / "memory/memory.limit_in_bytes", groups / "memory/memory.usage_in_bytes"),
    ):
        try:
            yield int(limit.read_text("ascii")) - int(used.read_text("ascii"))
        except (OSError, ValueError):  # not there, or `max`
            continue

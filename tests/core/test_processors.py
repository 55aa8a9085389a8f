"""A container's share of the machine is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from levelfield.core.machine import usable_processors

BOUND = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


@pytest.mark.parametrize(
    ("files", "processors"),
    [
        ({}, BOUND),
        ({"cpu.max": "max 100000\n"}, BOUND),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "900000000 100000\n"}, BOUND),
        ({"cpu.max": "nonsense"}, BOUND),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, BOUND),
        ({"cpu/cpu.cfs_quota_us": "80000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
    ],
)
def test_a_process_uses_no_more_processors_than_its_control_group_has_time_for(
    tmp_path: Path, files: dict[str, str], processors: int
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    assert usable_processors(tmp_path) == processors

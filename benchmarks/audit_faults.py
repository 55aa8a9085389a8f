"""The faults that the audit finds in two studies, and its false alarms in studies without one.

Every fault of `tests/study/faults.py` is planted in two studies, of 720 and 1,080 texts; it counts
as found if one of its checks tells it, by more than a note, in both. Then studies without a fault,
of other seeds and sizes, are audited: any finding that is more than a note is a false alarm.

    PYTHONPATH=tests/study python benchmarks/audit_faults.py [--clean 20] [--first 5000]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

from faults import FAULTS, STUDY, told
from varied_study import varied_cells

from levelfield.study.audit import audit

SHAPES = (STUDY, replace(STUDY, prompts=30, words=30))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clean", type=int, default=20, help="studies without a fault")
    parser.add_argument("--first", type=int, default=5000, help="first seed")
    options = parser.parse_args()

    begin = time.process_time()
    studies = [varied_cells(options.first + n, shape) for n, shape in enumerate(SHAPES)]
    counts = {
        name: sum(told(audit(fault.spoil(cells)), fault) for cells in studies)
        for name, fault in FAULTS.items()
    }
    twice, once = (sum(n == times for n in counts.values()) for times in (2, 1))
    print(f"{len(FAULTS)} faults: {twice} found in both studies, {once} in one")
    for name, n in counts.items():
        if n < len(studies):
            print(f"  in {n} of {len(studies)}: {name}")

    alarms = [
        (seed, finding)
        for seed in range(options.first, options.first + options.clean)
        for finding in audit(varied_cells(seed))
        if finding.severity != "note"
    ]
    print(f"{options.clean} studies without a fault: {len(alarms)} false alarms")
    for seed, finding in alarms:
        print(f"  {seed}: {finding.check}: {finding.what}")
    print(f"{time.process_time() - begin:.0f} s")


if __name__ == "__main__":
    main()

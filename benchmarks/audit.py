"""The audit on synthetic studies: false alarms of those without a fault, and the faults found.

Studies without a fault vary in size, seeds, systems, datasets, kind of control, judges, script and
length; findings that are notes are counted apart. Then every fault of `tests/study/faults.py` is
put into studies of one size, each of another seed. Seconds are the process's own.

    PYTHONPATH=tests/study python benchmarks/audit.py [--clean 350] [--faulty 5] [--first 1000]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from clean_study import clean_cells
from faults import FAULTS, STUDY, told
from varied_study import varied_cells

from levelfield.study.audit import audit


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--clean", type=int, default=350, help="studies without a fault, each kind")
    parser.add_argument("--faulty", type=int, default=5, help="studies a fault")
    parser.add_argument("--first", type=int, default=1000, help="first seed of varied studies")
    options = parser.parse_args()

    begin = time.process_time()
    kinds = Counter(
        (finding.severity, finding.check)
        for seed in range(options.clean)
        for finding in audit(clean_cells(seed))
    )
    print(f"{options.clean} studies of one shape: {dict(kinds) or 'no finding'}")
    kinds, texts = Counter(), 0
    for seed in range(options.first, options.first + options.clean):
        cells = varied_cells(seed)
        texts += sum(len(cell.samples) for cell in cells)
        kinds.update((finding.severity, finding.check) for finding in audit(cells))
    print(f"{options.clean} varied studies, {texts:,} texts: {dict(kinds) or 'no finding'}")
    print(f"{time.process_time() - begin:.0f} s\n\n| fault | found | checks |\n|---|---|---|")

    studies = [varied_cells(options.first + n, STUDY) for n in range(options.faulty)]
    for name, fault in FAULTS.items():
        findings = [audit(fault.spoil(cells)) for cells in studies]
        hits = sum(told(faults, fault) for faults in findings)
        checks = sorted({f.check for faults in findings for f in faults} & fault.checks)
        print(f"| {name} | {hits} of {options.faulty} | {', '.join(checks)} |", flush=True)


if __name__ == "__main__":
    main()

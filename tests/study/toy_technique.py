"""The process of a technique that writes nothing but `PROMPT, SEED`: `toy_technique.py MODE LOG`.

Ids that were asked for go to LOG, one a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

MODE, LOG = sys.argv[1:]


def write(record: dict) -> None:
    print(json.dumps(record), flush=True)


for line in sys.stdin:
    cell = json.loads(line)
    if MODE == "slow to load" and not Path(LOG).exists():
        time.sleep(0.5)
    write({"begin": True})
    for n, request in enumerate(cell["requests"]):
        with Path(LOG).open("a") as log:
            log.write(request["id"] + "\n")
        if MODE == "dies once" and n == 2 and len(Path(LOG).read_text().split()) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if MODE == "hangs" and n == 2:
            time.sleep(60)
        text = f"{request['prompt']}, {cell['seed']}"
        write({"id": request["id"], "text": text, "tokens": 2, "forward_passes": 6})
    print("a line on stderr", file=sys.stderr)
    write({"error": "it is too hard"} if MODE == "gives up" else {"end": True})

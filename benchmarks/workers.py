"""Several processes of `levelfield score` against one, on the same texts.

The command runs as a user types it, start-up included, without a cache. Its output must have the
same bytes. By turns; what is printed is a ratio, since times depend on the machine. One process has
all processors as threads unless OMP_NUM_THREADS says otherwise. With `--ray ADDRESS` the tasks of
a cluster are a third way; `local` starts Ray every time.

    python benchmarks/workers.py [--texts 4000] [--workers 2] [--metric ctrleval.coherence]
    python benchmarks/workers.py --texts 20000 --metric style.degenerate --ray local
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import wordfreq
from turns import by_turns


def write_texts(path: Path, count: int) -> None:
    """Writes texts of two to six sentences, with words as frequent as in English.

    The source of a text lacks its first sentence.
    """
    random = np.random.default_rng(0)
    words = wordfreq.top_n_list("en", 20_000)
    p = np.array([wordfreq.word_frequency(word, "en") for word in words])
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            drawn = [
                " ".join(random.choice(words, random.integers(6, 20), p=p / p.sum())).capitalize()
                for _ in range(random.integers(2, 7))
            ]
            text, source = (". ".join(part) + "." for part in (drawn, drawn[1:]))
            record = {"id": str(i), "system": "ab"[i % 2], "text": text, "source": source}
            file.write(json.dumps(record) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=4000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--metric", default="ctrleval.coherence")
    parser.add_argument("--model", default="offline/minilm", help="empty: none is named")
    parser.add_argument("--ray", metavar="ADDRESS")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.jsonl"
        model = ["--model", arguments.model] if arguments.model else []
        write_texts(texts, arguments.texts)

        def run(workers: int, *where: str) -> Callable[[], bytes]:
            out = Path(folder) / f"scores-{workers}-{len(where)}.jsonl"

            def score() -> bytes:
                subprocess.run(
                    [
                        sys.executable, "-m", "levelfield", "score", texts, "--out", out,
                        "--metric", arguments.metric, *model,
                        "--no-cache", "--workers", str(workers), *where,
                    ],
                    check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                )  # fmt: skip
                return out.read_bytes()

            return score

        ways = {"one": run(1), "several": run(arguments.workers)}
        if arguments.ray:
            ways["tasks"] = run(arguments.workers, "--ray", arguments.ray)
        seconds, written = by_turns(ways, arguments.repeat)
    assert len(set(written.values())) == 1, "the bytes differ"
    print(f"{arguments.texts:,} texts, {arguments.metric} {arguments.model}, one process /")
    for name in list(ways)[1:]:
        print(f"{arguments.workers} {name} = {seconds['one'].times(seconds[name])}")


if __name__ == "__main__":
    main()

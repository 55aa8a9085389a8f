"""Peak memory of `levelfield score` as the number of texts grows: it must hardly grow with it.

python benchmarks/streaming.py [--metric ctrleval.consistency] [10000 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write_texts(path: Path, count: int) -> None:
    """Writes distinct short texts of three systems on shared prompts."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(count):
            prompt = f"House {i // 3}"
            text = f"{prompt} has {i % 97} windows. The {i}th visitor counted them twice."
            record = {"id": str(i), "system": "abc"[i % 3], "prompt": prompt, "text": text}
            file.write(json.dumps(record | {"control": {"topic": "science"}}) + "\n")


def write_model(folder: Path) -> None:
    """Writes a random encoder with the vocabulary of the embedded model."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from levelfield.models.resolve import OFFLINE_MODEL, resolve

    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    BertModel(BertConfig(**size, intermediate_size=64)).save_pretrained(folder)
    AutoTokenizer.from_pretrained(resolve(OFFLINE_MODEL).path).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--metric", default="ctrleval.consistency")
    parser.add_argument("counts", type=int, nargs="*", default=[10_000, 100_000])
    arguments = parser.parse_args()
    for count in arguments.counts:
        with tempfile.TemporaryDirectory() as folder:
            texts = Path(folder) / "texts.jsonl"
            write_texts(texts, count)
            write_model(Path(folder, "model"))
            command = [sys.executable, "-m", "levelfield", "score", str(texts)]
            command += ["--metric", arguments.metric, "--out", f"{folder}/scores.jsonl"]
            command += ["--report", f"{folder}/page.html"]
            command += ["--model", f"{folder}/model"]
            begin = time.perf_counter()
            done = subprocess.Popen(
                command,
                stdout=subprocess.DEVNULL,
                env=os.environ | {"LEVELFIELD_CACHE": folder},
            )
            _, status, usage = os.wait4(done.pid, 0)
            seconds = time.perf_counter() - begin
            scale = 1 if sys.platform == "darwin" else 1024
            size = Path(folder, "segments.sqlite").stat().st_size
            print(
                f"{count:>9,} texts: exit {os.waitstatus_to_exitcode(status)}, "
                f"peak {usage.ru_maxrss * scale / 2**20:,.0f} MiB, {seconds:,.0f} s, "
                f"cache {size / 2**20:,.1f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()

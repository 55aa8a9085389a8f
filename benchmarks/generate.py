"""`levelfield generate` with its defaults against a script around `generate` of transformers.

Both are whole processes, start-up included: they load the same weights from one folder, read the
same prompts (PPLM's), write as many new tokens, draw with top_p 0.9, and write JSON lines. The
script has all prompts in one batch, padded on the left. By turns; what is printed is processor time
and wall clock, the tokens that each side wrote, since a text may end early, and peak memory.

    OMP_NUM_THREADS=1 python benchmarks/generate.py [--texts 70] [--tokens 60] [--repeat 3]
        [--model offline/smollm2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from turns import Seconds

from levelfield.datasets import prompts

PLAIN = """
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, requests, out, tokens = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
if tokenizer.pad_token_id is None:
    tokenizer.pad_token = tokenizer.eos_token
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
with open(requests, encoding="utf-8") as file:
    prompts = [json.loads(line)["prompt"] for line in file]
inputs = tokenizer([tokenizer.bos_token + p for p in prompts], return_tensors="pt", padding=True)
ids = model.generate(
    **inputs, do_sample=True, top_p=0.9, top_k=0, max_new_tokens=int(tokens),
    pad_token_id=tokenizer.pad_token_id,
)
new = ids[:, inputs["input_ids"].shape[1] :]
ends = (new == tokenizer.eos_token_id).int().cumsum(-1).cumsum(-1)
lengths = (ends <= 1).sum(-1).tolist()
with open(out, "w", encoding="utf-8") as file:
    for text, length in zip(tokenizer.batch_decode(ids, skip_special_tokens=True), lengths):
        file.write(json.dumps({"text": text, "tokens": length}) + "\\n")
"""


class Run(NamedTuple):
    """What a process took, and the tokens that it wrote."""

    processor: float
    wall: float
    peak_mib: float
    tokens: int


def run(command: Sequence[str], out: Path) -> Run:
    """Runs a process and returns what it took."""
    out.unlink(missing_ok=True)
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{command[:4]} failed")
    tokens = sum(json.loads(line)["tokens"] for line in out.read_text("utf-8").splitlines())
    return Run(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, tokens)


def save(model: str, folder: Path) -> None:
    """Saves a model as transformers does, so that both sides read the same files."""
    from levelfield.models.torch.language_model import language_model

    lm = language_model(model)
    lm.model.save_pretrained(folder)
    lm.tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=70)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", default="offline/smollm2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        requests, script = folder / "requests.jsonl", folder / "plain.py"
        texts = prompts("pplm")
        with requests.open("w", encoding="utf-8") as file:
            for n in range(options.texts):
                file.write(json.dumps({"id": str(n), "prompt": texts[n % len(texts)]}) + "\n")
        script.write_text(PLAIN, "utf-8")
        model, tokens = str(folder / "model"), str(options.tokens)
        save(options.model, Path(model))
        out = {side: folder / f"{side}.jsonl" for side in ("levelfield", "transformers")}
        ours = ["-m", "levelfield", "generate", str(requests), "--technique", "base"]
        ours += ["--model", model, "--max-new-tokens", tokens, "--out", str(out["levelfield"])]
        commands = {
            "levelfield": [sys.executable, *ours],
            "transformers": [
                *(sys.executable, str(script), model, str(requests), str(out["transformers"])),
                tokens,
            ],
        }
        runs: dict[str, list[Run]] = {side: [] for side in commands}
        for turn in range(options.repeat):
            for side in list(commands)[:: -1 if turn % 2 else 1]:
                runs[side].append(run(commands[side], out[side]))
                print(f"{side}: {runs[side][-1]}", file=sys.stderr, flush=True)
    for word in ("processor", "wall"):
        ours_s, theirs_s = (Seconds([getattr(r, word) for r in runs[s]]) for s in runs)
        print(f"{word}, levelfield / transformers: {ours_s.times(theirs_s)}")
    for side, several in runs.items():
        print(f"{side}: {several[-1].tokens:,} tokens, {several[-1].peak_mib:,.0f} MiB at most")


if __name__ == "__main__":
    main()

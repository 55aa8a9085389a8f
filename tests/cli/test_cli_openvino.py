"""A run with `--engine openvino` says what one with PyTorch says, under its own signatures."""

from __future__ import annotations

import pytest

from command_line import Run, Write, records, values

pytest.importorskip("openvino")

ROWS = [
    {
        "id": str(n),
        "text": f"The film was {how}. We left the house {n} minutes late.",
        "source": "The film was long. We left late.",
        "control": {"sentiment": ("positive", "negative")[n % 2]},
    }
    for n, how in enumerate(("dull", "a delight from start to end", "long", "bright", "so so"))
]


@pytest.mark.slow
def test_scores_of_encoders_agree_and_name_the_engine(run: Run, write: Write) -> None:
    write("texts.jsonl", ROWS)
    metrics = [f"-m{name}" for name in ("ctrleval", "cosine", "control.probability", "rouge-l")]
    command = ("score", "texts.jsonl", *metrics, "-o", "judges=minilm,vader")
    assert run(*command, "--out", "torch.jsonl").code == 0
    assert run(*command, "--engine", "openvino", "--out", "openvino.jsonl").code == 0
    theirs, ours = values("torch.jsonl"), values("openvino.jsonl")
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        assert ours[key] == (value if value is None else pytest.approx(value, abs=1e-5)), key
    named = {r["metric"]: "|engine:openvino|" in r["signature"] for r in records("openvino.jsonl")}
    assert named == {name: not name.startswith("rouge") for name in named}
    assert len(named) == 5
    again = run(
        *command, "--engine", "openvino", "--no-cache", "--workers", "2", "--out", "w.jsonl"
    )
    assert again.code == 0
    assert records("w.jsonl") == records("openvino.jsonl")

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

OPEN = (
    "ctrleval/data/data_senti.txt",
    "ctrleval/prompt",
    "commongen-trinity/data/commongen-trinity/annotated/commongen_keys.txt",
    *(
        f"commongen-trinity/data/commongen-trinity/annotated/commongen_test{kind}{judge}.txt"
        for kind in ("", "_med", "_bad")
        for judge in ("", "_t5")
    ),
    *(f"deam/data/fed/fed_test_{aspect}.txt" for aspect in ("coherence", "overall")),
    *(f"deam/coh_models/fed_test_{aspect}_orig_preds.txt" for aspect in ("coherence", "overall")),
    "formality-judgements/data/outputs",
    "topical-persona-chat/data/dialogue/clean_valid.txt",
    "lpf/results/sentiment",
    "lpf/results/topic",
    "dexperts-human/human_eval/sentiment/Batch_4318682_4462264_batch_results_anonymized.csv",
    "pplm-human/human_annotation/pplm_labeled_csvs",
)
"""What every copy of the data has; tests of counts see this and no more."""


@pytest.fixture
def only(rated_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a folder of links to these parts of the data the one that is looked into."""

    def only(*parts: str) -> Path:
        folder = tmp_path / "data"
        for part in parts:
            link = folder / part
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(rated_data / part)
        monkeypatch.setenv("LEVELFIELD_DATA", str(folder))
        return folder

    return only


@pytest.fixture
def open_data(only: Callable[..., Path]) -> Path:
    return only(*OPEN)

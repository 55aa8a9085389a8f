"""A reader follows one sample from file to value through few modules, always downward."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import levelfield
from test_layers import layer

AT_MOST = 7


def callers(frame: FrameType | None) -> Iterator[str]:
    """The modules of the package on the stack of a frame, the innermost first."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("levelfield."):
            yield name
        frame = frame.f_back


def ways(texts: Path, metric: str) -> set[tuple[str, ...]]:
    """Every chain of modules, from `score` down, that is entered while a partition is scored."""
    chains: set[tuple[str, ...]] = set()

    def look(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("levelfield.metrics."):
            chain = tuple(dict.fromkeys(reversed(list(callers(frame)))))
            if "levelfield.scoring.scorer" in chain:
                chains.add(chain)

    sys.setprofile(look)
    try:
        levelfield.score(texts, metric, cache=False)
    finally:
        sys.setprofile(None)
    return chains


@pytest.mark.parametrize("metric", ["rouge-1.references", "bleu.source", "diversity.distinct-2"])
def test_a_value_is_made_by_few_modules_each_below_the_one_before(metric, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "The court sat.", "source": "court sit", "references": ["It sat."]}')
    chains = ways(texts, metric)
    assert chains
    for chain in chains:
        assert len(chain) <= AT_MOST, chain
        layers = [layer(module) for module in chain if not module.startswith("levelfield.core.")]
        assert layers == sorted(layers, reverse=True), chain

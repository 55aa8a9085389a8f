"""A new encoder-decoder that copies before it has learnt anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from levelfield.generation.techniques.rewriter.copier import new_copier
from levelfield.generation.techniques.rewriter.network import as_seq2seq, token_log_p, write

EXAMPLES = Path(__file__).parents[3] / "examples" / "rewriting"


@pytest.fixture(scope="module")
def copier():
    return as_seq2seq(*new_copier(0), "copier")


def sources() -> list[str]:
    lines = (EXAMPLES / "sources.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["source"] for line in lines]


def copies(copier, texts: list[str], label: str = "formal") -> list[str]:
    ids = [copier.source(f"{label}: {text}")[0] for text in texts]
    written = write(copier, ids, [40] * len(ids))
    return [copier.text(copy.ids) for copy in written]


@pytest.mark.thinned
@pytest.mark.parametrize("label", ["formal", "informal", "posh"])
def test_sources_are_copied_after_any_code(copier, label):
    texts = sources()
    same = [text == copy for text, copy in zip(texts, copies(copier, texts, label), strict=True)]
    assert sum(same) >= 38


def test_a_word_that_occurs_twice_is_followed_by_what_follows_it_there(copier):
    text = "the lake by the road and a wall on the mill"
    assert copies(copier, [text]) == [text]


def test_a_copy_is_the_likely_text_and_another_is_not(copier):
    source, _ = copier.source("formal: the lake is old")
    with torch.no_grad():
        log_p, _ = token_log_p(
            copier, [source] * 2, [copier.target(t) for t in ("the lake is old", "a road was new")]
        )
    same, other = log_p.sum(-1).tolist()
    assert same > -1 > -20 > other


@pytest.mark.slow
def test_equal_seeds_give_equal_weights():
    first, second, other = (new_copier(seed)[0].state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["shared.weight"], other["shared.weight"])

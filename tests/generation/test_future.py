"""Future discriminators: what a cache and candidates side by side may not change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import tiny
import tiny_future
from levelfield.core.errors import ModelError
from levelfield.generation.techniques._future import network as future
from levelfield.generation.techniques._future.network import FutureRows, future_model, rotated
from levelfield.models.guides import guide_named

BOS = 0
TEXTS = ([3, 1, 4, 1, 5, 9, 2], [], [7], [2, 6, 5])
EMBEDDINGS = torch.randn(30, 12, generator=torch.Generator().manual_seed(0))


def alone(model, text, candidates):
    """log P(label | text, candidate), each candidate behind its own copy of the text."""
    ids = torch.tensor([[BOS, *text, candidate] for candidate in candidates])
    return model.whole(ids)[:, -1].log_softmax(-1)


@torch.inference_mode()
def test_candidates_side_by_side_score_as_separate_texts_do(monkeypatch):
    """Over steps in which every text grows by another token and some texts end."""
    monkeypatch.setattr(future, "CHUNK", 4)
    model = tiny_future.discriminator(EMBEDDINGS, 3)
    random = torch.Generator().manual_seed(1)
    texts = [list(text) for text in TEXTS]
    rows = FutureRows(model, BOS)
    rows.start(texts)
    spread = []
    for step in range(6):
        candidates = torch.randint(30, (len(texts), 9), generator=random)
        scores = rows.scores(candidates)
        assert scores.shape == (len(texts), 9, 3)
        for row, text in enumerate(texts):
            expected = alone(model, text, candidates[row].tolist())
            torch.testing.assert_close(scores[row], expected, atol=1e-5, rtol=0)
        spread.append(float(scores.std(1).mean()))
        if step == 3:
            kept = [2, 0]
            rows.keep(torch.tensor(kept))
            texts = [texts[row] for row in kept]
            candidates = candidates[kept]
        rows.read(candidates[:, 0])
        texts = [[*text, int(token)] for text, token in zip(texts, candidates[:, 0], strict=True)]
    assert min(spread) > 0.1, "the labels hardly depend on the candidates"
    assert rows.passes == 6 * 3


@torch.inference_mode()
def test_scores_of_other_candidates_for_the_same_texts_are_not_disturbed():
    model = tiny_future.discriminator(EMBEDDINGS)
    rows = FutureRows(model, BOS)
    rows.start(TEXTS)
    first = rows.scores(torch.full((4, 2), 8))
    rows.scores(torch.full((4, 5), 11))
    torch.testing.assert_close(rows.scores(torch.full((4, 2), 8)), first)


@torch.inference_mode()
def test_what_follows_a_token_changes_no_label_before_it():
    model = tiny_future.discriminator(EMBEDDINGS)
    ids = torch.tensor([[BOS, 3, 1, 4], [BOS, 3, 1, 9]])
    logits = model.whole(ids)
    torch.testing.assert_close(logits[0, :3], logits[1, :3])
    assert (logits[0, 3] - logits[1, 3]).abs().max() > 0.01


def test_rotary_positions_depend_on_distances_alone():
    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 8, generator=random)

    def product(i, j):
        return (rotated(q, torch.tensor([[i]])) * rotated(k, torch.tensor([[j]]))).sum()

    torch.testing.assert_close(product(9, 4), product(6, 1))
    assert abs(product(9, 4) - product(9, 5)) > 1e-3


def test_a_guide_is_loaded_with_its_base(tmp_path: Path):
    base = str(tiny.save("gpt2", tmp_path / "base", begins=True))
    guide = guide_named(str(tiny_future.save(base, tmp_path / "guide")))
    learnt = future_model(guide, base)
    ids = torch.tensor([[learnt.bos_id, 5, 6]])
    table = learnt.network.embeddings
    expected = tiny_future.discriminator(table).whole(ids)
    torch.testing.assert_close(learnt.network.whole(ids), expected)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kind": "class-lm"}, "kind class-lm; expected future"),
        ({"shape": {"width": 16, "layers": 3, "heads": 2}}, "'guide' can't be loaded"),
        ({"shape": None}, "'guide' can't be loaded"),
        ({"revision": "0" * 64}, "was made for the base"),
    ],
)
def test_a_guide_that_is_damaged_or_of_another_kind_or_base_is_refused(
    tmp_path: Path, changes, why
):
    base = str(tiny.save("gpt2", tmp_path / "base", begins=True))
    about = tiny_future.save(base, tmp_path / "guide") / "guide.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), **changes}))
    guide = guide_named(str(about.parent))
    with pytest.raises(ModelError, match=why):
        future_model(guide, base)

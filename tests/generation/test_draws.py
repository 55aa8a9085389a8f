"""Noise of one's own for every text, and which tokens may be chosen."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import RepetitionPenaltyLogitsProcessor

from levelfield.models.torch.draws import Exponentials, most_likely, penalised, possible


def test_the_largest_share_of_noise_is_drawn_with_its_probability():
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    noise = Exponentials(0, [str(n) for n in range(4_000)], 4).draw()
    counts = torch.bincount((p / noise).argmax(-1), minlength=4)
    assert chisquare(counts.numpy(), (4_000 * p).numpy()).pvalue > 0.001


def test_the_noise_of_a_text_depends_on_seed_and_id_alone():
    alone = Exponentials(1, ["b"], 8)
    together = Exponentials(1, ["a", "b", "c"], 8)
    assert torch.equal(alone.draw()[0], together.draw()[1])
    together.keep([1, 2])
    assert torch.equal(alone.draw()[0], together.draw()[0])
    assert not torch.equal(Exponentials(2, ["b"], 8).draw(), Exponentials(1, ["b"], 8).draw())


def test_noise_is_above_zero():
    noise = Exponentials(0, ["🎉", ""], 100_000).draw()
    assert (noise > 0).all()
    assert noise.isfinite().all()


@given(st.integers(0, 999), st.floats(0.05, 0.99), st.sampled_from([1, 50, 3_000]))
def test_the_fewest_tokens_with_the_share_are_possible(seed, top_p, spread):
    """Also where the first thousand tokens do not have it."""
    generator = torch.Generator().manual_seed(seed)
    log_p = (torch.randn(2, 3_000, generator=generator) * 8 / spread).double().log_softmax(-1)
    for row, may in zip(log_p.exp(), possible(log_p, 0, top_p), strict=True):
        ordered = row.sort(descending=True).values
        border = ordered[(ordered.cumsum(0) < top_p - 1e-12).sum()]
        assert may.sum() == (ordered >= border).sum()  # what ties at the border stays
        assert row[may].min() >= row[~may].max()


def test_tokens_that_are_equally_likely_at_the_border_all_stay():
    p = torch.tensor([[0.4, 0.2, 0.2, 0.2]])
    assert most_likely(p, 2, 1.0).count_nonzero() == 4
    assert most_likely(p, 0, 0.5).count_nonzero() == 4
    assert most_likely(p, 1, 1.0).count_nonzero() == 1


def test_a_penalty_divides_positive_logits_and_multiplies_negative_ones_once():
    logits = torch.tensor([[2.0, -1.0, 3.0, 0.5]])
    ids, mask = torch.tensor([[2, 0, 0, 1]]), torch.tensor([[0, 1, 1, 1]])
    out = penalised(logits, ids, mask, 2.0)
    assert out.tolist() == [[1.0, -2.0, 3.0, 0.5]]
    own = RepetitionPenaltyLogitsProcessor(2.0)(ids[:, 1:], logits.clone())
    assert torch.equal(out, own)
    assert penalised(logits, ids, mask, 1.0) is logits


@pytest.mark.parametrize("penalty", [1.2, 0.8])
def test_padding_is_not_repeated(penalty):
    logits = torch.tensor([[2.0, -1.0]])
    ids, mask = torch.tensor([[1, 1]]), torch.tensor([[0, 0]])
    assert torch.equal(penalised(logits, ids, mask, penalty), logits)


def test_ids_beyond_the_vocabulary_are_not_repeated():
    logits = torch.tensor([[2.0, -1.0]])
    ids, mask = torch.tensor([[7, 0, 2]]), torch.ones(1, 3, dtype=torch.long)
    assert penalised(logits, ids, mask, 2.0).tolist() == [[1.0, -1.0]]

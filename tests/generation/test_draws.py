"""Noise of one's own for every text, and which tokens may be chosen."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from transformers import RepetitionPenaltyLogitsProcessor

from levelfield.models.torch.draws import Exponentials, most_likely, penalised, possible, stream


def test_a_token_is_drawn_with_its_probability():
    p = torch.tensor([0.5, 0.3, 0.15, 0.05])
    tokens = Exponentials(0, [str(n) for n in range(4_000)], 4).draw(p.log().expand(4_000, -1))
    counts = torch.bincount(tokens, minlength=4)
    assert chisquare(counts.numpy(), (4_000 * p).numpy()).pvalue > 0.001


EQUAL = torch.zeros(1, 1_000)


def test_the_tokens_of_a_text_depend_on_seed_and_id_alone():
    alone = Exponentials(1, ["b"], 1_000)
    together = Exponentials(1, ["a", "b", "c"], 1_000)
    assert alone.draw(EQUAL)[0] == together.draw(EQUAL.expand(3, -1))[1]
    together.keep([1, 2])
    assert alone.draw(EQUAL)[0] == together.draw(EQUAL.expand(2, -1))[0]
    seeds = [Exponentials(seed, ["b"], 1_000).draw(EQUAL).item() for seed in range(5)]
    assert len(set(seeds)) > 1


@pytest.mark.parametrize("width", [50, 40])
@given(st.integers(0, 999), st.integers(0, 50))
def test_impossible_tokens_change_no_draw(width, seed, impossible):
    """The oracle takes the noise of the whole vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    log_p = torch.randn(3, width, generator=generator)
    out = torch.randperm(width, generator=generator)[: min(impossible, width - 1)]
    log_p[:, out] = -torch.inf
    ids = ["🎉", "", "a"]
    tokens = Exponentials(seed, ids, 50).draw(log_p)
    for row, id, token in zip(log_p, ids, tokens, strict=True):
        u = torch.empty(50, dtype=torch.float64).uniform_(generator=stream(seed, id))
        e = -u.log()
        assert (e > 0).all()
        assert token == (row - e[:width].log().float()).argmax()
        assert row[token] > -torch.inf


@given(st.integers(0, 999), st.floats(0.05, 0.99), st.sampled_from([1, 50, 3_000]))
def test_the_fewest_tokens_with_the_share_are_possible(seed, top_p, spread):
    """Also where the first thousand tokens do not have it."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 20_000, generator=generator) * 8 / spread
    logits[0] *= 20  # one row for which few are enough
    log_p = logits.double().log_softmax(-1)
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

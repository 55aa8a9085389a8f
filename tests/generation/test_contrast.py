"""Sampling from p⁻: the formula against a plain loop, and what must not change a segment."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.models.contracts import Gapped
from levelfield.models.infilling import FIM
from levelfield.models.loading import Loading
from levelfield.models.tokens import check_same_vocabulary
from levelfield.models.torch.draws import inverse_cdf, most_likely
from levelfield.train.cdm.contrast import (
    ContrastSampler,
    Pretrained,
    load_contrast,
    negative_log_p,
)

FAMILIES = ("t5", "pegasus", "gpt2", "bloom", "llama", "gpt2-fim", "llama-fim")
SOURCES = [
    Gapped("The food was ", " and we went home."),
    Gapped("We waited for an hour.\nThe waiter said\n", "\nNobody believed him, least of all I."),
    Gapped("", ""),
    Gapped("Go", ""),
    Gapped("", " 👍🏽 said 火山"),
]


@functools.cache
def pair(family: str, **options: Any) -> tuple[Pretrained, Pretrained]:
    """A random amateur and expert of a family."""
    name, _, marked = family.partition("-")
    is_causal = name in tiny.CAUSAL_FAMILIES
    tokenizer = tiny.causal_tokenizer(name) if is_causal else tiny.tokenizer(name)
    if marked:
        tokenizer.add_special_tokens({"additional_special_tokens": list(FIM)})
    build = tiny.causal_model if is_causal else tiny.model
    amateur, expert = (build(name, len(tokenizer), seed=seed, **options) for seed in (0, 1))
    return Pretrained(amateur, tokenizer), Pretrained(expert, tokenizer)


def plain_loop(
    family: str,
    models: tuple[Pretrained, Pretrained],
    gamma: float,
    source: Gapped,
    numbers: np.ndarray,
) -> list[int]:
    """Token by token from the formula, without caches, batches or masks."""
    tokenizer = models[0].tokenizer
    vocabulary = tokenizer.get_vocab()
    left = source.left.rstrip(" ")

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    ends = {tokenizer.eos_token_id}
    written: list[int] = []
    if family in ("t5", "pegasus"):
        gap = "<extra_id_0>" if family == "t5" else "<mask_1>"
        blank = " " if family == "pegasus" and not left.endswith("\n") else ""
        read = [*ids(f"{left}{blank}{gap}{source.right}"), tokenizer.eos_token_id]
        given = [0, vocabulary["<extra_id_0>"]] if family == "t5" else [0]
        ends |= {vocabulary["<extra_id_1>"]} if family == "t5" else set()
    elif family.endswith("fim"):
        prefix, suffix, middle = (vocabulary[mark] for mark in FIM)
        given = [prefix, *ids(left), suffix, *ids(source.right), middle]
    else:
        opening = [tokenizer.bos_token_id] if family == "llama" else []  # as its tokenizer puts it
        given = [*opening, *ids(left)] or [tokenizer.bos_token_id]
    special = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    ends |= {i for token, i in vocabulary.items() if "\n" in tokenizer.decode([i])}
    for u in numbers:
        log_p = []
        for one in models:
            now = torch.tensor([[*given, *written]])
            if family in ("t5", "pegasus"):
                out = one.model(input_ids=torch.tensor([read]), decoder_input_ids=now)
            else:
                out = one.model(input_ids=now)
            log_p.append(out.logits[0, -1].detach().double().log_softmax(-1).numpy())
        weight = np.exp(log_p[0] - gamma * (log_p[1] - log_p[0]))
        for i in range(len(weight)):
            if (i in special and i not in ends) or (i in ends and not written):
                weight[i] = 0
        token = int(np.searchsorted(np.cumsum(weight) / weight.sum(), u, side="right"))
        if token in ends:
            break
        written.append(token)
    return written


def uniform(seed: int, key: tuple[int, ...], count: int) -> np.ndarray:
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    return np.random.Generator(np.random.Philox(sequence)).random(count)


@pytest.mark.thinned
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_segments_are_what_a_plain_loop_over_the_formula_draws(family: str, gamma: float):
    models = pair(family)
    sources = SOURCES[:2] if family == "pegasus" else SOURCES  # whose gaps have blanks around them
    found = ContrastSampler(*models, gamma).infill(sources, seed=5, max_tokens=9)
    for i, source in enumerate(sources):
        ids = plain_loop(family, models, gamma, source, uniform(5, (i,), 9))
        text = models[0].tokenizer.decode(ids).rstrip("\ufffd").strip()
        assert found[i] == text


@pytest.mark.thinned
@pytest.mark.parametrize("family", FAMILIES)
def test_neither_the_cache_nor_the_batch_nor_its_padding_changes_a_segment(family: str):
    models = pair(family)
    together = ContrastSampler(*models, 0.5).infill(SOURCES, seed=1, max_tokens=12)
    anew = ContrastSampler(*models, 0.5, use_cache=False)
    assert anew.infill(SOURCES, seed=1, max_tokens=12) == together
    few = ContrastSampler(*models, 0.5, batch_tokens=1)
    assert few.infill(SOURCES, seed=1, max_tokens=12) == together
    single = ContrastSampler(*models, 0.5)
    for i, source in enumerate(SOURCES):
        assert single.infill([source], seed=1, max_tokens=12, keys=[(i,)]) == [together[i]]
    turned = single.infill(
        SOURCES[::-1], seed=1, max_tokens=12, keys=[(i,) for i in range(len(SOURCES))][::-1]
    )
    assert turned == together[::-1]


@pytest.mark.parametrize("family", ["gpt2", "bloom", "llama", "llama-fim"])
def test_left_padding_changes_no_logit(family: str):
    amateur, _ = pair(family)
    format = ContrastSampler(amateur, None, 0)._format
    prompts = format.prompts(SOURCES, 8)
    cpu = torch.device("cpu")
    with torch.inference_mode():
        batch = format.decoding(amateur.model, prompts, cpu, True)
        alone = [format.decoding(amateur.model, [one], cpu, True) for one in prompts]
        tokens = torch.tensor([7, 8, 9, 10, 11])
        for _ in range(3):
            one_by_one = torch.cat([one.logits() for one in alone])
            torch.testing.assert_close(batch.logits(), one_by_one, atol=1e-5, rtol=1e-4)
            batch.read(tokens)
            for one, token in zip(alone, tokens, strict=True):
                one.read(token[None])


@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_gamma_zero_is_the_amateur_alone_and_the_expert_takes_no_pass(
    family: str, monkeypatch: pytest.MonkeyPatch
):
    amateur, expert = pair(family)
    alone = ContrastSampler(amateur, None, 0).infill(SOURCES, seed=2, max_tokens=10)
    contrasted = ContrastSampler(amateur, expert, 1.0).infill(SOURCES, seed=2, max_tokens=10)
    monkeypatch.setattr(expert.model, "forward", None)  # a call of it fails
    assert ContrastSampler(amateur, expert, 0.0).infill(SOURCES, seed=2, max_tokens=10) == alone
    assert contrasted != alone


def test_an_identical_pair_draws_what_the_amateur_draws_whatever_gamma_is():
    amateur, _ = pair("t5")
    alone = ContrastSampler(amateur, None, 0).infill(SOURCES, seed=2, max_tokens=10)
    assert ContrastSampler(amateur, amateur, 3.0).infill(SOURCES, seed=2, max_tokens=10) == alone


def words_model(tokens: dict[str, int], seed: int) -> Pretrained:
    """A model over so many words. It has dropout like any other, so it must be in evaluation."""
    torch.manual_seed(seed)
    size = {"n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 32, "initializer_range": 0.4}
    config = GPT2Config(vocab_size=len(tokens), bos_token_id=0, eos_token_id=0, **size)
    made = Tokenizer(WordLevel(tokens, unk_token="<end>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<end>", eos_token="<end>", unk_token="<end>"
    )
    return Pretrained(GPT2LMHeadModel(config).eval(), tokenizer)


FIVE = {"<end>": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5}


@pytest.mark.thinned
@pytest.mark.parametrize("gamma", [0.0, 0.8])
def test_frequencies_of_a_five_word_vocabulary_are_those_of_p_minus(gamma: float):
    amateur, expert = words_model(FIVE, 0), words_model(FIVE, 1)

    def p_minus(before: list[int]) -> np.ndarray:
        log_p_a, log_p_e = (
            one.model(torch.tensor([before])).logits[0, -1].detach().double().log_softmax(-1)
            for one in (amateur, expert)
        )
        return (log_p_a - gamma * (log_p_e - log_p_a)).exp().numpy()

    expected = {}
    begin = p_minus([3])
    begin[0] = 0  # one token at least
    begin /= begin.sum()
    words = list(FIVE)
    for first in range(1, 6):
        then = p_minus([3, first])
        then /= then.sum()
        expected[words[first]] = begin[first] * then[0]
        for second in range(1, 6):
            expected[f"{words[first]} {words[second]}"] = begin[first] * then[second]
    assert math.isclose(sum(expected.values()), 1)

    n = 8000
    sampler = ContrastSampler(amateur, expert, gamma)
    counts = Counter(sampler.infill([Gapped("three", "")] * n, seed=11, max_tokens=2))
    assert counts.keys() <= expected.keys()
    observed = [counts[text] for text in expected]
    assert chisquare(observed, [n * p for p in expected.values()]).pvalue > 1e-3
    # and the test has the power to tell: the same counts do not fit another gamma
    if gamma:
        uncontrasted = ContrastSampler(amateur, None, 0)
        others = Counter(uncontrasted.infill([Gapped("three", "")] * n, seed=11, max_tokens=2))
        of_others = [others[text] for text in expected]
        assert chisquare(of_others, [n * p for p in expected.values()]).pvalue < 1e-6


def test_a_line_break_ends_a_segment_and_never_begins_one():
    tokens = {"<end>": 0, "one": 1, "two": 2, "\n": 3, ".\n": 4}
    sampler = ContrastSampler(words_model(tokens, 0), None, 0)
    found = sampler.infill([Gapped("one", "")] * 300, seed=0, max_tokens=6)
    assert all(text and set(text.split()) <= {"one", "two"} for text in found)
    assert {len(text.split()) for text in found} == {1, 2, 3, 4, 5, 6}


def test_special_tokens_are_never_drawn():
    tokens = {"<end>": 0, "word": 1, "<extra_id_7>": 2, "<x>": 3}
    amateur = words_model(tokens, 0)
    amateur.tokenizer.add_special_tokens({"additional_special_tokens": ["<x>"]})
    found = ContrastSampler(amateur, None, 0).infill(
        [Gapped("word", "")] * 300, seed=0, max_tokens=4
    )
    assert set(" ".join(found).split()) == {"word"}


def test_the_next_sentinel_of_t5_ends_a_segment():
    amateur, _ = copy.deepcopy(pair("t5"))
    end = amateur.tokenizer.get_vocab()["<extra_id_1>"]
    head = amateur.model.lm_head
    head.bias = torch.nn.Parameter(torch.zeros(head.out_features))
    free = ContrastSampler(amateur, None, 0)
    first = free.infill([SOURCES[0]] * 20, seed=0, max_tokens=1)
    assert free.infill([SOURCES[0]] * 20, seed=0, max_tokens=9) != first
    with torch.no_grad():
        head.bias[end] = 1e4
    # the sentinel is all but certain, and one token is drawn nevertheless
    assert free.infill([SOURCES[0]] * 20, seed=0, max_tokens=9) == first


def test_logits_of_rows_beyond_the_vocabulary_count_for_nothing():
    """Output layers are padded to round sizes, and those of two models differently."""
    amateur, expert = words_model(FIVE, 0), words_model(FIVE, 1)
    before = ContrastSampler(amateur, expert, 0.5).infill(
        [Gapped("two", "")] * 50, seed=0, max_tokens=4
    )
    amateur.model.resize_token_embeddings(16, mean_resizing=False)
    expert.model.resize_token_embeddings(8, mean_resizing=False)
    after = ContrastSampler(amateur, expert, 0.5).infill(
        [Gapped("two", "")] * 50, seed=0, max_tokens=4
    )
    assert after == before


@given(
    st.lists(st.floats(-30, 30), min_size=2, max_size=8).flatmap(
        lambda a: st.tuples(
            st.just(a), st.lists(st.floats(-30, 30), min_size=len(a), max_size=len(a))
        )
    ),
    st.floats(0, 5),
)
def test_p_minus_is_the_formula_and_sums_to_one(logits: tuple[list[float], list[float]], gamma):
    found = negative_log_p([torch.tensor([one]) for one in logits], gamma)[0].numpy()
    a, e = (np.array(one, np.float32).astype(float) for one in logits)
    log_p_a, log_p_e = a - np.logaddexp.reduce(a), e - np.logaddexp.reduce(e)
    wanted = log_p_a - gamma * (log_p_e - log_p_a)
    np.testing.assert_allclose(found, wanted - np.logaddexp.reduce(wanted), atol=1e-9)
    assert math.isclose(np.exp(found).sum(), 1, rel_tol=1e-9)


@pytest.mark.parametrize("gamma", [1e3, 1e9, 1e300])
def test_however_large_gamma_is_p_minus_is_a_distribution(gamma: float):
    logits = [torch.tensor([[1.0, 0.5, -2.0]]), torch.tensor([[3.0, 0.5, -torch.inf]])]
    p = negative_log_p(logits, gamma).exp()
    assert p.tolist() == [[0, 0, 1]]
    amateur, expert = words_model(FIVE, 0), words_model(FIVE, 1)
    found = ContrastSampler(amateur, expert, gamma).infill(
        [Gapped("one", "")] * 3, seed=0, max_tokens=3
    )
    assert all(found)


def test_what_the_amateur_finds_impossible_is_never_drawn():
    logits = [torch.tensor([[0.0, -torch.inf]]), torch.tensor([[0.0, -torch.inf]])]
    assert negative_log_p(logits, 2.0).exp().tolist() == [[1, 0]]


@given(st.lists(st.sampled_from([0.0, 1e-12, 0.1, 0.5, 3.0]), min_size=1), st.floats(0, 1))
def test_the_token_drawn_is_possible_and_where_u_falls(weights: list[float], u: float):
    if not any(weights):
        weights = [*weights, 1.0]
    u = min(u, math.nextafter(1, 0))
    token = int(inverse_cdf(torch.tensor([weights], dtype=torch.float64), torch.tensor([u]))[0])
    cdf = list(itertools.accumulate(weights))
    assert weights[token] > 0
    assert cdf[token] >= u * cdf[-1] * (1 - 1e-9)
    assert cdf[token] - weights[token] <= u * cdf[-1] * (1 + 1e-9)


def test_top_k_and_top_p_keep_the_most_likely_tokens_and_ties():
    p = torch.tensor([[0.1, 0.4, 0.2, 0.2, 0.1]], dtype=torch.float64)
    assert most_likely(p, 1, 1.0).tolist() == [[0, 0.4, 0, 0, 0]]
    assert most_likely(p, 2, 1.0).tolist() == [[0, 0.4, 0.2, 0.2, 0]]
    assert most_likely(p, 0, 0.4).tolist() == [[0, 0.4, 0, 0, 0]]
    assert most_likely(p, 0, 0.41).tolist() == [[0, 0.4, 0.2, 0.2, 0]]
    assert most_likely(p, 0, 1.0).tolist() == p.tolist()
    assert most_likely(p, 9, 1.0).tolist() == p.tolist()


def test_the_expert_of_a_pair_with_gamma_zero_is_not_even_looked_for(tiny_folders: dict[str, Path]):
    sampler = load_contrast(str(tiny_folders["t5"]), "no/such-model", 0, loading=Loading("cpu"))
    assert sampler.choices["amateur"].startswith("t5@")
    assert "expert" not in sampler.choices
    assert len(sampler.infill(SOURCES, seed=0, max_tokens=5)) == len(SOURCES)


def test_choices_name_both_models_and_every_number(causal_folders: dict[str, Path]):
    name = str(causal_folders["gpt2"])
    choices = load_contrast(name, name, 1.5, loading=Loading("cpu")).choices
    assert choices["expert"].startswith("gpt2@")
    assert (choices["gamma"], choices["top_p"], choices["format"]) == ("1.5", "1", "left")


@pytest.mark.parametrize("family", ["t5", "gpt2", "gpt2-fim"])
def test_of_a_long_text_the_part_nearest_to_the_gap_is_read(family: str):
    amateur, _ = pair(family, positions=64)
    sampler = ContrastSampler(amateur, None, 0)
    long = Gapped("far away " * 2000 + "we ate ", " and left" + " far away" * 2000)
    (prompt,) = sampler._format.prompts([long], 16)
    assert len(prompt) <= 64
    read = amateur.tokenizer.decode(prompt)
    assert "we ate" in read
    assert ("and left" in read) == sampler.sees_right == (family != "gpt2")
    assert len(sampler.infill([long], seed=0, max_tokens=16)) == 1


def test_a_t5_that_names_no_limit_reads_as_much_as_it_did_in_training():
    amateur, _ = copy.deepcopy(pair("t5"))
    del amateur.model.config.n_positions
    sampler = ContrastSampler(amateur, None, 0)
    (prompt,) = sampler._format.prompts([Gapped("far away " * 2000, "")], 16)
    assert len(prompt) == 512


@pytest.mark.parametrize("family", ["t5", "gpt2-fim"])
def test_gap_tokens_written_in_a_text_are_not_gaps(family: str):
    amateur, _ = pair(family)
    mark = "<extra_id_0>" if family == "t5" else FIM[2]
    sampler = ContrastSampler(amateur, None, 0)
    (prompt,) = sampler._format.prompts([Gapped(f"a {mark} b ", f" {mark} d")], 5)
    assert prompt.count(amateur.tokenizer.convert_tokens_to_ids(mark)) == 1


def test_nothing_to_write_is_no_error():
    amateur, _ = pair("t5")
    assert ContrastSampler(amateur, None, 0).infill([], seed=0) == []


def test_pairs_of_two_vocabularies_or_kinds_are_refused():
    t5, pegasus, gpt2 = (pair(family)[0] for family in ("t5", "pegasus", "gpt2"))
    with pytest.raises(ModelError, match=r"different vocabularies.*id 2 .*'<extra_id_0>'"):
        ContrastSampler(t5, pegasus, 1.0)
    check_same_vocabulary(t5.tokenizer, t5.tokenizer)
    with pytest.raises(ModelError, match="of the same kind"):
        ContrastSampler(t5, Pretrained(gpt2.model, t5.tokenizer), 1.0)
    other_end = copy.deepcopy(t5.tokenizer)
    other_end.eos_token = "<pad>"
    with pytest.raises(ModelError, match="end texts with different tokens"):
        check_same_vocabulary(t5.tokenizer, other_end)


def test_families_that_write_more_than_the_segment_are_refused(tiny_folders: dict[str, Path]):
    with pytest.raises(ModelError, match="bart model does not fill gaps"):
        load_contrast(str(tiny_folders["bart"]), None, 0, loading=Loading("cpu"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": -1.0}, "gamma is -1.0"),
        ({"gamma": math.nan}, "gamma is nan"),
        ({"gamma": math.inf}, "gamma is inf"),
        ({"gamma": 1.0}, "requires an expert"),
    ],
)
def test_options_that_make_no_distribution_are_the_users_mistake(
    options: dict[str, Any], message: str
):
    amateur = words_model(FIVE, 0)
    with pytest.raises(UserError, match=message):
        ContrastSampler(amateur, None, **options)


@pytest.mark.parametrize("max_tokens", [0, 16, 1000])
def test_segments_without_room_are_the_users_mistake(max_tokens: int):
    sampler = ContrastSampler(words_model(FIVE, 0), None, 0)
    with pytest.raises(UserError, match=f"max_tokens is {max_tokens}; expected 1 to 15"):
        sampler.infill([Gapped("one", "")], seed=0, max_tokens=max_tokens)


def test_models_that_give_no_numbers_are_named():
    broken = words_model(FIVE, 0)
    with torch.no_grad():
        broken.model.transformer.wte.weight.fill_(torch.nan)
    with pytest.raises(ModelError, match="not numbers"):
        ContrastSampler(broken, None, 0).infill([Gapped("one", "")], seed=0, max_tokens=2)

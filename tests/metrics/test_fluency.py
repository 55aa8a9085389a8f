"""Perplexity and SLOR against formulas written out, with token log-probabilities from the model
called for one text at a time."""

from __future__ import annotations

import json
import math
import pickle
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

import levelfield
import tiny
from levelfield.core.corpus import GroupStates
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics import unigram
from levelfield.metrics.fluency import SLOR, CorpusPerplexity, Likelihoods, Perplexity
from levelfield.models.contracts import CausalLikelihood
from levelfield.models.load import forget, load
from levelfield.models.loading import Loading

Folders = dict[str, Path]
BOS = {"gpt2": 0, "bloom": 1, "llama": 1}


def samples(count: int = 8) -> list[Sample]:
    records = [json.loads(x) for x in tiny.EXAMPLES.read_text(encoding="utf-8").splitlines()]
    return [
        Sample(r["id"], r["text"], prompt=r["prompt"], control=r["control"])
        for r in records[:: len(records) // count][:count]
    ]


class PlainLoop:
    """ids and log-probabilities of a text's tokens that something precedes, one text at a time."""

    def __init__(self, folder: Path, family: str) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.bos = BOS[family]
        self.opening = [self.bos] if family == "llama" else []  # as its tokenizer puts it

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def log_p(self, text: str) -> tuple[list[int], list[float]]:
        whole = [*self.opening, *self.ids(text)]
        if not whole:
            return [], []
        with torch.no_grad():
            logits = self.model(torch.tensor([whole])).logits[0]
        table = logits.double().log_softmax(-1)
        return whole[1:], [table[place, id].item() for place, id in enumerate(whole[1:])]

    def log_p_bos(self, id: int) -> float:
        with torch.no_grad():
            logits = self.model(torch.tensor([[self.bos]])).logits[0, 0]
        return logits.double().log_softmax(-1)[id].item()


@pytest.fixture(scope="module", params=tiny.CAUSAL_FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def plain(family: str, causal_folders: Folders) -> PlainLoop:
    return PlainLoop(causal_folders[family], family)


@pytest.fixture
def folder(family: str, causal_folders: Folders) -> str:
    return str(causal_folders[family])


@pytest.fixture
def gpt2(causal_folders: Folders) -> str:
    return str(causal_folders["gpt2"])


@pytest.mark.thinned
@pytest.mark.parametrize("batch_tokens", [None, 1, 300])
def test_perplexity_is_the_formula_of_the_plain_loop(plain, folder, batch_tokens):
    inputs = samples()
    scores = Perplexity(model=folder, loading=Loading(batch_tokens=batch_tokens)).score(inputs)
    for sample, value in zip(inputs, scores.values, strict=True):
        _, log_p = plain.log_p(sample.text)
        assert math.log(value) == pytest.approx(-sum(log_p) / len(log_p), abs=1e-5)
    assert scores.direction == "lower"


@pytest.mark.thinned
def test_slor_with_bos_unigrams_is_the_formula_with_one_forward_of_bos_for_each_token(
    plain, folder
):
    inputs = samples(4)
    scores = SLOR(model=folder, unigram="bos").score(inputs)
    for sample, value in zip(inputs, scores.values, strict=True):
        ids, log_p = plain.log_p(sample.text)
        log_p_u = sum(plain.log_p_bos(id) for id in ids)
        assert value == pytest.approx((sum(log_p) - log_p_u) / len(ids), abs=1e-5)
    assert scores.direction == "higher"


def test_slor_with_corpus_unigrams_is_the_formula_with_add_one_counts(plain, folder, tmp_path):
    corpus = tiny.texts()[10:30]
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in corpus), encoding="utf-8"
    )
    c = Counter(id for text in corpus for id in plain.ids(text))
    N, V = c.total(), plain.model.config.vocab_size
    inputs = samples()
    scores = SLOR(model=folder, corpus=str(tmp_path / "corpus.jsonl")).score(inputs)
    for sample, value in zip(inputs, scores.values, strict=True):
        ids, log_p = plain.log_p(sample.text)
        log_p_u = sum(math.log((c[id] + 1) / (N + V)) for id in ids)
        assert value == pytest.approx((sum(log_p) - log_p_u) / len(ids), abs=1e-5)


def continued(plain: PlainLoop, prompt: str, text: str) -> list[float]:
    """Returns the log-probabilities of the tokens with at least one character after the prompt."""
    ids, log_p = plain.log_p(text)
    spans = plain.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    after = [end > len(prompt) for _, end in spans["offset_mapping"]][1 - len(plain.opening) :]
    assert len(after) == len(ids)
    return [value for value, is_after in zip(log_p, after, strict=True) if is_after]


@pytest.mark.parametrize("prompt", ["The lake", "The la", "The lake ", "The", "The lake froz"])
def test_the_continuation_is_scored_given_the_prompt_with_the_token_that_spans_both(
    plain, folder, prompt
):
    text = "The lake froze early, ça va 🙂."
    inputs = [Sample("a", text, prompt=prompt)]
    scores = Perplexity(model=folder, text="continuation").score(inputs)
    log_p = continued(plain, prompt, text)
    assert 0 < len(log_p) < len(plain.ids(text))
    assert math.log(scores.values[0]) == pytest.approx(-sum(log_p) / len(log_p), abs=1e-5)
    slor = SLOR(model=folder, text="continuation", unigram="bos").score(inputs)
    log_p_u = [plain.log_p_bos(id) for id in plain.ids(text)[-len(log_p) :]]
    assert slor.values[0] == pytest.approx((sum(log_p) - sum(log_p_u)) / len(log_p), abs=1e-5)


def test_prompt_and_continuation_make_up_the_whole(gpt2):
    for sample in samples():
        whole, rest = Sample("a", sample.text), Sample("a", sample.text, prompt=sample.prompt)
        n = len(load("causal", gpt2).token_ids([sample.text])[0])
        state = CorpusPerplexity(model=gpt2).state([whole])
        after = CorpusPerplexity(model=gpt2, text="continuation").state([rest])
        (likelihood,) = load("causal", gpt2).log_likelihood([sample.text])
        before = likelihood.ends <= len(sample.prompt)
        assert state.tokens == n - 1 == after.tokens + before.sum()  # no BOS, and so no first
        assert state.nll == pytest.approx(after.nll - likelihood.log_p[before].sum())


@pytest.mark.parametrize(
    ("text", "prompt", "option", "reason"),
    [
        ("", "", "whole", "empty text"),
        (" \n\t", "", "whole", "empty text"),
        ("", "The lake", "continuation", "empty text"),
        ("The lake froze.", "", "continuation", "no prompt"),
        ("The lake froze.", "the lake", "continuation", "prompt is not a prefix of the text"),
        ("The lake", "The lake", "continuation", "nothing after the prompt"),
        ("The lake \n", "The lake", "continuation", "nothing after the prompt"),
    ],
)
def test_what_has_no_value_has_a_reason(gpt2, text, prompt, option, reason):
    inputs = [Sample("a", text, prompt=prompt), Sample("b", "It rained.", prompt="It")]
    for metric in (
        Perplexity(model=gpt2, text=option),
        SLOR(model=gpt2, text=option, unigram="bos"),
    ):
        scores = metric.score(inputs)
        assert scores.undefined == {"a": reason}
        assert np.isfinite(scores.values[1])


def test_one_token_is_enough_for_a_value_after_bos_and_has_none_without(gpt2):
    inputs = [Sample("a", "a"), Sample("b", "a a", prompt="a")]
    (likelihood, _) = load("causal", gpt2, bos=True).log_likelihood([s.text for s in inputs])
    assert likelihood.ids.size == 1
    scores = Perplexity(model=gpt2, bos=True).score(inputs)
    assert scores.values[0] == pytest.approx(math.exp(-likelihood.log_p[0]))
    slor = SLOR(model=gpt2, unigram="bos", bos=True).score(inputs)
    assert slor.values[0] == pytest.approx(0, abs=1e-5)
    reason = "one token only, and the model reads nothing before it"
    without = Perplexity(model=gpt2).score(inputs)
    assert without.undefined == {"a": reason}
    assert np.isfinite(without.values[1])
    assert CorpusPerplexity(model=gpt2).state(inputs[:1]).tokens == 0


def test_bos_is_an_option_of_every_metric_of_fluency_and_in_its_signature(plain, folder, family):
    inputs = samples(3)
    for bos, named in ((True, plain.tokenizer.bos_token.replace("|", "/")), (False, "no")):
        plain.opening = [plain.bos] * bos
        metrics = [kind(model=folder, bos=bos) for kind in (Perplexity, CorpusPerplexity)]
        metrics.append(SLOR(model=folder, bos=bos, unigram="bos"))
        assert all(f"|bos:{named}|" in metric.signature for metric in metrics)
        log_p = [plain.log_p(sample.text)[1] for sample in inputs]
        expected = [math.exp(-np.mean(values)) for values in log_p]
        assert metrics[0].score(inputs).values == pytest.approx(expected, rel=1e-4)
        tokens = [len(values) for values in log_p]
        assert metrics[1].state(inputs).tokens == sum(tokens)
    plain.opening = [plain.bos] if family == "llama" else []


def test_a_text_that_is_cut_is_counted_and_a_prompt_that_fills_the_model_leaves_no_value(tmp_path):
    folder = str(tiny.save("gpt2", tmp_path / "gpt2", positions=20))
    long = tiny.texts()[0]
    inputs = [Sample("a", long, prompt=long[:9]), Sample("b", long, prompt=long[:-3])]
    whole = Perplexity(model=folder).score(inputs)
    assert whole.truncated == {"a", "b"}
    rest = Perplexity(model=folder, text="continuation").score(inputs)
    assert rest.truncated == {"a"}
    assert rest.undefined == {"b": "the prompt is longer than the model takes"}
    groups = CorpusPerplexity(model=folder).score(inputs)
    assert groups.truncated == {"all texts"}


class Says:
    """A model that says the same log-probabilities of every text."""

    vocabulary_size = 2

    def __init__(self, *log_p: float, bos: tuple[float, float] = (-0.5, -0.5)) -> None:
        self.log_p, self.bos = np.array(log_p), np.array(bos)

    def log_likelihood(self, texts: list[str]) -> list[CausalLikelihood]:
        n = len(self.log_p)
        likelihood = CausalLikelihood(
            np.zeros(n, np.int64), np.arange(1, n + 1), self.log_p, cut=False
        )
        return [likelihood] * len(texts)

    def unigram_bos(self) -> Any:
        return self.bos


@pytest.fixture
def says(put_model: Any) -> Any:
    def says(*log_p: float, **options: Any) -> None:
        put_model("causal", lambda _name, _loading: Says(*log_p, **options))

    return says


@pytest.mark.parametrize("log_p", [(-1.0, -math.inf), (-1e9,)])
def test_an_infinite_perplexity_is_kept_and_warns_of_nothing(gpt2, says, log_p):
    says(*log_p)
    inputs = [Sample("a", "It rained.")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in (Perplexity(model=gpt2), CorpusPerplexity(model=gpt2)):
            scores = metric.score(inputs)
            assert (scores.values.tolist(), scores.undefined) == ([math.inf], {})


@pytest.mark.parametrize(
    ("log_p", "bos", "value"),
    [
        (-math.inf, -0.5, -math.inf),
        (-math.inf, -math.inf, -math.inf),
        (-1.0, -math.inf, math.inf),  # impossible to the unigrams only
    ],
)
def test_an_impossible_token_gives_an_infinite_slor_and_warns_of_nothing(
    gpt2, says, log_p, bos, value
):
    says(log_p, bos=(bos, -0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = SLOR(model=gpt2, unigram="bos").score([Sample("a", "It rained.")])
    assert (scores.values.tolist(), scores.undefined) == ([value], {})


def test_a_model_that_computes_no_numbers_leaves_texts_undefined(gpt2, says):
    says(-1.0, math.nan)
    inputs = [Sample("a", "It rained.")]
    reason = "the model gives probabilities that are not numbers"
    assert Perplexity(model=gpt2).score(inputs).undefined == {"a": reason}
    assert CorpusPerplexity(model=gpt2).state(inputs).undefined == 1


def test_corpus_perplexity_counts_every_token_alike_and_is_not_the_mean(plain, folder):
    inputs = [Sample("a", "It rained."), Sample("b", tiny.texts()[3]), Sample("c", "")]
    scores = CorpusPerplexity(model=folder).score(inputs)
    log_p = [v for sample in inputs for v in plain.log_p(sample.text)[1]]
    assert math.log(scores.values[0]) == pytest.approx(-sum(log_p) / len(log_p), abs=1e-5)
    mean = Perplexity(model=folder).score(inputs).mean()
    assert abs(scores.values[0] - mean) > 1


def test_corpus_perplexity_has_one_value_a_group_and_none_where_no_text_has_one(gpt2):
    inputs = [
        Sample("1", "It rained.", system="a"),
        Sample("2", "It rained and rained.", system="b"),
        Sample("3", "", system="c"),
    ]
    scores = CorpusPerplexity(model=gpt2).score(inputs)
    assert scores.ids == ("system=a", "system=b", "system=c")
    assert scores.undefined == {"system=c": "no text of the group has a value"}
    alone = CorpusPerplexity(model=gpt2).score(inputs[1:2])
    assert scores.values[1] == pytest.approx(alone.values[0], rel=1e-5)


def test_states_of_partitions_merge_to_the_state_of_all(gpt2):
    metric = CorpusPerplexity(model=gpt2)
    inputs = [*samples(), Sample("e", "")]
    whole = metric.state(inputs)
    assert (whole.samples, whole.undefined) == (9, 1)
    parts = [metric.state(inputs[:2]), metric.state([]), metric.state(inputs[2:])]
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        a, b, c = (parts[i] for i in order)
        merged = metric.merge(metric.merge(a, b), c)
        assert merged == whole._replace(nll=pytest.approx(whole.nll, rel=1e-9))
        assert metric.value(merged).value == pytest.approx(metric.value(whole).value, rel=1e-9)
    assert pickle.loads(pickle.dumps(whole)) == whole


def test_a_group_seen_in_partitions_has_the_value_of_the_whole(gpt2):
    metric = CorpusPerplexity(model=gpt2)
    groups = GroupStates(metric, by=())
    for sample in samples():
        groups.merge(groups.states([sample]))
    (value,) = groups.scores().values
    assert value == pytest.approx(metric.value(metric.state(samples())).value, rel=1e-6)


@given(
    states=st.lists(
        st.tuples(st.floats(0, 1e6).map(round), *[st.integers(0, 10**6)] * 4).map(
            lambda t: Likelihoods(*t)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_corpus_perplexity_is_exp_of_summed_nll_over_summed_tokens(states):
    metric = CorpusPerplexity()
    merged = states[0]
    for state in states[1:]:
        merged = metric.merge(merged, state)
    tokens = sum(s.tokens for s in states)
    value = metric.value(merged)
    assert merged.samples == sum(s.samples for s in states)
    if not tokens:
        assert math.isnan(value.value)
        assert value.undefined
        return
    mean = math.fsum(s.nll for s in states) / tokens
    expected = math.inf if mean > math.log(sys.float_info.max) else math.exp(mean)
    assert value.value == pytest.approx(expected, rel=1e-9)


def test_one_pass_of_the_model_serves_perplexity_slor_and_groups(gpt2, monkeypatch):
    model = load("causal", gpt2, Loading(batch_tokens=77))
    forwards: list[int] = []
    body = model._body
    monkeypatch.setattr(model, "_body", lambda ids: (forwards.append(len(ids)), body(ids))[1])
    inputs = samples()
    options: dict[str, Any] = {"model": gpt2, "loading": Loading(batch_tokens=77)}
    Perplexity(**options).score(inputs)
    assert sum(forwards) == len(inputs)
    SLOR(**options, unigram="bos").score(inputs)
    CorpusPerplexity(**options, text="continuation").score(inputs)
    assert sum(forwards) == len(inputs) + 1  # the forward of BOS


def test_texts_of_a_corpus_are_read_once_and_then_their_likelihoods_are_cached(gpt2, monkeypatch):
    model = load("causal", gpt2, Loading(batch_tokens=78))
    requests: list[str] = []
    ask = model.log_likelihood
    monkeypatch.setattr(
        model, "log_likelihood", lambda texts: (requests.extend(texts), ask(texts))[1]
    )
    inputs = [*samples(), Sample("e", "", system="x")]
    metric = CorpusPerplexity(model=gpt2, loading=Loading(batch_tokens=78))
    first, again, plainly = (
        levelfield.score(inputs, metric, cache=cache).scores[metric.name]
        for cache in (True, True, False)
    )
    assert len(requests) == 2 * len(samples())
    assert again.ids == first.ids == plainly.ids
    assert again.undefined == plainly.undefined == {"system=x": "no text of the group has a value"}
    np.testing.assert_array_equal(again.values, first.values)
    np.testing.assert_allclose(first.values, plainly.values, rtol=1e-6)


@pytest.mark.thinned
def test_a_value_depends_on_its_sample_alone(folder):
    inputs = samples()
    for metric, scale in (
        (Perplexity(model=folder), np.log),
        (SLOR(folder, unigram="bos"), np.abs),
    ):
        together = metric.score(inputs[::-1]).values[::-1]
        forget()  # or what was found together would be found again
        alone = []
        for sample in inputs:
            forget()
            alone += metric.score([sample]).values.tolist()
        np.testing.assert_allclose(scale(together), scale(alone), atol=1e-5)


def test_signatures_name_every_choice(gpt2, causal_folders, tmp_path):
    corpus = tmp_path / "c.txt"
    corpus.write_text("It rained.\n")
    base: dict[str, Any] = {"model": gpt2}
    metrics = [
        Perplexity(**base),
        Perplexity(model=str(causal_folders["llama"])),
        Perplexity(**base, loading=Loading(dtype="bfloat16")),
        Perplexity(**base, text="continuation"),
        CorpusPerplexity(**base),
        SLOR(**base, unigram="bos"),
        SLOR(**base, corpus=str(corpus)),
    ]
    corpus.with_name("d.txt").write_text("It rained. It rained.\n")
    metrics.append(SLOR(**base, corpus=str(corpus.with_name("d.txt"))))
    assert len({metric.signature for metric in metrics}) == len(metrics)
    metrics.append(Perplexity(**base, bos=True))
    assert metrics[-1].signature == metrics[0].signature.replace("bos:no", "bos:</endoftext/>")
    assert Perplexity(**base, bos=False).signature == metrics[0].signature
    assert "|bos:no|" in metrics[0].signature
    assert "|bos:<s>|" in metrics[1].signature
    assert Perplexity(**base, loading=Loading(batch_tokens=5)).signature == metrics[0].signature


def test_equal_counts_have_equal_signatures_whatever_file_they_come_from(gpt2, tmp_path):
    texts = tiny.texts()[:5]
    (tmp_path / "t.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    (tmp_path / "t.csv").write_text("text\n" + "".join(f'"{t}"\n' for t in texts), encoding="utf-8")
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt").write_text(f"\ufeff{text}\r\n", encoding="utf-8")
    tokens = load("causal-tokens", gpt2)
    with (tmp_path / "counts").open("w") as file:
        unigram.write(unigram.count(texts, tokens), file)
    corpora = [
        str(tmp_path / "t.txt"),
        str(tmp_path / "t.csv"),
        str(tmp_path / "counts"),
        tuple(str(tmp_path / f"{number}.txt") for number in range(5)),
        unigram.count(texts, tokens),
    ]
    assert len({SLOR(model=gpt2, corpus=corpus).signature for corpus in corpora}) == 1
    counted_twice = SLOR(model=gpt2, corpus=(corpora[0], corpora[2]))
    assert counted_twice.signature != SLOR(model=gpt2, corpus=corpora[0]).signature


def test_a_corpus_in_which_ids_repeat_is_read(gpt2, tmp_path):
    record = json.dumps({"id": "1", "text": "It rained."}) + "\n"
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(record * 2)
    files = (str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))
    tokens = load("causal-tokens", gpt2)
    unigrams = unigram.load(files, tokens)
    assert unigrams.counts.sum() == 4 * len(tokens.ids(["It rained."])[0])


def test_slor_counts_texts_that_are_handed_to_it_unless_it_has_a_corpus_or_needs_none(
    gpt2, tmp_path
):
    (tmp_path / "c.txt").write_text("It stopped.\n")
    (tmp_path / "d.txt").write_text("It rained.\nIt poured.\n")
    counting = SLOR(model=gpt2).counting(["It rained.", "It poured."])
    counted = SLOR(model=gpt2, corpus=str(tmp_path / "d.txt"))
    assert counting.signature == counted.signature
    inputs = samples(2)
    assert counting.score(inputs).values.tolist() == counted.score(inputs).values.tolist()
    sent = pickle.loads(pickle.dumps(counting))
    assert (sent.signature, sent.score(inputs).values.tolist()) == (
        counting.signature,
        counted.score(inputs).values.tolist(),
    )
    for metric in (SLOR(model=gpt2, corpus=str(tmp_path / "c.txt")), SLOR(gpt2, unigram="bos")):
        assert metric.counting(["It rained."]) is metric


def test_counts_of_another_tokenizer_are_not_a_corpus(gpt2, causal_folders):
    tokens = load("causal-tokens", str(causal_folders["bloom"]))
    assert tokens.vocabulary_size == load("causal-tokens", gpt2).vocabulary_size
    counts = unigram.count(["It rained."], tokens)
    with pytest.raises(UserError, match=r"fluency\.slor: corpus: counts with tokenizer"):
        _ = SLOR(model=gpt2, corpus=counts).signature


@given(counts=st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_add_one_probabilities_sum_to_one_and_none_is_zero(counts):
    log_p = unigram.Unigrams(np.array(counts, np.int64), "").log_p()
    assert np.exp(log_p).sum() == pytest.approx(1)
    assert np.isfinite(log_p).all()
    assert log_p[0] == pytest.approx(math.log((counts[0] + 1) / (sum(counts) + len(counts))))


@given(
    texts=st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=12), batch=st.integers(1, 5)
)
def test_counts_are_those_of_a_plain_loop_whatever_the_batch(texts, batch):
    words = [" ".join(map(str, numbers)) for numbers in texts]

    class Digits:
        digest = "digits"
        vocabulary_size = 7

        def ids(self, texts: list[str]) -> list[list[int]]:
            return [[int(word) for word in text.split()] for text in texts]

    if not any(texts):
        with pytest.raises(UserError, match="no token"):
            unigram.count(words, Digits(), batch=batch)
        return
    expected = Counter(id for numbers in texts for id in numbers)
    unigrams = unigram.count(words, Digits(), batch=batch)
    assert unigrams.counts.tolist() == [expected[id] for id in range(7)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{header}\n" + "1\n" * 399, "399 counts for a vocabulary of 400"),
        ("{header}\n", "0 counts"),
        ("{header}\n" + "one\n" * 400, "one count per line"),
        ("{header}\n" + "-1\n" * 400, "negative"),
        ("{header}\n" + "99999999999999999999\n" * 400, "one count per line"),
        (unigram.HEADER + "\n" + "1\n" * 400, "does not say which tokenizer .* make it again"),
        (unigram.HEADER + "; tokenizer x\n" + "1\n" * 400, "with tokenizer x, and this model's"),
        ("\n\n", "no token"),
    ],
)
def test_a_corpus_that_is_none_is_the_users_mistake(gpt2, tmp_path, content, message):
    file = tmp_path / "c.txt"
    tokens = load("causal-tokens", gpt2)
    header = f"{unigram.HEADER}; tokenizer {tokens.digest}"
    file.write_text(content.format(header=header))
    with pytest.raises(UserError, match=message):
        _ = SLOR(model=gpt2, corpus=str(file)).signature


def test_slor_without_a_corpus_says_what_to_give(gpt2):
    for corpus in (None, ()):
        with pytest.raises(UserError, match="corpus=FILE"):
            _ = SLOR(model=gpt2, corpus=corpus).signature
    with pytest.raises(UserError, match=r"no-such\.txt"):
        SLOR(model=gpt2, corpus="no-such.txt").score(samples(1))


def test_metrics_are_sent_to_other_processes_before_and_after_use(gpt2):
    for metric in (
        Perplexity(model=gpt2, text="continuation"),
        SLOR(model=gpt2, unigram="bos"),
        CorpusPerplexity(model=gpt2),
    ):
        expected = metric.score(samples(2))
        again = pickle.loads(pickle.dumps(metric))
        assert again == metric
        assert again.requires == metric.requires
        np.testing.assert_array_equal(again.score(samples(2)).values, expected.values)


def test_the_prompt_is_required_only_where_it_is_read():
    assert Perplexity().requires == {"text"}
    assert Perplexity(text="continuation").requires == {"text", "prompt"}
    assert Perplexity.requires == {"text"}


def test_bfloat16_comes_near_float32(folder):
    exact = Perplexity(model=folder).score(samples())
    rough = Perplexity(model=folder, loading=Loading(dtype="bfloat16")).score(samples())
    np.testing.assert_allclose(np.log(rough.values), np.log(exact.values), rtol=0.02)


def test_no_samples_have_no_values(gpt2):
    assert len(Perplexity(model=gpt2).score([])) == 0
    assert len(CorpusPerplexity(model=gpt2).score([])) == 0

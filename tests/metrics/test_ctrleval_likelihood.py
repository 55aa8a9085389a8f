"""CTRLEval with causal models against the plain loop: every reading alone through the model."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import levelfield
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.metrics.aspects import load_aspect
from levelfield.metrics.ctrleval import (
    CTRLEvalAttributeRelevance,
    CTRLEvalCoherence,
    CTRLEvalConsistency,
)
from levelfield.metrics.ctrleval.base import CTRLEvalMetric
from levelfield.metrics.likelihood import LikelihoodScorer
from levelfield.models.contracts import CausalLikelihood, WordLikelihoods
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.tokens import RecentResults
from levelfield.text.segmenter import sentences

FORMS = [
    (CTRLEvalCoherence, "share"),
    (CTRLEvalCoherence, "nats"),
    (CTRLEvalCoherence, "log-p"),
    (CTRLEvalCoherence, "evidence"),
    (CTRLEvalConsistency, "log-p"),
    (CTRLEvalConsistency, "share"),
    (CTRLEvalConsistency, "evidence"),
    (CTRLEvalAttributeRelevance, "after"),
    (CTRLEvalAttributeRelevance, "after-calibrated"),
    (CTRLEvalAttributeRelevance, "channel"),
]
POSITIVE = {"sentiment": "positive"}
SAMPLES = [
    Sample(
        "1", "The lake froze. We skated all day. Taxes rose.", prompt="The lake", control=POSITIVE
    ),
    Sample(
        "2",
        "It was  late.\nNobody came!  Was it cold? \n",
        prompt="It was",
        control={"sentiment": "negative"},
    ),
    Sample("3", "😀😀 مرحبا. 这是。 Ünder way. 😀!", prompt="😀", control={"topic": "science"}),
    Sample("4", "The lake froze. The lake froze.", prompt="The la", control={"topic": "politics"}),
]


def metric(kind: Any, form: str, folder: Path, **options: Any) -> Any:
    return kind(model=str(folder), form=form, **options)


class PlainLoop:
    """log P of ids after others, one sequence at a time."""

    def __init__(self, folder: Path, bos: bool) -> None:
        self.bos = bos
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def ends(self, text: str) -> list[int]:
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [end for _, end in encoded["offset_mapping"]]

    def log_p(self, prefix: list[int], ids: list[int]) -> list[float]:
        """Without BOS a token that nothing precedes is left out."""
        prefix = [self.tokenizer.bos_token_id, *prefix] if self.bos else prefix
        prefix, ids = (prefix, ids) if prefix else (ids[:1], ids[1:])
        with torch.no_grad():
            logits = self.model(torch.tensor([[*prefix, *ids]])).logits[0]
        table = logits.double().log_softmax(-1)
        return [table[len(prefix) - 1 + i, id].item() for i, id in enumerate(ids)]

    def first(self, text: str) -> int:
        """Where the token ends that is left out of a text; 0 if none is."""
        return 0 if self.bos else self.ends(text)[0]

    def text(self, text: str) -> list[float]:
        return self.log_p([], self.ids(text))


def coherence(loop: PlainLoop, sample: Sample, form: str) -> float:
    text = sample.text.strip()
    pairs = list(zip(loop.ends(text)[1 - loop.bos :], loop.text(text), strict=True))
    begin, in_context, alone, tokens = 0, [], [], []
    for j, sentence in enumerate(sentences(text)):
        first = text.index(sentence, begin)
        end = first + len(sentence)
        compares = j and not loop.bos and form != "log-p"  # with the sentence alone
        read = first + loop.first(sentence) if compares else 0
        log_p = [p for end_of_token, p in pairs if max(begin, read) < end_of_token <= end]
        in_context.append(sum(log_p))
        alone.append(sum(loop.text(sentence)) if j else sum(log_p))
        tokens.append(len(log_p))
        begin = end
    if form == "share":
        return 1 - sum(in_context) / sum(alone)
    if form == "nats":
        return (sum(in_context) - sum(alone)) / sum(tokens)
    if form == "evidence":
        gains = np.subtract(in_context, alone) / np.sqrt(tokens)
        return float(gains[1:].min())
    return sum(in_context) / sum(tokens)


def consistency(loop: PlainLoop, sample: Sample, form: str) -> float:
    pairs = zip(loop.ends(sample.text)[1 - loop.bos :], loop.text(sample.text), strict=True)
    read = 0 if form == "log-p" else loop.first(sample.text[len(sample.prompt) :])
    continuation = [p for end, p in pairs if end > len(sample.prompt) + read]
    alone = sum(loop.text(sample.text[len(sample.prompt) :]))
    if form == "log-p":
        return float(np.mean(continuation))
    return (sum(continuation) - alone) / (
        -alone if form == "share" else math.sqrt(len(continuation))
    )


def relevance(loop: PlainLoop, sample: Sample, form: str) -> float:
    ((attribute, target),) = sample.control.items()
    aspect = load_aspect(attribute)
    if form == "channel":
        before = [prompt for prompt in aspect.prompts if prompt.endswith(" <text>")]
        p = {}
        for label in aspect.labels:
            context = " ".join(
                prompt.removesuffix(" <text>").replace(
                    "<gap>", aspect.verbalizers[i % len(aspect.verbalizers)][label]
                )
                for i, prompt in enumerate(before)
            )
            p[label] = math.exp(
                np.mean(loop.log_p(loop.ids(context)[-256:], loop.ids(" " + sample.text)))
            )
        return p[target] / sum(p.values())
    s = []
    for prompt in aspect.prompts:
        if not prompt.startswith("<text>"):
            continue
        between = prompt.removeprefix("<text>").split(" <gap>")[0]
        for verbalizer in aspect.verbalizers:
            p = {}
            for label, word in verbalizer.items():
                word_ids = loop.ids(" " + word)
                values = loop.log_p([*loop.ids(sample.text), *loop.ids(between)], word_ids)
                p[label] = math.exp(np.mean(values))
                if form == "after-calibrated":
                    prior = loop.log_p(loop.ids(between.lstrip()), word_ids)
                    p[label] /= math.exp(np.mean(prior))
            s.append(p[target] / sum(p.values()))
    return float(np.mean(s))


ORACLES = {
    CTRLEvalCoherence: coherence,
    CTRLEvalConsistency: consistency,
    CTRLEvalAttributeRelevance: relevance,
}


@pytest.mark.thinned
@pytest.mark.parametrize("family", ["gpt2", "bloom"])
@pytest.mark.parametrize(("kind", "form"), FORMS)
@pytest.mark.parametrize("bos", [True, False])
def test_every_form_equals_the_plain_loop(kind, form, family, bos, causal_folders):
    scores = metric(kind, form, causal_folders[family], bos=bos).score(SAMPLES)
    loop = PlainLoop(causal_folders[family], bos)
    expected = [ORACLES[kind](loop, sample, form) for sample in SAMPLES]
    assert scores.values == pytest.approx(expected, abs=1e-5)


@pytest.mark.thinned
@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_neither_order_nor_batch_changes_a_value(kind, form, causal_folders):
    reference = metric(kind, form, causal_folders["llama"])
    whole = dict(zip("1234", reference.score(SAMPLES).values, strict=True))
    small = dataclasses.replace(reference, loading=Loading(batch_tokens=1))
    for samples in (SAMPLES[::-1], SAMPLES[2:3], SAMPLES[1:]):
        for each in (reference, small):
            scores = each.score(samples)
            assert scores.values == pytest.approx([whole[s.id] for s in samples], abs=1e-5)


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_parts_explain_the_value(kind, form, causal_folders):
    scores = metric(kind, form, causal_folders["gpt2"]).score(SAMPLES[:1])
    parts = scores.parts
    counts = {"after": 36, "after-calibrated": 36, "channel": 1}
    # Of `evidence` the first sentence, with nothing before it, is not a part.
    sentences = 2 if form == "evidence" else 3
    expected = sentences if kind is CTRLEvalCoherence else counts.get(form, 1)
    assert len(parts) == expected
    assert parts["weight"].sum() == pytest.approx(1)
    assert (parts["weight"] * parts["score"]).sum() == pytest.approx(scores.values[0])


# -- a model made by hand


class Words:
    """A causal model whose tokens are words with the blank before them.

    A word has the same log P in every place, −1 unless another is given. Emoji have no token.
    """

    vocabulary_size = 1
    limit = 20

    def __init__(self, **log_p: float) -> None:
        self.log_p = log_p
        self.read: list[str] = []

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0 for word in text.split() if "😀" not in word] for text in texts]

    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]:
        self.read += texts
        return [self._likelihood(text) for text in texts]

    def words_after(self, _: Any, frames_per_text: Any) -> list[WordLikelihoods]:
        return [
            WordLikelihoods(
                [[self._likelihood(word).log_p for word in frame.words] for frame in frames],
                [False for _ in frames],
            )
            for frames in frames_per_text
        ]

    def log_likelihood_after(self, prefixes: Any, texts: Any) -> list[list[CausalLikelihood]]:
        return [[self._likelihood(text) for text in texts] for _ in prefixes]

    def _likelihood(self, text: str) -> CausalLikelihood:
        words = [word for word in re.finditer(r"\S+", text) if "😀" not in word[0]]
        kept = words[: self.limit]
        return CausalLikelihood(
            np.zeros(len(kept), np.int64),
            np.array([word.end() for word in kept], np.int64),
            np.array([self.log_p.get(word[0].strip(".!"), -1.0) for word in kept]),
            len(words) > self.limit,
        )


@pytest.fixture
def score_with(causal_folders, monkeypatch):
    """Scores of samples by a model in place of the one that the metric names."""

    def score(model: Words, kind: Any, form: str, *samples: Sample, **options: Any) -> Scores:
        monkeypatch.setattr(CTRLEvalMetric, "_likelihood_scorer", lambda _: LikelihoodScorer(model))
        return metric(kind, form, causal_folders["gpt2"], **options).score(samples)

    return score


def why(scores: Scores) -> str | None:
    return scores.undefined.get("1")


LONG = "Dogs" + " ran" * 30


@pytest.mark.parametrize(
    ("form", "text", "reason"),
    [
        ("share", " ", "empty text"),
        ("share", "One sentence", "one sentence only"),
        ("log-p", "One sentence", "one sentence only"),
        ("share", "Cats ran. 😀!", "nothing in it that the model has tokens for: 2: 😀!"),
        ("share", "Cats ran. Dogs bad.", "the model gives probabilities that are not numbers"),
        ("log-p", "Cats ran. Dogs bad.", "the model gives probabilities that are not numbers"),
        ("share", "Cats ran. Dogs never.", "the model finds a token impossible"),
        ("nats", "Cats ran. Dogs never.", "the model finds a token impossible"),
        ("log-p", "Cats ran. Dogs never.", "the model finds a token impossible"),
        (
            "share",
            "Cats ran. Sure!",
            "a part of the text is certain by itself, so that nothing can make it likelier",
        ),
        ("nats", "Cats ran. Sure!", None),
        ("share", f"{LONG}. Cats ran.", "the first sentence is as long as what the model takes"),
        ("log-p", f"{LONG}. Cats ran.", None),
        ("share", f"Cats ran. {LONG}.", None),
    ],
)
def test_coherence_without_a_value_says_why(form, text, reason, score_with):
    model = Words(bad=math.nan, never=-math.inf, Sure=0.0)
    assert why(score_with(model, CTRLEvalCoherence, form, Sample("1", text))) == reason


@pytest.mark.parametrize(
    ("form", "text", "prompt", "reason"),
    [
        ("log-p", "", "A", "empty text"),
        ("log-p", "A b", "", "no prompt"),
        ("log-p", "A b", "B", "prompt is not a prefix of the text"),
        ("log-p", "A b ", "A b", "nothing after the prompt"),
        ("log-p", "A 😀", "A", "nothing in it that the model has tokens for: prompt → rest"),
        ("log-p", f"{LONG} b", LONG, "the prompt is longer than the model takes"),
        ("share", f"{LONG} b", LONG, "the prompt is longer than the model takes"),
        ("log-p", "A bad", "A", "the model gives probabilities that are not numbers"),
        ("share", "A never", "A", "the model finds a token impossible"),
        ("share", f"A {LONG}", "A", None),
    ],
)
def test_consistency_without_a_value_says_why(form, text, prompt, reason, score_with):
    model = Words(bad=math.nan, never=-math.inf)
    sample = Sample("1", text, prompt=prompt)
    assert why(score_with(model, CTRLEvalConsistency, form, sample)) == reason


@pytest.mark.parametrize(
    ("form", "text", "log_p", "reason"),
    [
        (
            "after",
            "Fine.",
            {"good": math.nan},
            "the model gives probabilities that are not numbers",
        ),
        (
            "after",
            "Fine.",
            {"good": -math.inf, "bad": -math.inf},
            "the model gives probabilities that are not numbers",
        ),
        (
            "channel",
            "Fine.",
            {"Fine": -math.inf},
            "the model gives probabilities that are not numbers",
        ),
        ("after", "😀", {}, "nothing in it that the model has tokens for"),
        ("channel", "Fine.", {}, None),
    ],
)
def test_relevance_without_a_value_says_why(form, text, log_p, reason, score_with):
    sample = Sample("1", text, control=POSITIVE)
    assert why(score_with(Words(**log_p), CTRLEvalAttributeRelevance, form, sample)) == reason


def test_a_word_that_is_as_likely_anywhere_makes_no_text_cohere(score_with):
    model, sample = Words(fast=-3.0), Sample("1", "Cats ran. Dogs fast fast. Yes.")
    assert score_with(model, CTRLEvalCoherence, "share", sample).values == [0]
    assert score_with(model, CTRLEvalCoherence, "nats", sample).values == [0]
    assert score_with(model, CTRLEvalCoherence, "log-p", sample).values == pytest.approx([-10 / 6])


def test_a_text_that_is_cut_is_compared_as_far_as_it_is_read_and_counted(score_with):
    sample = Sample("1", f"Cats ran. {LONG}. Birds flew.", prompt="Cats ran.")
    for kind, form in FORMS[:5]:
        scores = score_with(Words(), kind, form, sample)
        assert scores.truncated == {"1"}
        assert scores.values == [-1 if form == "log-p" else 0]


def test_a_text_is_read_once_and_its_sentences_alone_but_the_first(score_with):
    model = Words()
    samples = [Sample("1", "Cats ran.  Dogs sat.\nYes."), Sample("2", "Cats ran. Dogs sat.")]
    score_with(model, CTRLEvalCoherence, "share", *samples)
    assert model.read == [samples[0].text, samples[1].text, "Dogs sat.", "Yes."]
    model.read.clear()
    score_with(model, CTRLEvalCoherence, "log-p", *samples)
    assert model.read == [samples[0].text, samples[1].text]


def test_metrics_of_a_run_read_a_text_once(causal_folders, monkeypatch):
    folder = str(causal_folders["llama"])
    texts = [
        dataclasses.replace(sample, control=POSITIVE, text=sample.text.strip())
        for sample in SAMPLES
    ]
    metrics = [
        CTRLEvalCoherence(model=folder, form="log-p"),
        CTRLEvalConsistency(model=folder, form="log-p"),
        CTRLEvalAttributeRelevance(model=folder, form="after"),
    ]
    model = load("causal", folder, Loading())
    read: list[int] = []
    log_p_at = model._log_p_at

    def counted(inputs: Any, *words: Any, **how: Any) -> Any:
        read.append(len(inputs))
        return log_p_at(inputs, *words, **how)

    monkeypatch.setattr(model, "_recent", RecentResults())
    monkeypatch.setattr(model, "_log_p_at", counted)
    scores = levelfield.score(texts, metrics, cache=False)
    assert list(scores.scores) == [metric.name for metric in metrics]
    assert sum(read) == len(texts)


def test_one_sentence_has_a_mean_log_p_where_it_shall_be_scored(score_with):
    sample = Sample("1", "One sentence")
    scores = score_with(Words(), CTRLEvalCoherence, "log-p", sample, single="score")
    assert scores.values == [-1]


@pytest.mark.parametrize(
    ("prompts", "form"), [('"<gap>: <text>"', "after"), ('"<text> <gap>"', "channel")]
)
def test_an_aspect_without_a_prompt_that_the_form_reads_is_an_error(
    prompts, form, score_with, tmp_path
):
    path = tmp_path / "own.toml"
    path.write_text(
        f'attribute = "own"\nlabels = ["x", "y"]\nprompts = [{prompts}]\n'
        '[[verbalizers]]\nx = "1"\ny = "2"'
    )
    sample = Sample("1", "A b.", control={"own": "x"})
    with pytest.raises(UserError, match=f"form={form}: the aspect 'own' has no prompt"):
        score_with(Words(), CTRLEvalAttributeRelevance, form, sample, attribute=str(path))


# -- options and signatures


def test_the_default_form_is_the_first_and_named_in_the_signature(causal_folders):
    for kind, form in ((k, f) for k, f in FORMS if f in ("share", "log-p", "after")):
        signature = metric(kind, form, causal_folders["gpt2"]).signature
        assert f"|scorer:likelihood|form:{form}|" in signature
        is_default = form == {CTRLEvalCoherence: "share", CTRLEvalConsistency: "log-p"}.get(
            kind, "after"
        )
        assert (metric(kind, "auto", causal_folders["gpt2"]).signature == signature) == is_default


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (CTRLEvalCoherence, {"form": "after"}, "coherence: form=after: expected auto, share, nats"),
        (
            CTRLEvalConsistency,
            {"form": "nats"},
            "consistency: form=nats: expected auto, log-p",
        ),
        (CTRLEvalCoherence, {"weights": "mean"}, "weights=mean has no meaning here"),
        (CTRLEvalCoherence, {"iwf": "wordfreq"}, "iwf=wordfreq has no meaning here"),
        (CTRLEvalConsistency, {"patterns": "bartscore"}, "patterns=bartscore has no meaning here"),
        (CTRLEvalConsistency, {"normalize": "none"}, "normalize=none has no meaning here"),
        (CTRLEvalCoherence, {"single": "score"}, "single=score has no meaning here"),
        (CTRLEvalAttributeRelevance, {"patterns": "ppl-gpt"}, "patterns=ppl-gpt has no meaning"),
        (CTRLEvalAttributeRelevance, {"form": "channel", "weights": "max"}, "weights=max has no"),
        (
            CTRLEvalAttributeRelevance,
            {"form": "after-calibrated", "weights": "label-mass"},
            "has no label mass",
        ),
    ],
)
def test_what_a_form_has_no_use_for_is_refused(kind, options, message, causal_folders):
    with pytest.raises(UserError, match=message):
        _ = kind(model=str(causal_folders["gpt2"]), **options).signature


def test_other_models_have_no_form(tiny_folders):
    with pytest.raises(UserError, match="form=share needs a causal model"):
        _ = CTRLEvalCoherence(model=str(tiny_folders["t5"]), form="share").signature


@pytest.mark.parametrize("options", [{"weights": "label-mass"}, {"normalize": "none"}])
def test_relevance_says_in_its_signature_what_changes_it(options, causal_folders):
    default = metric(CTRLEvalAttributeRelevance, "after", causal_folders["gpt2"])
    assert dataclasses.replace(default, **options).signature != default.signature

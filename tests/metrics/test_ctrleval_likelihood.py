"""CTRLEval with causal models against the plain loop: every reading alone through the model."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from levelfield.aspects import load_aspect
from levelfield.core.sample import Sample
from levelfield.metrics.ctrleval import (
    CTRLEvalAttributeRelevance,
    CTRLEvalCoherence,
    CTRLEvalConsistency,
)
from levelfield.metrics.text.segmenter import sentences

FORMS = [
    (CTRLEvalCoherence, "share"),
    (CTRLEvalCoherence, "nats"),
    (CTRLEvalCoherence, "log-p"),
    (CTRLEvalConsistency, "log-p"),
    (CTRLEvalConsistency, "share"),
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

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def ends(self, text: str) -> list[int]:
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [end for _, end in encoded["offset_mapping"]]

    def log_p(self, given: list[int], ids: list[int]) -> list[float]:
        whole = [self.tokenizer.bos_token_id, *given, *ids]
        with torch.no_grad():
            table = self.model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
        return [table[len(given) + i, id].item() for i, id in enumerate(ids)]

    def text(self, text: str) -> list[float]:
        return self.log_p([], self.ids(text))


def coherence(loop: PlainLoop, sample: Sample, form: str) -> float:
    text = sample.text.strip()
    pairs = list(zip(loop.ends(text), loop.text(text), strict=True))
    begin, given, alone, tokens = 0, [], [], []
    for j, sentence in enumerate(sentences(text)):
        end = text.index(sentence, begin) + len(sentence)
        of_sentence = [p for at, p in pairs if begin < at <= end]
        given.append(sum(of_sentence))
        alone.append(sum(loop.text(sentence)) if j else sum(of_sentence))
        tokens.append(len(of_sentence))
        begin = end
    if form == "share":
        return 1 - sum(given) / sum(alone)
    if form == "nats":
        return (sum(given) - sum(alone)) / sum(tokens)
    return sum(given) / sum(tokens)


def consistency(loop: PlainLoop, sample: Sample, form: str) -> float:
    pairs = zip(loop.ends(sample.text), loop.text(sample.text), strict=True)
    given = [p for at, p in pairs if at > len(sample.prompt)]
    alone = sum(loop.text(sample.text[len(sample.prompt) :]))
    return np.mean(given) if form == "log-p" else (sum(given) - alone) / -alone


def relevance(loop: PlainLoop, sample: Sample, form: str) -> float:
    ((attribute, wanted),) = sample.control.items()
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
        return p[wanted] / sum(p.values())
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
            s.append(p[wanted] / sum(p.values()))
    return float(np.mean(s))


ORACLES = {
    CTRLEvalCoherence: coherence,
    CTRLEvalConsistency: consistency,
    CTRLEvalAttributeRelevance: relevance,
}


@pytest.mark.parametrize("family", ["gpt2", "bloom"])
@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_every_form_equals_the_plain_loop(kind, form, family, causal_folders):
    scores = metric(kind, form, causal_folders[family]).score(SAMPLES)
    loop = PlainLoop(causal_folders[family])
    expected = [ORACLES[kind](loop, sample, form) for sample in SAMPLES]
    assert scores.values == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_neither_order_nor_batch_changes_a_value(kind, form, causal_folders):
    one = metric(kind, form, causal_folders["llama"])
    whole = dict(zip("1234", one.score(SAMPLES).values, strict=True))
    small = dataclasses.replace(one, batch_tokens=1)
    for samples in (SAMPLES[::-1], SAMPLES[2:3], SAMPLES[1:]):
        for each in (one, small):
            scores = each.score(samples)
            assert scores.values == pytest.approx([whole[s.id] for s in samples], abs=1e-5)


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_parts_explain_the_value(kind, form, causal_folders):
    scores = metric(kind, form, causal_folders["gpt2"]).score(SAMPLES[:1])
    parts = scores.parts
    counts = {"after": 36, "after-calibrated": 36, "channel": 1}
    expected = 3 if kind is CTRLEvalCoherence else counts.get(form, 1)
    assert len(parts) == expected
    assert parts["weight"].sum() == pytest.approx(1)
    assert (parts["weight"] * parts["score"]).sum() == pytest.approx(scores.values[0])

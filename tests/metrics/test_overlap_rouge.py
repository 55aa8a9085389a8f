from __future__ import annotations

import functools
import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics.rouge import (
    ROUGE1References,
    ROUGE1Source,
    ROUGE2References,
    ROUGE2Source,
    ROUGELReferences,
    ROUGELSource,
    lcs,
    lcs_length,
    split_at_full_stops,
    weights_of,
)

KINDS = {"rouge1": ROUGE1References, "rouge2": ROUGE2References, "rougeL": ROUGELReferences}
NASTY = (
    "a",
    "So?",
    "...",
    "👍🏽",
    "火山が噴火した。",
    "naïve İstanbul ﬁancé",
    "K2 in Kelvin",
    "tab\tand\nline_1",
    "running runners ran",
)
sentences = st.lists(
    st.sampled_from(["rain", "Rain", "raining", "the", "wind", ".", "can't", "14"]), min_size=1
).map(" ".join)
texts = (sentences | st.text(min_size=1, max_size=30) | st.sampled_from(NASTY)).filter(str.strip)
tokens = st.lists(st.sampled_from("abc"), max_size=9).map(tuple)


@functools.cache
def package(stemmer: bool) -> RougeScorer:
    return RougeScorer([*KINDS], use_stemmer=stemmer)


def of(text: str, references: list[str]) -> list[Sample]:
    return [Sample("1", text, references=tuple(references))]


def latin(text: str) -> list[str]:
    return re.findall("[a-z0-9]+", text.lower())


@given(texts, st.lists(texts, min_size=1, max_size=3), st.sampled_from([*KINDS]), st.booleans())
def test_f_is_that_of_rouge_score_or_undefined_where_nothing_can_be_counted(
    text: str, references: list[str], kind: str, stemmer: bool
):
    scores = KINDS[kind](stemmer=stemmer, unread="scored").score(of(text, references))
    expected = package(stemmer).score_multi(references, text)[kind].fmeasure
    if not scores.undefined:
        assert scores.values[0] == pytest.approx(expected, abs=1e-9)
        return
    assert expected == 0
    (reason,) = scores.undefined.values()
    if reason == "no token in the text":
        assert not latin(text)
    elif reason == "no token in the references":
        assert not any(map(latin, references))
    else:
        assert reason == "no 2-gram in either"
        assert all(len(latin(string)) < 2 for string in (text, *references))


UNRELATED = [
    ("Сегодня JSON уже никому не нужен", "Зачем кошка съела JSON вчера вечером?"),
    ("昨天买了新的 iPad 给妈妈。", "老师的 iPad 在火车上丢了。"),
    ("iPad 很好", "iPad 坏了"),
    ("Η γάτα είδε το CNN", "Ο σκύλος πούλησε CNN"),
]


@pytest.mark.parametrize(("text", "reference"), UNRELATED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_latin_name_alone_is_not_compared(text: str, reference: str, kind: str):
    few = "the tokenizer sees fewer than half of the words in"
    assert KINDS[kind]().score(of(text, [reference])).undefined == {"1": f"{few} the text"}
    latin = "Everybody reads JSON, iPad and CNN."
    scores = KINDS[kind]().score(of(latin, [reference]))
    assert scores.undefined == {"1": f"{few} the references"}
    assert not KINDS[kind](tokenizer="unicode").score(of(text, [reference])).undefined
    assert KINDS[kind]().score(of(latin, [reference, latin])).values[0] == 1
    before = KINDS["rouge1"](unread="scored").score(of(text, [reference]))
    assert before.values[0] > 0
    assert "unread" not in before.signature


def test_accents_are_not_another_script():
    for text in ("Über Köln zog ein Stürmchen", "Hôtel à côté de l’église", "Đường phố Hà Nội"):
        assert ROUGE1References().score(of(text, [text])).values[0] == 1


@given(sentences, sentences, st.sampled_from([*KINDS]))
def test_precision_and_recall_are_those_of_rouge_score(text: str, reference: str, kind: str):
    expected = package(False).score(reference, text)[kind]
    for value, target in (("precision", expected.precision), ("recall", expected.recall)):
        scores = KINDS[kind](value=value).score(of(text, [reference]))
        if scores.undefined:
            assert target == 0
        else:
            assert scores.values[0] == pytest.approx(target, abs=1e-9)


@given(sentences, sentences, st.sampled_from([*KINDS]), st.sampled_from([0.0, 0.5, 2.0]))
def test_f_weighs_recall_by_beta(text: str, reference: str, kind: str, beta: float):
    p, r, f = (
        KINDS[kind](value=value, beta=beta).score(of(text, [reference])).values[0]
        for value in ("precision", "recall", "f")
    )
    if p * r > 0:
        assert f == pytest.approx((1 + beta**2) * p * r / (r + beta**2 * p))
    elif not np.isnan(f):
        assert f == 0


@pytest.mark.thinned
@pytest.mark.parametrize("kind", [*KINDS])
def test_texts_of_2000_words_give_the_values_of_rouge_score(kind: str):
    random = np.random.default_rng(0)
    text, reference = (" ".join(random.choice(list("abcdefgh"), 2000)) for _ in range(2))
    expected = RougeScorer([kind]).score(reference, text)[kind].fmeasure
    assert KINDS[kind]().score(of(text, [reference])).values[0] == pytest.approx(expected, abs=1e-9)


def plain_lcs(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    if not (a and b):
        return 0
    if a[-1] == b[-1]:
        return plain_lcs(a[:-1], b[:-1]) + 1
    return max(plain_lcs(a[:-1], b), plain_lcs(a, b[:-1]))


@given(tokens, tokens)
def test_the_longest_common_subsequence_is_one_of_both_and_as_long_as_the_recursion_says(a, b):
    assert lcs_length(a, b) == lcs_length(b, a) == plain_lcs(a, b)
    common = lcs(a, b)
    assert len(common) == plain_lcs(a, b)
    for whole in (iter(a), iter(b)):
        assert all(word in whole for word in common)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_the_jackknife_is_the_mean_of_the_maxima_without_each_reference(f: list[float]):
    left_out = [max(f[:n] + f[n + 1 :]) for n in range(len(f))] if len(f) > 1 else f
    weights = weights_of(np.array(f), "jackknife")
    assert weights.sum() == pytest.approx(1)
    assert weights @ np.array(f) == pytest.approx(np.mean(left_out))
    assert weights_of(np.array(f), "max") @ np.array(f) == max(f)
    assert weights_of(np.array(f), "mean") @ np.array(f) == pytest.approx(np.mean(f))


def test_several_references_are_parts_with_the_weights_that_the_value_has_from_them():
    sample = Sample("1", "the rain fell", references=("rain", " ", "the rain fell", "the sun fell"))
    for multiple, weights in (
        ("max", [0, 1, 0]),
        ("jackknife", [0, 2 / 3, 1 / 3]),
        ("mean", [1 / 3, 1 / 3, 1 / 3]),
    ):
        scores = ROUGE1References(multiple=multiple).score([sample])
        assert scores.parts is not None
        assert scores.parts["part"].to_list() == ["reference 1", "reference 3", "reference 4"]
        assert scores.parts["score"].to_list() == pytest.approx([0.5, 1, 2 / 3])
        assert scores.parts["weight"].to_list() == pytest.approx(weights)
        assert scores.values[0] == pytest.approx(np.dot([0.5, 1, 2 / 3], weights))


def test_precision_of_several_references_is_that_of_the_reference_with_the_highest_f():
    references = ["rain rain rain the wind", "the fog"]
    scores = ROUGE1References(value="precision").score(of("the rain", references))
    expected = package(False).score_multi(references, "the rain")["rouge1"].precision
    assert scores.values[0] == expected


def test_other_scripts_have_words_by_the_unicode_tokenizer_only():
    sample = Sample("1", "Дождь шёл.", source="дождь идёт", references=("火山 👍",))
    assert ROUGE1Source().score([sample]).undefined == {"1": "no token in the text"}
    assert ROUGE1Source(tokenizer="unicode").score([sample]).values[0] == 0.5
    latin_text = Sample("1", "Rain.", source="Дождь")
    assert ROUGELSource().score([latin_text]).undefined == {"1": "no token in the source"}
    emoji = Sample("1", "👍👍", source="👍")
    assert ROUGE1Source(tokenizer="unicode").score([emoji]).undefined


def test_one_word_has_no_2_gram_but_is_missing_those_of_a_longer_source():
    short = Sample("1", "Rain", source="Rain")
    assert ROUGE2Source().score([short]).undefined == {"1": "no 2-gram in either"}
    longer = [Sample("1", "Rain", source="Rain fell")]
    assert ROUGE2Source().score(longer).values[0] == 0
    assert ROUGE2Source(value="recall").score(longer).values[0] == 0
    assert ROUGE2Source(value="precision").score(longer).undefined == {"1": "no 2-gram in the text"}


def test_empty_texts_and_missing_references_are_undefined():
    samples = [Sample("1", " ", source="So."), Sample("2", "So.")]
    assert ROUGELSource().score(samples).undefined == {"1": "empty text", "2": "empty source"}
    assert ROUGELReferences().score(samples[1:]).undefined == {"2": "no references"}


def test_lai_2022_counts_what_repeats_once_keeps_case_and_drops_full_stops():
    def value(kind, text, source):
        return kind(variant="lai-2022").score([Sample("1", text, source=source)]).values[0]

    # {The, rain} and {the, rain}: one of two
    assert value(ROUGE1Source, "The rain rain.", "the rain") == pytest.approx(0.5)
    # {a b, b a} and {a b, b c}
    assert value(ROUGE2Source, "a b a b", "a b c") == pytest.approx(0.5)
    # P = 2/2, R = 2/4, β = P/R = 2: 5 · 1 · ½ / (½ + 4 · 1)
    assert value(ROUGELSource, "c d", "a b. c d.") == pytest.approx(2.5 / 4.5)
    assert split_at_full_stops(("a", ".", ".", "b.c")) == [("a",), ("",), ("b",), ("c",)]


def test_rouge_1_0_reads_raw_words_and_takes_beta_as_1():
    def value(kind, text, source):
        return kind(variant="rouge-1.0").score([Sample("1", text, source=source)]).values[0]

    # {I, don't, go} and {I, don't, know}; lai-2022 cuts don't into two words
    assert value(ROUGE1Source, "I don't go go.", "I don't know.") == pytest.approx(2 / 3)
    # {a b, b a} and {a b, b c}
    assert value(ROUGE2Source, "a b a b", "a b c") == pytest.approx(0.5)
    # P = 2/2, R = 2/4
    assert value(ROUGELSource, "c d", "a b. c d.") == pytest.approx(2 / 3)


@pytest.mark.parametrize("variant", ["rouge-1.0", "lai-2022"])
def test_variants_of_the_package_rouge_refuse_options_that_they_do_not_have(variant: str):
    for options in ({"stemmer": True}, {"tokenizer": "unicode"}):
        with pytest.raises(UserError, match=variant):
            ROUGE1Source(variant=variant, **options)


def test_signatures_name_every_option():
    different = [
        kind(**options)
        for kind, options in itertools.product(
            (ROUGE1Source, ROUGELSource),
            (
                {},
                {"value": "recall"},
                {"beta": 2},
                {"multiple": "jackknife"},
                {"tokenizer": "unicode"},
                {"stemmer": True},
                {"variant": "rouge-1.0"},
                {"variant": "lai-2022"},
            ),
        )
    ]
    assert len({metric.signature for metric in different}) == len(different)
    assert "beta:precision/recall" in ROUGELSource(variant="lai-2022").signature
    assert "beta:1.0" in ROUGE2Source(variant="lai-2022").signature
    assert ROUGE2Source(variant="lai-2022").name == ROUGE2Source.name != ROUGE2References.name


@pytest.mark.parametrize("beta", [-1.0, math.inf, math.nan])
def test_a_beta_that_gives_no_value_is_refused(beta):
    with pytest.raises(UserError, match="beta="):
        ROUGE1References(beta=beta)

from __future__ import annotations

import math
import pickle

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics.overlap import (
    BLEUReferences,
    BLEUSource,
    CHRFReferences,
    CHRFSource,
    CorpusBLEUReferences,
    CorpusBLEUSource,
    CorpusCHRFReferences,
    CorpusCHRFSource,
    OverlapCounts,
)
from levelfield.text.words import treebank_words

NASTY = (
    "a",
    "So.",
    "...",
    "<skipped>",
    "👍🏽 👨‍👩‍👧",
    "火山が噴火した。",
    "Зачем же так, Öznur?",
    "naïve ﬁancé İstanbul",
    "tab\tand\nline",
)
sentences = st.lists(
    st.sampled_from(["rain", "Rain", "the", "the", "wind", ".", "can't", "14"]), min_size=1
).map(" ".join)
texts = (sentences | st.text(min_size=1, max_size=30) | st.sampled_from(NASTY)).filter(str.strip)
reference_lists = st.lists(texts, min_size=1, max_size=3)
corpora = st.lists(
    st.builds(
        lambda text, references: Sample("", text, references=tuple(references)),
        texts | st.just(""),
        reference_lists,
    ),
    min_size=1,
    max_size=5,
)


def of(text: str, references: list[str]) -> list[Sample]:
    return [Sample("1", text, references=tuple(references))]


def streams(samples: list[Sample]) -> list[list[str | None]]:
    """References as sacreBLEU takes them: the first of every text, the second of every text …"""
    most = max(len(sample.references) for sample in samples)
    return [
        [sample.references[n] if n < len(sample.references) else None for sample in samples]
        for n in range(most)
    ]


@pytest.mark.slow
@given(texts, reference_lists)
def test_bleu_of_a_text_is_sacrebleus(text: str, references: list[str]):
    scores = BLEUReferences(unread="scored").score(of(text, references))
    expected = sacrebleu.sentence_bleu(text, references)
    if expected.sys_len:
        assert scores.values[0] == pytest.approx(expected.score, abs=1e-9)
    else:
        assert scores.undefined == {"1": "no token in the text"}
        assert expected.score == 0


@given(texts, reference_lists)
def test_bleu_in_lower_case_by_characters_is_sacrebleus(text: str, references: list[str]):
    scores = BLEUReferences(tokenize="char", lowercase=True).score(of(text, references))
    expected = sacrebleu.sentence_bleu(text, references, tokenize="char", lowercase=True)
    assert scores.values[0] == pytest.approx(expected.score, abs=1e-9)


@given(texts, reference_lists)
def test_nltk_bleu_is_nltks_with_smoothing_method_1_times_100(text: str, references: list[str]):
    scores = BLEUReferences(variant="nltk", unread="scored").score(of(text, references))
    expected = sentence_bleu(
        [treebank_words(reference) for reference in references],
        treebank_words(text),
        smoothing_function=SmoothingFunction().method1,
    )
    assert scores.values[0] == pytest.approx(100 * expected, abs=1e-9)


@pytest.mark.parametrize("n", [2, 2000])
def test_texts_of_2000_words_have_the_values_of_sacrebleu_and_nltk(n: int):
    text, reference = "the rain and the wind " * (n // 5 + 1), "the rain, the wind. " * (n // 4 + 1)
    samples = of(text, [reference])
    assert BLEUReferences().score(samples).values[0] == pytest.approx(
        sacrebleu.sentence_bleu(text, [reference]).score, abs=1e-9
    )
    assert CHRFReferences().score(samples).values[0] == pytest.approx(
        sacrebleu.sentence_chrf(text, [reference]).score, abs=1e-9
    )
    expected = sentence_bleu(
        [treebank_words(reference)],
        treebank_words(text),
        smoothing_function=SmoothingFunction().method1,
    )
    value = BLEUReferences(variant="nltk").score(samples).values[0]
    assert value == pytest.approx(100 * expected, abs=1e-9)


def test_nltk_3_4_leaves_two_dots_and_an_opening_apostrophe_with_their_word():
    assert treebank_words("He said 'Maybe' and left..") == (
        *("He", "said", "'", "Maybe", "'", "and", "left", ".."),
    )
    assert treebank_words("He said 'Maybe' and left..", "3.4") == (
        *("He", "said", "'Maybe", "'", "and", "left.."),
    )


def test_words_are_cut_sentence_by_sentence_with_abbreviations_kept_whole():
    assert treebank_words("Dr. Lee can't. You cannot?") == (
        *("Dr.", "Lee", "ca", "n't", ".", "You", "can", "not", "?"),
    )


@given(texts, reference_lists, st.sampled_from([(6, 0, 2), (6, 2, 2), (3, 1, 1)]))
def test_chrf_of_a_text_is_sacrebleus(
    text: str, references: list[str], options: tuple[int, int, int]
):
    char_order, word_order, beta = options
    metric = CHRFReferences(char_order=char_order, word_order=word_order, beta=beta)
    expected = sacrebleu.sentence_chrf(
        text, references, char_order=char_order, word_order=word_order, beta=beta
    )
    value = metric.score(of(text, references)).values[0]
    assert value == pytest.approx(expected.score, abs=1e-9)


@given(corpora)
def test_bleu_of_a_corpus_is_sacrebleus_with_any_number_of_references(samples: list[Sample]):
    metric = CorpusBLEUReferences(unread="scored")
    value = metric.value(metric.state(samples))
    expected = sacrebleu.corpus_bleu([sample.text for sample in samples], streams(samples))
    if expected.sys_len and not expected.totals[-1]:
        assert (value.undefined, expected.score) == ("no text of 4 or more tokens", 0)
    elif expected.sys_len:
        assert value.value == pytest.approx(expected.score, abs=1e-9)
    else:
        assert (value.undefined, expected.score) == ("no text has a token", 0)


def corpus_bleu(*pairs: tuple[str, str], **options):
    metric = CorpusBLEUReferences(**options)
    samples = [Sample(str(n), text, references=(other,)) for n, (text, other) in enumerate(pairs)]
    halves = [metric.state(samples[:1]), metric.state(samples[1:])]
    return metric.value(metric.merge(*halves))


def test_bleu_of_a_corpus_without_4_grams_is_undefined_not_0():
    short = ("Quiet Harbour", "Quiet Harbour")
    assert corpus_bleu(short, short).undefined == "no text of 4 or more tokens"
    longer = ("The ferry left at noon.", "The ferry left at noon.")
    assert corpus_bleu(short, longer).value == pytest.approx(100)
    assert corpus_bleu(longer, longer).value <= 100


THAI = "แม่น้ำสายนี้ไหลช้ามากในฤดูหนาว", "แม่น้ำสายนี้ไหลเร็วมากในฤดูฝน"
CHINESE = "我们昨天晚上在河边散步然后回家", "我们昨天晚上在湖边散步然后回家"


@pytest.mark.parametrize(("text", "reference"), [THAI, CHINESE])
def test_what_a_tokenizer_does_not_cut_is_undefined(text: str, reference: str):
    few = "the tokenizer sees fewer than half of the words in"
    for options in ({}, {"variant": "nltk"}, {"tokenize": "intl"}, {"tokenize": "none"}):
        scores = BLEUReferences(**options).score(of(text, [reference]))
        assert scores.undefined == {"1": f"{few} the text"}
        assert not BLEUReferences(**options, unread="scored").score(of(text, [reference])).undefined
    assert BLEUReferences(tokenize="char").score(of(text, [reference])).values[0] > 20
    assert corpus_bleu((text, reference), (text, reference)).undefined == f"{few} the texts"
    english = ("The ferry left the quiet harbour at noon.", reference)
    assert corpus_bleu(english, english).undefined == f"{few} the references"
    assert corpus_bleu((text, reference), (text, reference), tokenize="char").value > 20


def test_words_that_people_have_cut_are_compared():
    text = "我们 昨天 晚上 在 河边 散步"
    assert BLEUReferences().score(of(text, [text])).values[0] == 100


@given(corpora)
def test_chrf_of_a_corpus_is_sacrebleus_with_any_number_of_references(samples: list[Sample]):
    metric = CorpusCHRFReferences(word_order=2)
    value = metric.value(metric.state(samples))
    expected = sacrebleu.corpus_chrf(
        [sample.text for sample in samples], streams(samples), word_order=2
    )
    if any(sample.text for sample in samples):
        assert value.value == pytest.approx(expected.score, abs=1e-9)
    else:
        assert (value.undefined, expected.score) == ("no text has a token", 0)


@given(
    st.lists(corpora, min_size=2, max_size=4),
    st.randoms(),
    st.sampled_from([CorpusBLEUReferences, CorpusCHRFReferences]),
)
def test_states_merge_in_any_order_into_the_state_of_all_texts(parts, random, kind):
    metric = kind()
    whole = metric.state([sample for part in parts for sample in part])
    random.shuffle(parts)
    merged = metric.state([])
    for part in parts:
        merged = metric.merge(merged, pickle.loads(pickle.dumps(metric.state(part))))
    assert merged == whole
    before = OverlapCounts(*whole)
    metric.value(whole)
    assert whole == before


def test_a_corpus_with_a_text_that_has_nothing_to_be_compared_with_is_undefined_and_says_so():
    samples = [Sample("1", "So it is.", references=("So it is.",)), Sample("2", "Rain.")]
    for metric in (CorpusBLEUReferences(), CorpusCHRFReferences()):
        scores = metric.score(samples)
        assert scores.undefined == {"all texts": "1 of 2 texts have no references"}
        assert metric.score(samples[:1]).values[0] == pytest.approx(100)
        assert math.isnan(metric.value(metric.state([])).value)
    assert CorpusBLEUSource().score(samples).undefined == {
        "all texts": "2 of 2 texts have no source"
    }


def test_source_and_references_give_values_of_their_own_and_a_system_is_a_group():
    samples = [
        Sample("1", "The rain fell.", source="the rain fell!", references=("Rain.",), system="a"),
        Sample("2", "The rain fell.", source="sunny", references=("The rain fell.",), system="b"),
    ]
    for source, references in ((BLEUSource, BLEUReferences), (CHRFSource, CHRFReferences)):
        by_source, by_references = source().score(samples), references().score(samples)
        assert by_source.values[0] > by_references.values[0]
        assert by_references.values[1] == pytest.approx(100)
    scores = CorpusCHRFSource().score(samples)
    assert scores.ids == ("system=a", "system=b")
    assert scores.values[0] > scores.values[1]


@pytest.mark.parametrize("kind", [BLEUReferences, CHRFReferences])
def test_blank_references_count_as_none(kind):
    with_blank = [Sample("1", "So it is.", references=("", " \n", "So it was."))]
    assert kind().score(with_blank).values == kind().score(of("So it is.", ["So it was."])).values
    scores = kind().score(
        [Sample("1", "So.", references=(" ",)), Sample("2", " ", references=("So.",))]
    )
    assert scores.undefined == {"1": "no references", "2": "empty text"}


def test_a_sample_without_source_is_undefined():
    for metric in (BLEUSource(), BLEUSource(variant="nltk"), CHRFSource()):
        assert metric.score([Sample("1", "So.")]).undefined == {"1": "empty source"}


def test_signatures_name_what_could_change_a_value():
    version = sacrebleu.__version__
    assert f"variant:sacrebleu|case:mixed|tokenizer:13a|smoothing:exp|sacrebleu:{version}" in (
        BLEUSource().signature
    )
    assert "nltk 3.4" in BLEUSource(variant="lai-2022").signature
    different = [
        BLEUSource(),
        BLEUSource(tokenize="intl"),
        BLEUSource(lowercase=True),
        BLEUSource(variant="nltk"),
        BLEUSource(variant="nltk", lowercase=True),
        BLEUSource(variant="lai-2022"),
        CHRFSource(),
        CHRFSource(word_order=2),
        CHRFSource(beta=1),
        CorpusBLEUSource(),
        CorpusBLEUSource(lowercase=True),
        CorpusCHRFSource(char_order=4),
    ]
    assert len({metric.signature for metric in different}) == len(different)


@pytest.mark.parametrize("options", [{"char_order": 0}, {"word_order": -1}, {"beta": 0}])
def test_orders_that_make_no_sense_are_refused(options):
    for kind in (CHRFSource, CorpusCHRFSource):
        with pytest.raises(UserError, match="expected"):
            kind(**options)


@pytest.mark.parametrize("variant", ["nltk", "lai-2022"])
def test_a_variant_with_words_of_its_own_takes_no_tokenizer(variant):
    with pytest.raises(UserError, match="no tokenizer to choose"):
        BLEUSource(variant=variant, tokenize="intl")

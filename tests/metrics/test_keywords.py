from __future__ import annotations

import pickle
import sys
import types
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.datasets import dataset, load, lpf
from levelfield.io.fetch import local_copy
from levelfield.metrics import keywords
from levelfield.metrics.keywords import (
    KeywordsAll,
    KeywordsAny,
    KeywordsCov,
    KeywordsCoverage,
    KeywordsExtCov,
    keywords_of,
)
from levelfield.text.words import SOFT_HYPHEN, standard

EXACT = (KeywordsAny, KeywordsAll, KeywordsCoverage)


def keyword_sample(text: str, *keywords: str, prompt: str = "") -> Sample:
    return Sample("1", text, prompt=prompt, control={"keywords": keywords})


def holds(text: str, keyword: str, **options) -> bool:
    (value,) = KeywordsCoverage(**options).score([keyword_sample(text, keyword)]).values
    assert value in (0, 1)
    return bool(value)


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        ("A plea.", "plea"),
        ("PLEA", "plea"),
        ("I write C++ and C.", "C++"),
        ("I write C++ and C.", "C"),
        ("The Science/Technology desk", "Science/Technology"),
        ("It is about climate\n change.", "climate change"),
        ("étude", "e\u0301tude"),
        ("die Straße", "STRASSE"),
        ("He said 'court'.", "court"),
        ("well-known", "known"),
        ("股票市場很大", "市場"),
        ("ฉันชอบแมว", "แมว"),
        ("fine 👍🏽!", "👍🏽"),
        ("(*)", "(*)"),
        ("in 2016, then", "2016"),
        ("हिन्दी भाषा", "हिन्दी"),
    ],
)
def test_a_keyword_is_found_at_word_boundaries(text: str, keyword: str):
    assert holds(text, keyword)


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        ("please", "plea"),
        ("massive", "mass"),
        ("courts", "court"),
        ("change of climate", "climate change"),
        ("cafe\u0304\u0301", "cafe"),
        ("हिन्दीभाषा", "हिन्दी"),
        ("snake_case", "case"),
        ("20160", "2016"),
        ("aXb", "a.b"),
    ],
)
def test_a_part_of_a_longer_word_is_not_the_keyword(text: str, keyword: str):
    assert not holds(text, keyword)


VARIANTS = [
    ("We can't wait.", "can’t"),
    ("D`Artagnan and O´Hara", "O'Hara"),
    ("a state‑of‑the‑art pump", "state-of-the-art"),
    ("from 1914—1918", "1914-1918"),
    ("at −5 degrees", "-5"),
    ("She said «never».", '"never"'),
    ("the „Blaue Reiter“", '"Blaue Reiter"'),
    ("ＴＯＫＹＯ is large", "Tokyo"),
    ("a 𝐛𝐨𝐥𝐝 claim", "bold"),
    ("ｶﾞﾗｽの家", "ガラス"),
    ("in\u00adter\u00adna\u00adtion\u00adal law", "international law"),
    ("a co\u00adop", "co-op"),
    ("a co-op", "co\u00adop"),
    ("a coop", "co\u00adop"),
    ("key\u200bboard", "keyboard"),
    ("\u2067שלום\u2069 עולם", "שלום עולם"),
    ("I ❤\ufe0f tea", "❤"),
    ("well… perhaps", "well..."),
]


@pytest.mark.parametrize(("text", "keyword"), VARIANTS)
def test_typographic_variants_are_the_same(text: str, keyword: str):
    for match in ("word", "substring"):
        for a, b in ((text, keyword), (f"A {keyword} b", f"{keyword}")):
            assert holds(a, b, match=match)
    assert not holds(text, keyword, typography="exact")


@pytest.mark.parametrize(("text", "keyword"), VARIANTS)
def test_lemmas_are_found_in_every_typography(text: str, keyword: str):
    assert holds(text, keyword, match="lemma")


@pytest.mark.parametrize(
    ("text", "keyword"),
    [
        ("in\u00adter\u00adna\u00adtion\u00adal", "nation"),
        ("in\u00adter\u00adna\u00adtion\u00adal", "inter"),
        ("wonʼtwo", "won't"),
        ("a coop", "co-op"),
        ("10½", "101"),
        ("x²", "x2"),
        ("می\u200cخواهم", "میخواهم"),
        ("e\u0301tat", "etat"),
        ("‘tis", "it's"),
    ],
)
def test_other_words_stay_other_words(text: str, keyword: str):
    assert not holds(text, keyword)


@pytest.mark.parametrize(
    ("text", "keyword"),
    [("Linux™ runs", "Linux"), ("№5", "5"), ("20℃", "20"), ("claim²", "claim"), ("น้ำ", "น้ำ")],
)
def test_a_sign_next_to_a_keyword_does_not_run_into_it(text: str, keyword: str):
    assert holds(text, keyword)


@pytest.mark.parametrize("match", ["word", "substring"])
@pytest.mark.parametrize(
    ("text", "keyword"),
    [("the ﬁrst oﬃce", "the first office"), ("New\u202fYork", "New York"), ("ϒ\u0301", "ϓ")],
)
def test_ligatures_blanks_and_composed_letters_are_the_same(text: str, keyword: str, match: str):
    assert holds(text, keyword, match=match)
    assert holds(keyword, text, match=match)


@given(st.text(max_size=20))
def test_the_standard_form_is_its_own_standard_form(text: str):
    for fold in (False, True):
        form = standard(text, fold=fold)
        assert standard(form, fold=fold) == form


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Z"]), max_size=12), st.data())
def test_soft_hyphens_hide_no_keyword(keyword: str, data: st.DataObject):
    if not keywords_of(keyword_sample("", keyword).control):
        return
    hyphens = st.lists(st.sampled_from(["", SOFT_HYPHEN]), min_size=12, max_size=12)
    broken = "".join(c + h for c, h in zip(keyword, data.draw(hyphens), strict=False))
    assert holds(f"a {broken} b", keyword)
    assert holds(f"a {broken} b", keyword, match="substring")


def test_the_published_match_is_a_substring_in_the_same_case():
    published = {"match": "substring", "case": "exact", "typography": "exact"}
    assert holds("please", "plea", **published)
    assert not holds("Please", "plea", **published)
    assert holds("Please", "plea", match="substring")
    assert not holds("The bible", "Bible", case="exact")
    assert holds("The Bible", "Bible", case="exact")


@pytest.mark.parametrize(
    ("text", "keyword", "matches"),
    [
        ("two courts", "court", True),
        ("a court", "courts", True),
        ("She left.", "leave", True),
        ("The Supreme Courts met.", "supreme court", True),
        ("a court, supreme", "supreme court", False),
        ("please", "plea", False),
        ("Linux", "linux", True),
        ("two Linuxes", "Linux", True),
        ("C++", "C++", True),
        ("C+", "C++", False),
        ("市場", "市場", True),
    ],
)
def test_a_keyword_is_found_by_its_lemmas(text: str, keyword: str, matches: bool):
    assert holds(text, keyword, match="lemma") == matches


def test_any_all_and_share_agree_on_what_is_found():
    sample = keyword_sample("The court fell silent.", "court", "culture", "silent")
    any_, all_, share = (metric().score([sample]) for metric in EXACT)
    assert [any_.values[0], all_.values[0], share.values[0]] == [1, 0, pytest.approx(2 / 3)]
    for scores in (any_, all_, share):
        assert scores.parts is not None
        assert scores.parts.rows() == [
            ("1", "court", 1.0, pytest.approx(1 / 3)),
            ("1", "culture", 0.0, pytest.approx(1 / 3)),
            ("1", "silent", 1.0, pytest.approx(1 / 3)),
        ]


def test_one_keyword_may_be_given_without_a_list():
    assert keywords_of({"keywords": "climate change"}) == ("climate change",)


def test_keywords_count_once_and_blank_ones_never():
    assert keywords_of(keyword_sample("x", "a", " a", "\t", "", "\u200b", "b").control) == (
        "a",
        "b",
    )


def test_undefined_values_say_why():
    rows = {
        "nothing": Sample("nothing", " \n"),
        "none": Sample("none", "A court."),
        "blank": Sample("blank", "A court.", control={"keywords": ("", " ")}),
        "fine": Sample("fine", "A court.", control={"keywords": ("court",)}),
    }
    for metric in (*EXACT, KeywordsCov, KeywordsExtCov):
        scores = metric().score(list(rows.values()))
        np.testing.assert_array_equal(scores.values, [np.nan, np.nan, np.nan, 1])
        assert scores.undefined == {
            "nothing": "control has no keywords",
            "none": "control has no keywords",
            "blank": "control has no keywords",
        }
    assert len(KeywordsCoverage().score([])) == 0


ALL_FIVE = (*EXACT, KeywordsCov, KeywordsExtCov)


@pytest.mark.parametrize("metric", ALL_FIVE)
def test_an_empty_output_holds_no_keyword_and_counts_as_0(metric):
    sample = keyword_sample(" \n", "court", "culture")
    scores = metric().score([sample])
    assert scores.values.tolist() == [0]
    assert scores.parts is not None
    assert scores.parts["score"].to_list() == [0, 0]
    assert "|empty:0|" in scores.signature
    withheld = metric(empty="undefined").score([sample])
    assert withheld.undefined == {"1": "empty text"}
    assert "|empty:undefined|" in withheld.signature


@pytest.mark.parametrize("match", ["word", "substring", "lemma"])
def test_no_match_finds_a_keyword_in_nothing(match):
    assert KeywordsAny(match=match).score(
        [keyword_sample("", "court", "*", "市場")]
    ).values.tolist() == [0]


def test_empty_texts_do_not_improve_a_system():
    """A is right on 60 prompts and empty on 40, B is right on 80 of 100."""

    def texts(right: int, otherwise: str) -> list[Sample]:
        return [
            Sample(str(i), "A court." if i < right else otherwise, control={"keywords": "court"})
            for i in range(100)
        ]

    a, b = texts(60, ""), texts(80, "A lake.")
    assert [KeywordsAll().score(system).mean() for system in (a, b)] == [0.6, 0.8]
    assert KeywordsAll(empty="undefined").score(a).mean() == 1


def test_the_prompt_is_not_part_of_the_continuation():
    rows = [
        keyword_sample("The court met again.", "court", prompt="The court"),
        keyword_sample("The court: a court.", "court", prompt="The court"),
        keyword_sample("A court.", "court", prompt="The"),
        keyword_sample("A court.", "court"),
        keyword_sample("The court ", "court", prompt="The court"),
    ]
    samples = [Sample(str(i), s.text, s.prompt, control=s.control) for i, s in enumerate(rows)]
    scores = KeywordsCoverage(text="continuation").score(samples)
    np.testing.assert_array_equal(scores.values, [0, 1, np.nan, np.nan, 0])
    reasons = ["prompt is not a prefix of the text", "no prompt"]
    assert list(scores.undefined.values()) == reasons
    withheld = KeywordsCoverage(text="continuation", empty="undefined").score(samples)
    assert list(withheld.undefined.values()) == [*reasons, "nothing after the prompt"]
    assert KeywordsCoverage(text="continuation").requires == {"text", "prompt", "control"}
    assert KeywordsCoverage().requires == KeywordsCoverage.requires == {"text", "control"}


words_of_texts = st.text("abC+ .é", max_size=12)


@given(words_of_texts, st.lists(words_of_texts, max_size=4))
def test_a_whole_word_is_a_substring_and_all_implies_any(text: str, keywords: list[str]):
    sample = keyword_sample(text, *keywords)
    options = [{"match": m, "case": c} for m in ("word", "substring") for c in ("exact", "ignore")]
    for option in options:
        any_, all_, share = (metric(**option).score([sample]).values[0] for metric in EXACT)
        if np.isnan(share):
            assert np.isnan(any_)
            assert np.isnan(all_)
            continue
        assert all_ <= share <= any_
        assert (all_ == 1) == (share == 1)
        assert (any_ == 0) == (share == 0)
    whole, within = (
        KeywordsCoverage(match=m).score([sample]).values[0] for m in ("word", "substring")
    )
    spaced = any(" " in keyword.strip() for keyword in keywords)
    assert np.isnan(whole) or spaced or whole <= within


@given(st.text(), st.lists(st.text(), max_size=3))
def test_no_text_and_no_keyword_is_too_strange(text: str, keywords: list[str]):
    for match in ("word", "substring", "lemma"):
        (value,) = KeywordsCoverage(match=match).score([keyword_sample(text, *keywords)]).values
        assert np.isnan(value) or 0 <= value <= 1


@given(
    st.text(min_size=1).filter(lambda s: keywords_of(keyword_sample("", s).control)),
    st.sampled_from("ex"),
)
def test_a_keyword_on_its_own_is_always_found(keyword: str, case: str):
    option = {"case": "exact" if case == "e" else "ignore"}
    for match in ("word", "substring", "lemma"):
        (value,) = (
            KeywordsCoverage(match=match, **option)
            .score([keyword_sample(f"\n{keyword} ", keyword)])
            .values
        )
        assert value == 1


def test_cov_takes_keywords_as_written_and_ext_cov_pools_lemmas():
    (cov,) = KeywordsCov().score([keyword_sample("The courts met.", "court", "courts")]).values
    assert cov == 0.5
    # "left" may be of "leave", or its own adjective, which "leaves" is not
    scores = KeywordsExtCov().score([keyword_sample("She leaves.", "left")])
    assert scores.values[0] == 0.5
    assert scores.parts is not None
    assert scores.parts.select("part", "score").rows() == [("leave", 1.0), ("left", 0.0)]
    assert holds("She leaves.", "left", match="lemma")


class _Token:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lemma_ = {"courts": "court", "met": "meet", "was": "be"}.get(text, text)


def _fake_spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that splits at blanks and knows three inflected words."""

    def load(name: str, *, disable: list[str]):
        assert (name, disable) == ("en_core_web_sm", ["parser", "ner"])
        return lambda text: [_Token(word) for word in text.split()]

    versions = {"spacy": "3.8.1", "en_core_web_sm": "3.8.0"}
    real = metadata.version
    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load))
    monkeypatch.setattr(metadata, "version", lambda name: versions.get(name) or real(name))
    keywords._pipeline.cache_clear()


@pytest.fixture
def fake_spacy(monkeypatch: pytest.MonkeyPatch):
    _fake_spacy(monkeypatch)
    yield
    keywords._pipeline.cache_clear()


@pytest.mark.usefixtures("fake_spacy")
def test_cov_with_spacy_is_keywords_among_the_lemmas_of_the_text():
    metric = KeywordsCov(lemmas="spacy")
    (value,) = metric.score(
        [keyword_sample("The courts met", "court", "meet", "courts", "The")]
    ).values
    assert value == 3 / 4  # "courts" is not a lemma
    assert "|lemmas:spacy-3.8.1/en_core_web_sm-3.8.0|text:whole|" in metric.signature


@pytest.mark.usefixtures("fake_spacy")
def test_ext_cov_with_spacy_adds_its_lemma_to_those_of_the_dictionary():
    metric = KeywordsExtCov(lemmas="spacy")
    scores = metric.score([keyword_sample("She Leaves", "Left")])
    assert scores.parts is not None
    assert scores.parts.select("part", "score").rows() == [("leave", 1.0), ("left", 0.0)]
    whole = metric.score([keyword_sample("COURTS", "court")])
    assert whole.values[0] == 1
    version = metadata.version("lemminflect")
    assert f"|lemmas:spacy-3.8.1/en_core_web_sm-3.8.0+lemminflect-{version}|" in metric.signature


def test_a_missing_package_is_an_error_that_names_the_fix(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(UserError, match=r"pip install lemminflect"):
        KeywordsCoverage(match="lemma").score([])
    with pytest.raises(UserError, match=r"python -m spacy download en_core_web_sm"):
        KeywordsCov(lemmas="spacy").score([])
    assert KeywordsCoverage().signature  # which needs neither


def test_the_signature_names_every_choice():
    assert KeywordsCoverage(match="substring", case="exact").signature.startswith(
        "keywords.coverage|match:substring|case:exact|typography:ignore|text:whole|empty:0|v:"
    )
    assert KeywordsCoverage(typography="exact").signature.startswith(
        "keywords.coverage|match:word|case:ignore|text:whole|empty:0|v:"
    )
    assert "|match:lemma@lemminflect-" in KeywordsAny(match="lemma").signature
    assert "|text:continuation|" in KeywordsCov(text="continuation").signature


def test_a_metric_can_be_sent_to_another_process():
    metric = KeywordsCoverage(text="continuation")
    sent = pickle.loads(pickle.dumps(metric))
    assert sent == metric
    assert sent.requires == metric.requires


@pytest.mark.usefixtures("rated_data")
@pytest.mark.parametrize("seed", [3443, 789, 9817])
@pytest.mark.parametrize(
    "options",
    [
        {"match": "substring", "case": "exact", "typography": "exact"},
        {},
        {"text": "continuation"},
    ],
)
def test_controlled_bart_holds_every_keyword_as_in_table_12(seed: int, options: dict):
    texts = [
        sample
        for sample in load("lpf", part="keywords", here=True)
        if (sample.system, sample.dataset, sample.seed) == ("ctg_bart", "pplm_prompts", seed)
    ]
    assert len(texts) == 245
    for metric in EXACT:
        scores = metric(**options).score(texts)
        assert not scores.undefined
        assert scores.mean() == 1


def _published_run(name: str) -> tuple[list[Sample], dict[str, dict[str, float]]]:
    """The texts of a published run and its coverages: value asked for or `overall` -> measure."""
    folder = f"results/keywords/{name}"
    files = {file.path: file for part in PARTS for file in dataset("lpf").part(part)}
    texts, results = (
        local_copy(files[f"{folder}/{kind}_{name}.{end}"])
        for kind, end in (("processed", "csv"), ("evaluation_results", "json"))
    )
    if texts is None or results is None:
        pytest.skip(f"lpf: {folder} is not on this machine: levelfield data fetch lpf")
    return lpf.texts_of(texts), lpf.run_of(results).results["word_coverage"]


PARTS = ("keywords", "keywords-results")
PUBLISHED = sorted(Path(f.path).parent.name for f in dataset("lpf").part("keywords"))


def test_21_runs_of_the_study_have_texts_for_keywords():
    assert len(PUBLISHED) == 21


@pytest.mark.usefixtures("rated_data")
@pytest.mark.parametrize("name", PUBLISHED)
def test_any_and_all_are_those_of_the_published_files(name: str):
    samples, published = _published_run(name)
    for metric, measure in ((KeywordsAny, "soft"), (KeywordsAll, "strict")):
        scores = metric(match="substring", case="exact", typography="exact").score(samples)
        assert not scores.undefined
        assert scores.mean() == pytest.approx(published["overall"][measure], abs=1e-12)
        for value in published.keys() - {"overall"}:
            control = lpf.wanted("keywords", value)
            values = [
                v for s, v in zip(samples, scores.values, strict=True) if s.control == control
            ]
            assert np.mean(values) == pytest.approx(published[value][measure], abs=1e-12)

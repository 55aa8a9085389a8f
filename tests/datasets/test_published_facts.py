"""What papers say of the published sets, and what we say of them, holds in the files.

Each test skips where its files are not under `$LEVELFIELD_DATA`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import spearmanr

from levelfield import datasets
from levelfield.core.errors import UserError
from levelfield.datasets.rated import CONTENT_METRICS
from levelfield.io.fetch import local_copy

pytestmark = pytest.mark.usefixtures("rated_data")


def require(name: str, *parts: str):
    """The samples of these parts, or a skip."""
    data_set = datasets.dataset(name)
    for part in parts or data_set.default:
        missing = [file.path for file in data_set.part(part) if not local_copy(file)]
        if missing:
            pytest.skip(f"{name}: {missing[0]} is not on this machine")
    return datasets.load(name, part=parts or None)


def correlation(samples, first, second) -> float:
    return float(spearmanr([first(s) for s in samples], [second(s) for s in samples]).statistic)


@pytest.mark.parametrize(
    ("part", "rows", "prompts"), [("sentiment", 360, "sentiment"), ("topic", 960, "topic")]
)
def test_ctrleval_has_its_rows_and_the_prompts_of_pplm(part, rows, prompts):
    samples = require("ctrleval", part)
    assert len(samples) == rows
    assert {s.prompt for s in samples} == set(datasets.prompts(prompts))
    for sample in samples:
        assert all(1 <= ratings["mean"] <= 5 for ratings in sample.ratings.values())


@pytest.mark.parametrize(
    ("judge", "raw", "binary", "published"),
    [("gpt-4", 0.8115, 0.6706, (0.81, 0.67)), ("flan-t5", 0.6142, 0.5250, (0.61, 0.53))],
)
def test_judges_of_concept_sets_agree_with_the_classes_as_published(judge, raw, binary, published):
    """The score stays as it is; the class is 1, 0.5, 0 first, then good (1) or not (0)."""
    samples = require("commongen-trinity", judge)
    assert len(samples) == 8975

    def score(sample):
        return sample.ratings["commonsense"][judge]

    graded = correlation(samples, score, lambda s: s.extra["quality"])
    good = correlation(samples, score, lambda s: s.extra["class"] == "good")
    assert (graded, good) == pytest.approx((raw, binary), abs=5e-5)
    assert (graded, good) == pytest.approx(published, abs=0.0051)


def test_concepts_are_in_the_good_sentences_of_their_set():
    samples = require("commongen-trinity", "gpt-4")
    good = [s for s in samples if s.extra["class"] == "good"]
    assert len({s.extra["concept_set"] for s in samples}) == 1497
    assert Counter(Counter(s.extra["concept_set"] for s in good).values()) == {2: 1490, 1: 7}

    def share(shift: int) -> float:
        keywords = {s.extra["concept_set"]: s.control["keywords"] for s in good}
        there = [
            # irregular forms (ran, caught) are missed, so this is a lower bound
            any(word[:3] in text for text in re.findall(r"\w+", s.text.lower()))
            for s in good
            for word in keywords.get(s.extra["concept_set"] + shift, ())
        ]
        return fmean(there)

    assert share(0) > 0.9
    assert share(1) < 0.3


@pytest.mark.parametrize(("aspect", "published"), [("coherence", 0.4682), ("overall", 0.5472)])
def test_deam_agrees_with_people_on_fed_as_published(aspect, published):
    samples = require("deam", "fed")
    assert len(samples) == 125
    assert all(s.extra["deam"]["coherence"] == s.extra["deam"]["overall"] for s in samples)
    agreement = correlation(
        samples, lambda s: s.extra["deam"][aspect], lambda s: s.ratings[aspect]["mean"]
    )
    assert agreement == pytest.approx(published, abs=5e-5)


def test_the_same_dialogues_have_the_ratings_of_the_originals():
    originals, others = require("deam", "fed"), require("deam", "fed-same")
    assert [s.ratings for s in originals] == [s.ratings for s in others]
    assert [len(s.extra["turns"]) for s in originals] == [len(s.extra["turns"]) for s in others]
    assert [s.text for s in originals] != [s.text for s in others]


TABLE_11 = {
    "BART": (86.5, 82.7, 87.8),
    "HIGH": (92.4, 76.3, 83.3),
    "IBT": (85.2, 80.1, 86.0),
    "LUO": (47.6, 46.7, 37.9),
    "NIU": (90.7, 76.9, 84.9),
    "RAO": (84.7, 70.2, 77.3),
    "REF": (73.6, 82.3, 82.4),
    "YI": (50.5, 51.1, 38.6),
    "ZHOU": (50.9, 47.2, 45.1),
}


def test_means_of_the_systems_are_those_of_the_thesis():
    samples = require("formality-judgements", "ratings")
    systems = defaultdict(list)
    for sample in samples:
        systems[sample.system].append(sample)
    assert {name: len(texts) for name, texts in systems.items()} == dict.fromkeys(TABLE_11, 80)
    for name, published in TABLE_11.items():
        for aspect, mean in zip(("content", "style", "fluency"), published, strict=True):
            ratings = [value for s in systems[name] for value in s.ratings[aspect].values()]
            assert fmean(ratings) == pytest.approx(mean, abs=0.1), (name, aspect)


def test_surveys_have_twenty_sources_each():
    samples = require("formality-judgements", "ratings")
    assert Counter(s.extra["survey"] for s in samples) == dict.fromkeys("1245", 180)
    assert all(len(s.ratings[aspect]) == 2 for s in samples for aspect in s.ratings)


def test_columns_of_content_metrics_are_named_right():
    """A text equal to its source has chrF, BLEU and ROUGE 1 and word mover's distance 0."""
    samples = [
        s
        for s in require("formality-judgements", "content-src")
        if s.text.split() == s.source.split()
    ]
    assert len(samples) > 10
    for sample in samples:
        values = sample.extra["content.src"]
        assert list(values) == list(CONTENT_METRICS)
        assert values["WMD"] == pytest.approx(0, abs=1e-3)
        assert [values[m] for m in ("chrF", "ROUGE-1", "ROUGE-2", "ROUGE-L")] == [1, 1, 1, 1]


def test_references_compared_with_themselves_show_the_same_columns():
    samples = [s for s in require("formality-judgements", "content-ref") if s.system == "REF"]
    for sample in samples:
        values = sample.extra["content.ref"]
        assert values["WMD"] == pytest.approx(0, abs=1e-3)
        assert values["chrF"] == pytest.approx(1, abs=1e-3)


def test_z_scores_are_the_ratings_of_one_rater_on_another_scale():
    samples = require("formality-judgements", "content-src")
    for rater in ("1", "2"):
        for aspect in ("content", "style", "fluency"):
            for survey in "1245":
                surveyed = [s for s in samples if s.extra["survey"] == survey]
                raw = [s.ratings[aspect][rater] for s in surveyed]
                z = [s.extra["z"][aspect][rater] for s in surveyed]
                assert np.corrcoef(raw, z)[0, 1] > 0.999, (rater, aspect, survey)


SIZES = {
    "pplm_prompts": 35,
    "owt_neutral_prompts": 5000,
    "cloze_2018_test": 1571,
    "sts_benchmark_test": 625,
}


def gedi_on_sentiment():
    try:
        runs = datasets.lpf.runs(control="sentiment", here=True)
    except UserError as error:
        pytest.skip(str(error))
    return runs, [run for run in runs if run.system == "gedi"]


def test_published_results_give_the_row_of_gedi_in_the_tables_of_the_study():
    runs, gedi = gedi_on_sentiment()
    assert len(runs) == 132
    assert len(gedi) == 12
    weights = [SIZES[run.dataset] for run in gedi]

    def mean_and_spread(values):
        mean = np.average(values, weights=weights)
        return mean, np.sqrt(np.average((values - mean) ** 2, weights=weights))

    def column(*path):
        values = []
        for run in gedi:
            value = run.results
            for step in path:
                value = value[step]
            values.append(value)
        return np.array(values)

    distinct = 100 * column("distinct-n", "overall", "dist1")
    assert mean_and_spread(distinct) == pytest.approx((10.10, 5.1), abs=0.06)
    slor = [
        column("perplexity", model, "overall_slor") for model in ("gpt2-xl", "bigscience/bloom-1b7")
    ]
    assert mean_and_spread(sum(slor) / 2)[0] == pytest.approx(11.55, abs=0.006)
    judge = column("distilbert-base-uncased-finetuned-sst-2-english", "overall", "accuracy")
    assert mean_and_spread(judge) == pytest.approx((95.0, 0.4), abs=0.06)
    majority = column("control_effectiveness_majority", "overall", "accuracy")
    assert mean_and_spread(majority)[0] == pytest.approx(97.40, abs=0.006)


def test_texts_of_the_study_continue_the_prompts_of_pplm():
    try:
        samples = datasets.load("lpf", part=["sentiment", "topic"], here=True)
    except UserError as error:
        pytest.skip(str(error))
    pplm = [s for s in samples if s.dataset == "pplm_prompts"]
    assert {s.prompt for s in pplm} == set(datasets.prompts("pplm"))
    assert len({s.id for s in samples}) == len(samples)
    for sample in samples:
        if " " not in sample.system:  # no instructed model
            assert sample.text.startswith(sample.prompt), sample.id


def test_the_rule_for_finding_a_prompt_gives_the_prompts_of_pplm(monkeypatch):
    monkeypatch.setattr(datasets.lpf, "_PPLM_PROMPTS", {})
    try:
        samples = datasets.load("lpf", part=["sentiment", "topic", "keywords"], here=True)
    except UserError as error:
        pytest.skip(str(error))
    prefixes = {s.prompt for s in samples if s.dataset == "pplm_prompts"}
    assert prefixes == set(datasets.prompts("pplm"))


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("sst2", {"positive": 4963, "negative": 4650}),
        ("ag-news", dict.fromkeys(("World", "Sports", "Business", "Sci/Tech"), 1900)),
        ("nltk-movie-reviews", {"positive": 1000, "negative": 1000}),
        ("nltk-sentence-polarity", {"positive": 5331, "negative": 5331}),
        ("nltk-subjectivity", {"objective": 5000, "subjective": 5000}),
    ],
)
def test_labelled_sets_have_their_labels(name, labels):
    samples = require(name)
    assert Counter(label for s in samples for label in s.control.values()) == labels
    assert len(samples) == datasets.dataset(name).rows
    assert len({s.id for s in samples}) == len(samples)


@pytest.mark.thinned
@pytest.mark.parametrize("name", ["ag-news-dev", "pt16", "yelp-sentences", "topical-persona-chat"])
def test_other_sets_have_as_many_rows_as_the_registry_says(name):
    samples = require(name)
    assert len(samples) == datasets.dataset(name).rows
    assert all(s.text.strip() for s in samples)
    if name == "pt16":
        assert all(-3 <= s.ratings["formality"]["mean"] <= 3 for s in samples)


def test_the_test_part_of_pt16_is_another_collection():
    moments = {}
    for part in ("train", "tune", "test"):
        rows = [s for s in require("pt16") if s.id.startswith(f"{part}:")]
        ratings = np.array([s.ratings["formality"]["mean"] for s in rows])
        moments[part] = (round(ratings.mean(), 2), round(ratings.var(ddof=1), 2))
    assert moments == {"train": (-0.73, 1.71), "tune": (-0.72, 1.64), "test": (0.17, 0.71)}

    words = {int(s.id[5:]): set(s.text.lower().split()) for s in rows}

    def shared(shift: int) -> float:
        pairs = [(n, n + 500 * k + shift) for n in range(500) for k in range(1, 6)]
        word_sets = [(words[a], words[b]) for a, b in pairs if a in words and b in words]
        return float(np.mean([len(a & b) / len(a | b) for a, b in word_sets]))

    assert round(shared(0), 2) == 0.73
    assert shared(-1) < 0.1


def test_word_lists_have_no_marks_of_a_terminal():
    for topic in datasets.dataset("pplm-wordlists").parts:
        have_words = datasets.wordlist(topic)
        assert all(not re.search(r"[\[\]\t]|  ", word) for word in have_words)
    assert len(datasets.wordlist("computers")) == 176


def choices_of(name: str, part: str):
    """The samples of a part by id, and the choices between them, or a skip."""
    samples = {sample.id: sample for sample in require(name, part)}
    return samples, datasets.choices(name, part=part)


def test_a_batch_of_dexperts_has_three_raters_a_pair_and_sixty_pairs_an_opponent():
    samples, choices = choices_of("dexperts-human", "neutral-positive")
    assert Counter(c.aspect for c in choices) == dict.fromkeys(
        ("control", "topicality", "fluency"), 900
    )
    assert set(Counter((c.item, c.aspect) for c in choices).values()) == {3}
    assert all(s.text.startswith(s.prompt) for s in samples.values())
    for choice in choices:
        assert samples[choice.sample_a].system == choice.a
        assert samples[choice.sample_b].system == choice.b
        assert samples[choice.sample_a].prompt == choice.prompt
    decided = defaultdict(Counter)
    for choice in choices:
        if choice.aspect == "control":
            decided[choice.item][choice.outcome] += 1
    majorities = [votes[1.0] >= 2 or votes[0.0] >= 2 for votes in decided.values()]
    assert (sum(majorities), len(majorities)) == (206, 300)


@pytest.mark.parametrize(
    ("part", "sums"),
    [
        ("clickbait", {"Gabe": (78, 50, 45, 97)}),
        ("military", {"Spencer": (36, 36, 12, 276), "military:3": (36, 42, 13, 269)}),
        ("positive", {"Ben": (50, 65, 24, 131)}),
        ("religion", {"Gabe": (68, 88, 31, 92)}),
    ],
)
def test_choices_of_pplm_add_up_to_the_sums_at_the_end_of_the_file(part, sums):
    samples, choices = choices_of("pplm-human", part)
    assert {id for c in choices for id in (c.sample_a, c.sample_b)} == set(samples)
    words = Counter((c.rater, c.tie or ("a" if c.outcome else "b")) for c in choices)
    for rater, counts in sums.items():
        assert tuple(words[rater, word] for word in ("a", "b", "both", "neither")) == counts

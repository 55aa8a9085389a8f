"""Metrics against choices, against plain loops."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.agree.preference import RATER, preferences
from levelfield.core.errors import UserError
from levelfield.io.comparisons import PairChoice
from levelfield.io.scores import ScoreColumn


def _choice(pair: int, outcome: float, rater: str = "", *, b: str = "florid") -> PairChoice:
    return PairChoice(
        "plain", b, outcome, "style", rater, f"prompt {pair // 2}", f"a{pair}", f"b{pair}",
        f"pair {pair}", "equal" if outcome == 0.5 else "",
    )  # fmt: skip


def _column(values: dict[str, float], metric: str = "length") -> ScoreColumn:
    return ScoreColumn(metric, f"{metric}|v1", values)


def _constant(pairs: int, a: float = 2, b: float = 1, metric: str = "length") -> ScoreColumn:
    values = {f"{side}{n}": v for n in range(pairs) for side, v in (("a", a), ("b", b))}
    return _column(values, metric)


_outcomes = st.sampled_from([0.0, 0.5, 1.0])


@given(
    st.lists(
        st.tuples(
            st.lists(_outcomes, min_size=1, max_size=5),
            st.sampled_from([0.0, 1.0, 2.0, math.nan]),
            st.sampled_from([0.0, 1.0, 2.0]),
        ),
        min_size=1,
        max_size=8,
    ).filter(lambda rows: any(not math.isnan(a) for _, a, _ in rows))
)
def test_shares_are_those_of_a_plain_loop(rows: list[tuple[list[float], float, float]]) -> None:
    decided: list[float] = []
    every: list[bool] = []
    of_raters: list[bool] = []
    for outcomes, a, b in rows:
        for n, outcome in enumerate(outcomes):
            others = outcomes[:n] + outcomes[n + 1 :]
            for side in (0.0, 1.0):
                if others and outcome != 0.5 and all(other == side for other in others):
                    of_raters.append(outcome == side)
        if math.isnan(a):
            continue
        people = "tie"
        if sum(o == 1 for o in outcomes) > len(outcomes) / 2:
            people = "a"
        if sum(o == 0 for o in outcomes) > len(outcomes) / 2:
            people = "b"
        metric = "tie" if a == b else "a" if a > b else "b"
        every.append(metric == people)
        if people != "tie":
            decided.append(0.5 if metric == "tie" else float(metric == people))
    report = preferences(
        _column(
            {f"{s}{n}": v for n, (_, a, b) in enumerate(rows) for s, v in (("a", a), ("b", b))}
        ),
        [_choice(n, o) for n, (outcomes, _, _) in enumerate(rows) for o in outcomes],
        resamples=50,
    )
    of_metric, of_rater = report.agreements
    for estimate, values in (
        (of_metric.estimates["decided"], decided),
        (of_metric.estimates["accuracy"], every),
        (of_rater.estimates["decided"], of_raters),
    ):
        assert estimate.n == len(values)
        if values:
            assert estimate.value == pytest.approx(sum(values) / len(values))
        else:
            assert estimate.why_undefined == "no such pair"
    assert (of_metric.pairs, of_metric.decided) == (len(every), len(decided))
    missing = sum(math.isnan(a) for _, a, _ in rows)
    assert [f"{missing} of {len(rows)} pairs" in note for note in report.notes] == [True] * (
        missing > 0
    )


def test_the_threshold_of_ties_is_chosen_on_other_prompts() -> None:
    """People tie small differences, so that a threshold between them is found on either half."""
    choices = [_choice(n, (0.5, 1.0)[n % 2]) for n in range(40)]
    values = {f"{s}{n}": v for n in range(40) for s, v in (("a", (0.1, 3.0)[n % 2]), ("b", 0.0))}
    estimates = preferences(_column(values), choices).agreements[0].estimates
    assert (estimates["accuracy"].value, estimates["calibrated"].value) == (0.5, 1.0)
    assert estimates["calibrated"].note == "tie threshold 0.1 and 0.1"
    in_sample = preferences(_column(values), choices, ties="in-sample").agreements[0]
    assert in_sample.estimates["calibrated"].value == 1.0
    assert "same pairs" in in_sample.estimates["calibrated"].why_no_interval


def test_a_held_out_threshold_does_not_fit_its_own_pairs() -> None:
    """Of two prompts one is tied and the other decided, so that each threshold is wrong."""
    choices = [_choice(n, (0.5, 0.5, 1.0, 1.0)[n]) for n in range(4)]
    estimates = preferences(_constant(4), choices).agreements[0].estimates
    assert (estimates["accuracy"].value, estimates["calibrated"].value) == (0.5, 0.0)


def test_a_side_is_a_matter_of_texts() -> None:
    swapped = _choice(0, 0.0)._replace(a="florid", b="plain", sample_a="b0", sample_b="a0")
    report = preferences(_constant(1), [_choice(0, 1.0), swapped])
    assert report.agreements[0].pairs == 1
    assert report.agreements[0].estimates["decided"].value == 1.0


def test_all_pairs_and_those_of_each_two_systems() -> None:
    choices = [_choice(n, 1.0, b=("florid", "terse")[n % 2]) for n in range(6)]
    agreements = preferences(_constant(6), choices).agreements
    assert [(g.metric, g.systems, g.pairs) for g in agreements] == [
        (metric, systems, pairs)
        for systems, pairs in (((), 6), (("florid", "plain"), 3), (("plain", "terse"), 3))
        for metric in ("length", RATER)
    ]


def test_lower_is_better_turns_a_metric_and_two_metrics_are_compared() -> None:
    choices = [_choice(n, 1.0) for n in range(20)]
    columns = [_constant(20), _constant(20, 1, 2, "perplexity")]
    report = preferences(columns, choices)
    assert [g.estimates["decided"].value for g in report.agreements[:2]] == [1.0, 0.0]
    assert (report.differences[0].difference, report.differences[0].pairs) == (1.0, 20)
    assert report.differences[0].p == pytest.approx(2 / 2**10)  # of 10 prompts
    turned = preferences(columns, choices, lower_is_better=["perplexity"])
    assert [g.estimates["decided"].value for g in turned.agreements[:2]] == [1.0, 1.0]
    assert turned.differences[0].p == 1.0


def test_all_ties_decide_nothing() -> None:
    report = preferences(_constant(4), [_choice(n, 0.5) for n in range(4)])
    assert report.agreements[0].estimates["decided"].why_undefined == "no such pair"
    assert report.agreements[0].estimates["accuracy"].value == 0.0


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ([], "no files are given"),
        ([_choice(0, 1.0, "ann"), _choice(0, 0.0, "ann")], "rater ann has two judgements"),
        ([_choice(0, 1.0)._replace(sample_a="")], "names no texts"),
        ([_choice(99, 1.0)], "no pair of the choices has values"),
    ],
)
def test_what_can_not_be_measured_is_refused(choices: list[PairChoice], words: str) -> None:
    with pytest.raises(UserError, match=words):
        preferences(_constant(4), choices)


def test_options_of_ratings_are_refused() -> None:
    with pytest.raises(UserError, match="group: choices"):
        preferences(_constant(1), [_choice(0, 1.0)], group="system")

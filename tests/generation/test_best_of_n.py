"""Best of n against the loop that writes every text and sorts them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

import technique_cases as cases
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.generation import Decoding, Request
from levelfield.generation.table import make_technique
from levelfield.generation.techniques.best_of_n.technique import BestOfN
from levelfield.metrics import Perplexity

SHORT = Decoding(max_new_tokens=6)
ASKED = [Request(str(n), text) for n, text in enumerate(("The lake", "", "Once upon a time"))]
GLAD = {"sentiment": "positive"}


def by_perplexity(**options) -> BestOfN:
    return BestOfN(
        **{
            "model": cases.model(),
            "metric": "fluency.perplexity",
            "metric_options": f"model={cases.model('llama')}",
            **options,
        }
    )


def written(technique, asked=ASKED, seed=3):
    return [*technique.generate(asked, decoding=SHORT, seed=seed)]


def perplexities(answers):
    samples = [Sample(str(n), one.text) for n, one in enumerate(answers)]
    return Perplexity(model=cases.model("llama")).score(samples).values


def test_one_text_is_that_of_the_inner_technique():
    inner = make_technique("base", {"model": cases.model()})
    alone = [replace(one, seconds=0.0, extra={}) for one in written(inner)]
    best = written(by_perplexity(n=1))
    assert [replace(one, seconds=0.0, extra={}) for one in best] == alone
    assert {one.extra["candidate"] for one in best} == {1}


def test_the_text_with_the_best_value_is_chosen_and_all_passes_count():
    inner = make_technique("base", {"model": cases.model()})
    for asked, best in zip(ASKED, written(by_perplexity(n=5)), strict=True):
        several = [
            written(inner, [replace(asked, id=asked.id if k == 1 else f"{asked.id} (text {k})")])[0]
            for k in range(1, 6)
        ]
        values = perplexities(several).tolist()
        place = values.index(min(values))
        assert len(set(values)) > 1
        assert (best.text, best.id) == (several[place].text, asked.id)
        assert best.extra["candidate"] == place + 1
        assert best.forward_passes == sum(one.forward_passes for one in several)


def test_more_texts_are_never_worse():
    values = [perplexities(written(by_perplexity(n=n))) for n in (1, 2, 4, 8)]
    for fewer, more in itertools.pairwise(values):
        assert (more <= fewer).all()
    assert (values[-1] < values[0]).any()


def test_of_equal_values_and_of_none_the_first_text_counts():
    without = by_perplexity(metric="keywords.coverage", metric_options="", n=4)
    assert {one.extra["candidate"] for one in written(without)} == {1}
    asked = [replace(one, control={"keywords": ("zebra",)}) for one in ASKED]
    assert {one.extra["candidate"] for one in written(without, asked)} == {1}


def test_a_technique_that_rewrites_is_given_sources():
    technique = BestOfN(inner="copy", metric="chrf.source", metric_options="", n=2)
    assert technique.rewrites
    (answer,) = technique.generate([Request("1", source="It is what it is.")], decoding=SHORT)
    assert answer.text == "It is what it is."


@pytest.mark.parametrize(
    ("options", "control", "reason"),
    [
        ({}, GLAD, ""),
        ({}, {}, "needs a control, and there is none"),
        ({}, {"keywords": ("lake",)}, "no judge of control.probability judges keywords; bolt"),
        (
            {},
            {"keywords": ("lake",), **GLAD},
            "no judge of control.probability judges keywords; bolt",
        ),
        ({}, {"topic": "computers"}, "judges topic; cfg, chat"),
        ({"inner": "prompting"}, {"keywords": ("lake",), **GLAD}, ""),
        ({"inner": "prompting"}, {"keywords": ("lake",)}, "judges keywords; "),
        ({"inner": "gedi"}, {"keywords": ("lake",)}, "best-of-n around gedi: "),
        ({"metric": "fluency.slor", "metric_options": ""}, {}, ""),
    ],
)
def test_a_control_that_nobody_judges_is_refused(options, control, reason):
    refused = BestOfN(**options).refusal(control)
    assert bool(refused) == bool(reason)
    assert reason in refused


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"metric": "diversity.distinct-2", "metric_options": ""}, "no value for a single text"),
        ({"metric": "no.such"}, "no metric"),
        ({"metric_options": "judge=vader"}, "no option 'judge'"),
        ({"metric_options": "'judges"}, "No closing quotation; expected NAME=VALUE"),
        ({"inner_options": "bos"}, "inner_options has 'bos'"),
        ({"inner": "best-of-n"}, "inner"),
        ({"n": 0}, "n"),
    ],
)
def test_options_that_rank_nothing_are_refused(options, reason):
    with pytest.raises(UserError, match=reason):
        BestOfN(**options)

"""Composite scores: means of standard scores."""

from __future__ import annotations

import math
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from composite_stubs import StubAspect, put_stubs
from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import fields_read
from levelfield.core.sample import Sample
from levelfield.metrics.composite import (
    CompositeAttributeRelevance,
    CompositeCoherence,
    CompositeConsistency,
)
from levelfield.metrics.composite.base import CompositeMetric
from levelfield.metrics.composite.scales import (
    MeasuredScale,
    StandardScale,
    read_scales,
    scale_key,
    scales_text,
)
from levelfield.models.loading import Loading

ASPECTS: list[type[CompositeMetric]] = [
    CompositeCoherence,
    CompositeConsistency,
    CompositeAttributeRelevance,
]
WEIGHTS = {
    (CompositeConsistency, "embedding"): 2,
    (CompositeConsistency, "evidence"): 2,
    (CompositeAttributeRelevance, "judge"): 3,
}
"""Aspect and part -> how often it counts where others count once."""
every_aspect = pytest.mark.parametrize("aspect", ASPECTS)


@pytest.fixture(autouse=True)
def _stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    put_stubs(monkeypatch)


def scales_of(*metrics: CompositeMetric, path: Path) -> str:
    """A file of scales, another one for each component."""
    keys = dict.fromkeys(k for m in metrics for c in m.components() for k in c.keys.values())
    scales = [
        MeasuredScale(key, "part", 2, StandardScale(0.1 * i - 0.3, 0.2 + 0.05 * i))
        for i, key in enumerate(keys)
    ]
    path.write_text(scales_text("Scales", {"seed": 0}, scales), encoding="utf-8")
    return str(path)


@pytest.fixture
def scales(tmp_path: Path) -> str:
    with_channel = CompositeAttributeRelevance(channel=True)
    aspects = (CompositeCoherence(), CompositeConsistency(), with_channel)
    return scales_of(*aspects, path=tmp_path / "scales.toml")


def samples(n: int = 7) -> list[Sample]:
    controls = [{"sentiment": "positive"}, {"topic": "science"}, {"sentiment": "negative"}]
    return [
        Sample(f"{i}", f"Day {i} was long. We sang {i * i} songs.", prompt=f"Day {i}",
               control=controls[i % 3])
        for i in range(n)
    ]  # fmt: skip


# -- values


@pytest.mark.parametrize(
    ("aspect", "options"),
    [*((aspect, {}) for aspect in ASPECTS), (CompositeAttributeRelevance, {"channel": True})],
)
def test_a_value_is_the_weighted_mean_of_the_components_standard_scores(aspect, options, scales):
    metric = aspect(scales=scales, **options)
    scores = metric.score(samples())
    known_scales = read_scales(scales)
    for sample, value in zip(samples(), scores.values, strict=True):
        (attribute,) = sample.control if aspect is CompositeAttributeRelevance else ("",)
        parts = [c for c in metric.components() if c.attribute == attribute]
        z = []
        for component in parts:
            x = component.metric.score([sample]).values[0]
            by_label = component.ingredient.part == "channel"
            label = sample.control[attribute] if by_label else ""
            mean, sd = known_scales[component.keys[label]]
            z += [(x - mean) / sd] * WEIGHTS.get((aspect, component.ingredient.part), 1)
        assert value == pytest.approx(sum(z) / len(z), abs=1e-12)


@every_aspect
def test_the_parts_are_the_standard_scores_and_make_up_the_value(aspect, scales):
    scores = aspect(scales=scales).score(samples())
    assert scores.parts is not None
    for id, value in zip(scores.ids, scores.values, strict=True):
        rows = [row for row in scores.parts.iter_rows(named=True) if row["id"] == id]
        assert math.fsum(row["weight"] for row in rows) == pytest.approx(1)
        assert math.fsum(row["weight"] * row["score"] for row in rows) == pytest.approx(value)
        assert [row["part"] for row in rows] == [
            part for part in aspect().part_names if part in {row["part"] for row in rows}
        ]


@every_aspect
def test_a_value_does_not_depend_on_the_order_of_the_samples_or_on_the_others(aspect, scales):
    metric = aspect(scales=scales)
    together = metric.score(samples(130))
    backwards = metric.score(samples(130)[::-1])
    alone = np.concatenate([metric.score([sample]).values for sample in samples(130)])
    np.testing.assert_array_equal(together.values, backwards.values[::-1])
    np.testing.assert_array_equal(together.values, alone)


@every_aspect
def test_components_read_no_field_that_the_composite_does_not_name(aspect):
    # the real classes, not the stubs
    import levelfield.metrics.control as control
    import levelfield.metrics.ctrleval as ctrleval

    real = {
        CompositeCoherence: [ctrleval.CTRLEvalCoherence],
        CompositeConsistency: [ctrleval.CTRLEvalConsistency],
        CompositeAttributeRelevance: [
            ctrleval.CTRLEvalAttributeRelevance,
            control.ControlProbability,
        ],
    }[aspect]
    for component in real:
        assert fields_read(component()) <= fields_read(aspect())


@every_aspect
def test_a_metric_can_be_sent_to_another_process(aspect, scales):
    metric = pickle.loads(pickle.dumps(aspect(scales=scales)))
    np.testing.assert_array_equal(
        metric.score(samples()).values, aspect(scales=scales).score(samples()).values
    )


# -- undefined


def test_a_reason_that_all_parts_share_is_given_once(scales):
    scores = CompositeCoherence(scales=scales).score([Sample("1", " ")])
    assert scores.undefined == {"1": "empty text"}


def test_reasons_that_differ_name_their_parts(scales):
    text = "UNREADABLE offline/minilm and UNREADABLE offline/smollm2"
    scores = CompositeCoherence(scales=scales).score([Sample("1", text), Sample("2", "A text.")])
    assert scores.undefined == {
        "1": "embedding: offline/minilm can't read it; share, log-p: offline/smollm2 can't read it"
    }
    assert not np.isnan(scores.values[1])


def test_a_value_is_undefined_where_one_part_is(scales):
    scores = CompositeCoherence(scales=scales).score([Sample("1", "UNREADABLE offline/smollm2")])
    assert scores.undefined == {"1": "offline/smollm2 can't read it"}


def test_a_text_that_one_component_cuts_counts_as_truncated(scales):
    scores = CompositeCoherence(scales=scales).score([Sample("1", "LONG"), Sample("2", "short")])
    assert scores.truncated == {"1"}


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        ({}, "control names none of: sentiment, topic"),
        ({"keywords": ("a",)}, "control names none of: sentiment, topic"),
        (
            {"sentiment": "positive", "topic": "World"},
            "control names several attributes: sentiment, topic",
        ),
    ],
)
def test_a_control_without_one_known_attribute_has_a_reason(control, reason, scales):
    sample = Sample("1", "A text.", control=control)
    scores = CompositeAttributeRelevance(scales=scales).score([sample])
    assert scores.undefined == {"1": reason}


# -- attribute relevance


WITHOUT_JUDGE = ("embedding", "after")


def relevance_parts(sample: Sample, scales: str, **options: Any) -> dict[str, float]:
    scores = CompositeAttributeRelevance(scales=scales, **options).score([sample])
    assert scores.parts is not None
    return dict(zip(scores.parts["part"], scores.parts["weight"], strict=True))


def test_a_judge_is_a_part_of_sentiment_and_not_of_topic(scales):
    sentiment, topic = samples(2)
    weights = {**dict.fromkeys(WITHOUT_JUDGE, 1 / 5), "judge": 3 / 5}
    assert relevance_parts(sentiment, scales) == pytest.approx(weights)
    assert relevance_parts(topic, scales) == dict.fromkeys(WITHOUT_JUDGE, 1 / 2)


def test_without_a_judge_the_other_parts_weigh_a_half_each(scales):
    weights = relevance_parts(samples(1)[0], scales, judge="none")
    assert weights == dict.fromkeys(WITHOUT_JUDGE, 1 / 2)


def test_channel_is_a_part_of_sentiment_where_it_is_asked_for(scales):
    sentiment, topic = samples(2)
    weights = {**dict.fromkeys((*WITHOUT_JUDGE, "channel"), 1 / 6), "judge": 1 / 2}
    assert relevance_parts(sentiment, scales, channel=True) == pytest.approx(weights)
    assert relevance_parts(topic, scales, channel=True) == relevance_parts(topic, scales)


def test_the_signature_names_the_channel_and_is_then_that_of_the_default_before(scales):
    on = CompositeAttributeRelevance(scales=scales, channel=True).signature
    off = CompositeAttributeRelevance(scales=scales).signature
    assert "|parts:sentiment=embedding+after+channel+judge topic=embedding+after|" in on
    assert "|weights:1+1+1+3 1+1|" in on
    assert "|parts:sentiment=embedding+after+judge topic=embedding+after|" in off
    assert "|weights:1+1+3 1+1|" in off


def test_the_signature_names_the_judge(scales):
    on = CompositeAttributeRelevance(scales=scales).signature
    off = CompositeAttributeRelevance(scales=scales, judge="none").signature
    assert "|judge:sentiment=smollm2-linear,vader|" in on
    assert "|judge:none|" in off


def test_a_judge_of_one_s_own_is_asked_where_it_judges_the_attribute():
    metric = CompositeAttributeRelevance(judge="vader")
    judged = {c.attribute: c.metric.judges for c in metric.components() if c.metric.judges}
    assert judged == {"sentiment": "vader"}
    with pytest.raises(UserError, match="judge=vader: it judges none of topic"):
        CompositeAttributeRelevance(judge="vader", attribute="topic").components()


def test_an_attribute_with_other_labels_than_the_judge_s_has_no_judge(tmp_path):
    file = tmp_path / "stars.toml"
    file.write_text(
        'attribute = "sentiment"\nlabels = ["one", "five"]\nprompts = ["<text> Stars: <gap>."]\n'
        '[[verbalizers]]\none = "one"\nfive = "five"\n'
    )
    metric = CompositeAttributeRelevance(attribute=str(file))
    assert [c.ingredient.part for c in metric.components()] == ["embedding", "after"]
    assert metric.control_attributes == frozenset()
    assert CompositeAttributeRelevance(attribute="topic").control_attributes == {"topic"}


def test_other_attributes_of_the_control_are_not_measured(scales):
    sample = Sample("1", "A text.", control={"sentiment": "positive"})
    more = replace(sample, control={"sentiment": "positive", "style": "formal"})
    metric = CompositeAttributeRelevance(scales=scales)
    assert metric.score([sample]).values == metric.score([more]).values


# -- scales and signatures


def test_a_scale_is_found_by_what_determines_the_component_s_values(scales):
    assert scale_key("m|model:a|match:loose|dtype:bfloat16|v:9") == "m|model:a"
    assert scale_key("m|model:a|form:share") != scale_key("m|model:a|form:log-p")
    assert scale_key("control|judges:j", "sentiment") != scale_key("control|judges:j", "topic")
    CompositeCoherence(scales=scales, loading=Loading(dtype="bfloat16")).score(samples())


@every_aspect
@pytest.mark.parametrize("option", [{"model": "other/lm"}, {"encoder": "other/encoder"}])
def test_models_without_scales_are_an_error_with_the_command_that_makes_them(
    aspect, option, scales
):
    ((name, value),) = option.items()
    with pytest.raises(UserError) as error:
        _ = aspect(scales=scales, **option).signature
    assert "\n" not in str(error.value)
    assert aspect.name in str(error.value)
    assert f"`levelfield train scales CORPUS --out scales.toml --{name} {value}`" in str(
        error.value
    )


def test_a_language_without_scales_is_an_error_with_the_command_that_makes_them(scales):
    with pytest.raises(UserError, match=r"train scales CORPUS .*--language german"):
        _ = CompositeCoherence(scales=scales, language="german").signature


def test_own_scales_go_before_those_that_ship(tmp_path, scales):
    other = CompositeCoherence(model="other/lm")
    scaled = replace(other, scales=scales_of(other, path=tmp_path / "own.toml"))
    values = scaled.score(samples()).values
    assert np.isfinite(values).all()
    assert scaled.signature != CompositeCoherence(scales=scales).signature


def test_the_signature_names_models_parts_weights_and_scales(scales):
    assert re.fullmatch(
        r"composite\.coherence\|model:offline/smollm2@\w{12}\|encoder:offline/minilm@\w{12}"
        r"\|segmenter:punkt-english\|parts:embedding\+share\+log-p\|weights:equal"
        r"\|scales:[0-9a-f]{12}\|dtype:float32\|v:.+",
        CompositeCoherence(scales=scales).signature,
    )


def test_the_signature_names_weights_that_differ(scales):
    signature = CompositeConsistency(scales=scales).signature
    assert "|parts:embedding+evidence+log-p|weights:2+2+1|" in signature


def test_scales_that_a_metric_does_not_use_leave_its_signature(tmp_path, scales):
    text = Path(scales).read_text()
    more = tmp_path / "more.toml"
    more.write_text(text + '\n[[scales]]\ncomponent = "other"\nmean = 1\nsd = 2\n')
    other = tmp_path / "other.toml"
    other.write_text(text.replace("sd = 0.2\n", "sd = 0.3\n"))
    plain = CompositeCoherence(scales=scales).signature
    assert CompositeCoherence(scales=str(more)).signature == plain
    assert CompositeCoherence(scales=str(other)).signature != plain


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"own.toml: scales: expected at least one table"),
        ('[[scales]]\ncomponent = "a"\nmean = "x"\nsd = 1', r"mean: expected a number"),
        ('[[scales]]\ncomponent = "a"\nmean = 1\nsd = 0', r"sd: expected a number above 0"),
        ('[[scales]]\ncomponent = "a"\nmean = 1', r"sd: expected a number above 0"),
        ("[[scales]]\nmean = 1\nsd = 1", r"component: expected a string"),
    ],
)
def test_a_file_without_scales_is_an_error(content, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(content)
    with pytest.raises(UserError, match=message):
        read_scales("own.toml")


# -- models


def test_a_model_of_another_kind_is_an_error_that_says_which_is_needed():
    with pytest.raises(ModelError, match="is a encoder model; composite scores need a causal"):
        _ = CompositeCoherence(model="offline/minilm").signature
    with pytest.raises(ModelError, match="expected an encoder; it is causal"):
        _ = CompositeCoherence(encoder="offline/smollm2").signature


def test_without_the_embedded_model_the_error_says_what_works(monkeypatch):
    from levelfield.metrics.composite import base

    def missing(name: str, _: Loading) -> None:
        raise ModelError(f"the model {name} is not installed: pip install it")

    monkeypatch.setattr(base, "resolve", missing)
    with pytest.raises(ModelError) as error:
        _ = CompositeCoherence().signature
    assert str(error.value) == (
        "the model offline/smollm2 is not installed: pip install it "
        "(--metric ctrleval works without it)"
    )
    with pytest.raises(ModelError, match=r"not installed: pip install it$"):
        _ = CompositeCoherence(model="other/lm").signature


def test_every_component_loads_models_as_chosen():
    loading = Loading(device="cpu", dtype="bfloat16", batch_tokens=7, allow_pickle=True)
    for aspect in ASPECTS:
        for component in aspect(loading=loading).components():
            stub = component.metric
            assert isinstance(stub, StubAspect)
            assert stub.loading == loading

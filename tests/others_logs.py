"""Logs and exports of other programs in their own layouts, with content of our own.

Each log states means that are computed here by a plain loop, as its program does.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from levelfield.core.errors import InputError
from levelfield.io import open_samples
from zip_members import write_zip

QUESTIONS = ("How deep is the lake?", "Who rows the boat?", "When does it freeze?")
ANSWERS = ("12 metres", "the ferryman", "in January")

Values = Mapping[tuple[int, int], object]
"""Sample and epoch -> the value of a score; None of a sample without scores."""

_NUMBERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def inspect_sample(
    id: int, epoch: int, scores: Mapping[str, object], **more: Any
) -> dict[str, Any]:
    """A sample of Inspect with what its scorers gave it."""
    i = id % len(QUESTIONS)
    return {
        "id": id,
        "epoch": epoch,
        "input": f"{QUESTIONS[i]} ({id})",
        "target": ANSWERS[i],
        "messages": [
            {"id": f"u{id}", "content": f"{QUESTIONS[i]} ({id})", "role": "user"},
            {"id": f"a{id}", "content": f"It is {ANSWERS[i]}.", "role": "assistant"},
        ],
        "output": {
            "model": "m",
            "choices": [
                {
                    "message": {"content": f"It is {ANSWERS[i]}.", "role": "assistant"},
                    "stop_reason": "stop",
                }
            ],
        },
        "scores": {
            scorer: {"value": value, "answer": ANSWERS[i], "explanation": "…"}
            for scorer, value in scores.items()
        },
        "metadata": {"season": "winter"},
        "store": {},
        "events": [{"event": "model", "pending": None}],
        "model_usage": {},
        "attachments": {},
        **more,
    }


def number(value: object) -> float | None:
    """What Inspect counts a value as; None for one that it leaves out."""
    value = _NUMBERS.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, int | float) or value != value:
        return None
    return float(value)


def mean_over_samples(values: Values) -> float:
    """The mean over samples of the means over their scored epochs."""
    of_samples: dict[int, list[float]] = defaultdict(list)
    for (id, _), value in values.items():
        if (v := number(value)) is not None:
            of_samples[id].append(v)
    means = [sum(v) / len(v) for v in of_samples.values()]
    return sum(means) / len(means) if means else float("nan")


def inspect_log(
    model: str,
    values: Mapping[str, Values],
    *,
    task: str = "lakes",
    epochs: int = 1,
    stated: Mapping[str, float] = {},
    status: str = "success",
    samples: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """A log of Inspect as one document: scorer -> its values, the means stated for all of them."""
    keys = list(dict.fromkeys(key for of_scorer in values.values() for key in of_scorer))
    if samples is None:
        samples = [
            inspect_sample(
                *key, {scorer: v[key] for scorer, v in values.items() if v.get(key) is not None}
            )
            for key in keys
        ]
    return {
        "version": 2,
        "status": status,
        "eval": {
            "eval_id": "e",
            "run_id": "r",
            "created": "2026-11-01T10:00:00+00:00",
            "task": task,
            "task_id": "t",
            "dataset": {"name": task, "samples": len({id for id, _ in keys})},
            "model": model,
            "config": {"epochs": epochs, "epochs_reducer": ["mean"]},
        },
        "plan": {"name": "plan", "steps": [{"solver": "generate", "params": {}}], "config": {}},
        "results": {
            "total_samples": len(keys),
            "completed_samples": len(keys),
            "scores": [
                {
                    "name": scorer,
                    "scorer": scorer,
                    "reducer": "mean",
                    "params": {},
                    "metrics": {
                        "accuracy": {
                            "name": "accuracy",
                            "value": stated.get(scorer, mean_over_samples(of_scorer)),
                            "params": {},
                        },
                        "stderr": {"name": "stderr", "value": 0.1, "params": {}},
                    },
                }
                for scorer, of_scorer in values.items()
            ],
        },
        "stats": {"started_at": "", "completed_at": "", "model_usage": {}},
        "samples": list(samples),
        "reductions": [],
    }


def write_inspect_json(path: Path, log: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(log, indent=2), encoding="utf-8")
    return path


def write_inspect_eval(path: Path, log: Mapping[str, Any], *, zstandard: bool = False) -> Path:
    """The same log as a zip file, in the order in which Inspect writes its members."""
    header = {name: log[name] for name in log if name not in ("samples", "reductions")}
    start = {name: log[name] for name in ("version", "eval", "plan")}
    members: list[tuple[str, object]] = [("_journal/start.json", start)]
    for sample in log["samples"]:
        members.append((f"samples/{sample['id']}_epoch_{sample['epoch']}.json", sample))
    members += [("_journal/summaries/1.json", []), ("summaries.json", []), ("reductions.json", [])]
    if log["status"] != "started":
        members.append(("header.json", header))
    packed = [(name, json.dumps(value, indent=2).encode()) for name, value in members]
    if zstandard:
        return write_zip(path, packed)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in packed:
            with warnings.catch_warnings(action="ignore"):  # of a name that stands twice
                file.writestr(name, content)
    return path


DATE = "2026-11-02T08-30-00.123456"


def lm_eval_line(
    id: int, metrics: Mapping[str, object], *, filter: str | None = "none", **more: Any
) -> dict[str, Any]:
    """A line of the samples of lm-evaluation-harness, of a generated answer."""
    i = id % len(QUESTIONS)
    return {
        "doc_id": id,
        "doc": {"question": QUESTIONS[i], "answer": ANSWERS[i]},
        "target": ANSWERS[i],
        "arguments": {"gen_args_0": {"arg_0": f"Q: {QUESTIONS[i]} ({id})\nA:", "arg_1": {}}},
        "resps": [[f" It is {ANSWERS[i]}."]],
        "filtered_resps": [ANSWERS[i]],
        **({"filter": filter, "metrics": list(metrics)} if filter is not None else {}),
        "doc_hash": f"doc{id}",
        "prompt_hash": f"prompt{id}",
        "target_hash": f"target{id}",
        **metrics,
        **more,
    }


def write_lm_eval(
    folder: Path,
    tasks: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    date: str = DATE,
    model: str = "lakes/small",
    stated: Mapping[tuple[str, str], float] = {},
    higher: Mapping[str, bool] = {"exact_match": True, "perplexity": False},
    groups: Mapping[str, Sequence[str]] = {},
    stem: str = "results",
    **more: Any,
) -> Path:
    """A run: `results_DATE.json` and `samples_TASK_DATE.jsonl`, with the means of its lines.

    Args:
        groups: group -> its tasks and groups; it has the means over the documents of the tasks.
        more: fields of the results.
    """
    folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, object]] = {}
    for task, lines in tasks.items():
        (folder / f"samples_{task}_{date}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
        columns: dict[str, list[float]] = defaultdict(list)
        for line in lines:
            for metric in line.get("metrics", ()):
                if isinstance(line[metric], int | float):
                    columns[f"{metric},{line['filter']}"].append(float(line[metric]))
        of_task: dict[str, object] = {"alias": task}
        for name, values in columns.items():
            metric, _, filter = name.partition(",")
            of_task[name] = stated.get((task, name), sum(values) / len(values))
            of_task[f"{metric}_stderr,{filter}"] = "N/A"
        results[task] = of_task

    def lines_of(group: str) -> list[Mapping[str, Any]]:
        members = groups.get(group)
        if members is None:
            return list(tasks[group])
        return [line for member in members for line in lines_of(member)]

    of_groups: dict[str, dict[str, object]] = {}
    for group in groups:
        columns = defaultdict(list)
        for line in lines_of(group):
            for metric in line["metrics"]:
                columns[f"{metric},{line['filter']}"].append(float(line[metric]))
        of_groups[group] = {"alias": group} | {
            score: stated.get((group, score), sum(values) / len(values))
            for score, values in columns.items()
        }
    document = {
        "results": results,
        **({"groups": of_groups} if groups else {}),
        "group_subtasks": {task: [] for task in tasks} | {g: [*m] for g, m in groups.items()},
        "configs": {task: {"task": task, "output_type": "generate_until"} for task in tasks},
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, 0),
        "higher_is_better": {task: dict(higher) for task in (*tasks, *groups)},
        "n-samples": {},
        "config": {"model": "hf", "model_args": f"pretrained={model},dtype=float32"},
        "model_name": model,
        "model_name_sanitized": model.replace("/", "__"),
        **more,
    }
    (folder / f"{stem}_{date}.json").write_text(json.dumps(document, indent=2), encoding="utf-8")
    return folder


def helm_stat(name: str, value: float | None, **context: Any) -> dict[str, Any]:
    """A statistic of one value, or of none."""
    numbers = {"count": 0, "sum": 0} if value is None else {"count": 1, "sum": value, "mean": value}
    return {"name": {"name": name, "split": "test", **context}, **numbers}


def helm_request(id: str, text: str, *, trial: int = 0, **more: Any) -> dict[str, Any]:
    """A request of HELM with its answer; `more` replaces fields of the instance or the request."""
    i = int(id.removeprefix("id")) % len(QUESTIONS)
    instance = {
        "input": {"text": f"{QUESTIONS[i]} ({id})"},
        "references": [
            {"output": {"text": "nobody"}, "tags": []},
            {"output": {"text": ANSWERS[i]}, "tags": ["correct"]},
        ],
        "split": "test",
        "id": id,
        **more.pop("instance", {}),
    }
    return {
        "instance": instance,
        "train_trial_index": trial,
        "request": {"model": "m", "prompt": f"Answer: {QUESTIONS[i]}"},
        "result": {"success": True, "completions": [{"text": text, "logprob": -1, "tokens": []}]},
        "num_train_instances": 0,
        "prompt_truncated": False,
        **more,
    }


def write_helm(
    folder: Path,
    values: Mapping[str, Mapping[tuple[str, int], float | None]],
    *,
    model: str = "lakes/small",
    trials: int = 1,
    requests: Sequence[Mapping[str, Any]] | None = None,
    stated: Mapping[str, float] = {},
) -> Path:
    """A run folder of HELM: statistic -> instance and trial -> value."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = list(dict.fromkeys(key for of_stat in values.values() for key in of_stat))
    if requests is None:
        requests = [helm_request(id, f"{id} answers", trial=trial) for id, trial in keys]
    files: dict[str, object] = {
        "run_spec.json": {"name": f"lakes:season=winter,model={model.replace('/', '_')}"},
        "scenario_state.json": {
            "adapter_spec": {
                "method": "generation",
                "model": model,
                "model_deployment": model,
                "num_train_trials": trials,
            },
            "request_states": list(requests),
        },
        # a list a metric, as HELM writes them
        "per_instance_stats.json": [
            {
                "instance_id": id,
                "train_trial_index": trial,
                "stats": [helm_stat(name, of_stat[id, trial])],
            }
            for name, of_stat in values.items()
            for id, trial in of_stat
        ],
        "stats.json": [
            {**helm_stat(name, None), "mean": stated.get(name, helm_mean(of_stat))}
            for name, of_stat in values.items()
        ],
    }
    for name, document in files.items():
        (folder / name).write_text(json.dumps(document, indent=2), encoding="utf-8")
    return folder


def helm_mean(values: Mapping[tuple[str, int], float | None]) -> float:
    """The mean over trials of the means over instances."""
    of_trials: dict[int, list[float]] = defaultdict(list)
    for (_, trial), value in values.items():
        if value is not None:
            of_trials[trial].append(value)
    means = [sum(v) / len(v) for v in of_trials.values()]
    return sum(means) / len(means)


def problem(path: Path) -> str:
    """The only problem of a file, in one line."""
    with pytest.raises(InputError) as caught:
        open_samples([path]).check()
    (line,) = caught.value.problems
    assert "\n" not in line
    return line

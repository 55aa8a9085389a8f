"""Run folders of HELM: `scenario_state.json`, `per_instance_stats.json`, `stats.json`.

What is read of a request: `instance` (`id`, `input.text`, `references`, `split`, `sub_split`,
`perturbation`), `train_trial_index`, `reference_index`, `request_mode`, `request.prompt`,
`result.success`, the first of `result.completions`; of the statistics `name`, `mean` and `count`;
and `adapter_spec`, and the run's name in `run_spec.json`. Perturbed instances are left out.

Trials differ in the examples in their prompts, which all instances share: they are seeds. Without
examples a trial is another draw for each instance.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from levelfield.io.formats.preview import Preview
from levelfield.io.json_input import list_of, number_of, object_of
from levelfield.io.json_stream import JsonStream, json_value
from levelfield.io.lines import Row
from levelfield.io.logged import LOGGED, MOST_DRAWS, LogFacts, logged_field, setting_values
from levelfield.io.problems import Wrong, printable
from levelfield.io.streams import content_digest, open_bytes

_STATE, _PER_INSTANCE, _STATS = "scenario_state.json", "per_instance_stats.json", "stats.json"
_MODEL_WORD = re.compile(r",?\bmodel(_deployment)?=[^,]*")
_MAIN_SPLIT = "test"

_SETTINGS = (
    "method", "instructions", "max_train_instances", "max_eval_instances", "num_train_trials",
    "num_outputs", "temperature", "max_tokens", "stop_sequences",
)  # fmt: skip

_Stats = dict[tuple[str, int], dict[str, float | None]]
"""Instance and trial -> statistic -> value."""


def is_helm(preview: Preview) -> bool:
    """Whether a folder is a run of HELM, or a file its `scenario_state.json`."""
    if preview.is_folder:
        return _STATE in preview.names
    return "adapter_spec" in preview.record and preview.begins == "{" and preview.suffix == ".json"


def helm_rows(path: Path) -> Iterator[Row]:
    """Yields a record for each instance and trial."""
    folder = path if path.is_dir() else path.parent
    state = folder / _STATE if path.is_dir() else path
    try:
        stats = _stats(folder / _PER_INSTANCE)
    except ValueError as error:
        yield 0, Wrong(f"{_PER_INSTANCE}: {printable(str(error))}")
        return
    number, run, seen = 0, _name(folder), set[tuple[str, int]]()
    try:
        with open_bytes(state) as file:
            stream, adapter = JsonStream(file), dict[str, Any]()
            for name in stream.members():
                if name == "adapter_spec":
                    adapter = dict(object_of(stream.value()))
                elif name == "request_states" and stream.next == "[":
                    for number in stream.items():
                        request_state = object_of(stream.value())
                        record = _record(request_state, adapter, run, stats, seen)
                        if record is not None:
                            yield number, record
    except ValueError as error:
        yield number, Wrong(f"{state.name}: {printable(str(error))}")


def helm_facts(path: Path) -> LogFacts:
    """Returns the means that `stats.json` states of instances that are not perturbed."""
    folder = path if path.is_dir() else path.parent
    run, means = _name(folder), dict[tuple[str, str], float]()
    try:
        for stat in _items(folder / _STATS):
            name = object_of(stat, "name")
            mean = number_of(stat.get("mean"))
            if mean is not None and "perturbation" not in name:
                means[_dataset(run, name), str(name.get("name"))] = mean
    except ValueError as error:
        return LogFacts(notes=(f"{_STATS} was not read: {printable(str(error))}",))
    adapter = _adapter(folder / _STATE if path.is_dir() else path)
    return LogFacts(
        means,
        model=_model(adapter),
        settings=setting_values({name: adapter.get(name) for name in _SETTINGS}),
    )


def _adapter(state: Path) -> Mapping[str, Any]:
    """Returns how a run made its requests; empty if that can't be read, which the rows say."""
    with suppress(OSError, ValueError), open_bytes(state) as file:
        stream = JsonStream(file)
        for name in stream.members():
            if name == "adapter_spec":
                return object_of(stream.value())
    return {}


def _model(adapter: Mapping[str, Any]) -> str:
    return str(adapter.get("model") or adapter.get("model_deployment") or "")


def _items(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the objects of a list in a file; none where there is no file."""
    if not file.is_file():
        return
    with open_bytes(file) as opened:
        yield from map(object_of, JsonStream(opened).values())


def _stats(file: Path) -> _Stats:
    """Returns the statistics of instances; several entries of an instance are put together."""
    stats: _Stats = {}
    for entry in _items(file):
        if entry.get("perturbation") is not None:
            continue
        trial = entry.get("train_trial_index", 0)
        key = str(entry.get("instance_id")), trial if isinstance(trial, int) else 0
        for stat in map(object_of, list_of(entry.get("stats"))):
            name = object_of(stat, "name").get("name")
            if isinstance(name, str):
                stats.setdefault(key, {})[name] = number_of(stat.get("mean"))
    return stats


def _name(folder: Path) -> str:
    """Returns the name of a run without its model."""
    name: object = None
    file = folder / "run_spec.json"
    if file.is_file():
        with suppress(ValueError):  # the folder has the name, too
            name = object_of(json_value(file)).get("name")
    run = name if isinstance(name, str) and name else folder.resolve().name
    return _MODEL_WORD.sub("", run).rstrip(":,") or run


def _dataset(run: str, instance: Mapping[str, Any]) -> str:
    """Returns the name of a run with the split, if it is not that of the test."""
    parts = [str(instance[key]) for key in ("split", "sub_split") if instance.get(key)]
    return run if parts in ([], [_MAIN_SPLIT]) else f"{run} ({', '.join(parts)})"


def _record(
    state: Mapping[str, Any],
    adapter: Mapping[str, Any],
    run: str,
    stats: _Stats,
    seen: set[tuple[str, int]],
) -> dict[str, Any] | Wrong | None:
    """Returns the record of an instance; None for a request that isn't its answer."""
    instance, trial = object_of(state, "instance"), state.get("train_trial_index", 0)
    if (
        not isinstance(instance.get("id"), str | int)
        or not isinstance(trial, int)
        or (abs(trial) > MOST_DRAWS)
    ):
        return Wrong("expected a request with instance.id and train_trial_index")
    item = str(instance["id"])
    scores = stats.get((item, trial), {})
    reference, predicted = state.get("reference_index"), scores.get("predicted_index")
    is_other = reference is not None and predicted is not None and reference != predicted
    if instance.get("perturbation") is not None or state.get("request_mode") == "calibration":
        return None
    if is_other or (reference is not None and (item, trial) in seen):
        return None
    seen.add((item, trial))
    several = adapter.get("num_train_trials") not in (None, 1) or trial != 0
    is_draw = adapter.get("max_train_instances") == 0
    failed = object_of(state, "result").get("success") is False
    reasons = {"": "the request failed"} if failed else {}
    source = object_of(instance, "input").get("text", instance.get("input"))
    context = [source] if isinstance(source, str) and source else []
    references = [
        str(object_of(reference, "output").get("text", reference.get("output")))
        for reference in map(object_of, list_of(instance.get("references")))
        if "correct" in list_of(reference.get("tags"))
    ]
    completions = list_of(object_of(state, "result").get("completions"))
    text = object_of(completions[0]).get("text") if completions else ""
    return {
        "id": f"{item}/{trial}" if several else item,
        "text": text if isinstance(text, str) else "",
        "context": context,
        "references": references,
        "system": _model(adapter),
        "dataset": _dataset(run, instance),
        **({"trial" if is_draw else "seed": trial} if several else {}),
        "request": object_of(state, "request").get("prompt"),
        LOGGED: logged_field(
            item,
            dict.fromkeys(scores) if failed else scores,
            content_digest((context, references)),
            draw=trial if is_draw else 0,
            reasons=reasons,
            counted={k: v for k, v in scores.items() if v is not None} if failed else {},
        ),
    }

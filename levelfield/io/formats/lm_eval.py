"""Runs of lm-evaluation-harness: `results_DATE.json` beside `samples_TASK_DATE.jsonl`.

What is read of a line of samples: `doc_id`, `target`, `arguments`, `resps`, `filtered_resps`,
`filter`, `doc_hash`, and the metrics that `metrics` names; and of the results: `results`, `groups`,
`group_subtasks`, `higher_is_better`, `configs`, `versions`, `n-shot`, `n-samples`, `model_name`,
`config`. A document has a line for each filter; its scores are named `METRIC,FILTER`, as in the
results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core.direction import Direction
from levelfield.core.strings import finite_number
from levelfield.io.formats.chat import asked
from levelfield.io.formats.preview import Preview
from levelfield.io.json_input import list_of, number_of, object_of, parse_json
from levelfield.io.json_stream import json_value
from levelfield.io.lines import Row, jsonl
from levelfield.io.logged import LOGGED, LogFacts, logged_field, setting_values
from levelfield.io.problems import Wrong, listed, shown
from levelfield.io.streams import content_digest

_DATE = re.compile(r"_(\d{4}-\d\d-\d\dT[\d.-]+)$")
_SAMPLES = re.compile(r"samples_(.+)\.jsonl")
_KNOWN = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash", "task_name"}
)
"""Fields of a line that aren't metrics, in logs whose lines don't name their metrics."""

_NO_FILTER = "none"

_NO_ANSWER = "[invalid]"
"""What a filter gives where it has not found an answer in a response."""

_AGGREGATIONS = {
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
}
"""Metric -> how its documents are aggregated, where a task's configuration doesn't say it."""

_SETTINGS = (
    "model", "gen_kwargs", "limit", "num_fewshot", "use_cache", "random_seed",
    "fewshot_seed",
)  # fmt: skip


def is_lm_eval(preview: Preview) -> bool:
    """Whether a folder, or one of its files, is of a run with samples.

    A folder of such folders is one as well: lm-eval writes its files to a folder for each model.
    """
    if preview.is_folder:
        folders = (path for path in preview.path.iterdir() if path.is_dir())
        is_run = any(
            _SAMPLES.fullmatch(name) or (name.startswith("results_") and _is_results(name))
            for name in preview.names
        )
        return is_run or any(map(_holds_run, folders))
    if preview.suffix == ".json":
        is_object = preview.begins == "{" and "results" in preview.record
        return is_object and _is_results(preview.path.name)
    return {"doc_id", "filtered_resps"} <= preview.record.keys() and "text" not in preview.record


def _is_results(name: str) -> bool:
    """Whether a file has the name of results: `results_DATE.json`, or `NAME_DATE.json`."""
    path = Path(name)
    is_named = name.startswith("results") or _DATE.search(path.stem)
    return path.suffix == ".json" and bool(is_named)


def _is_of_run(name: str) -> bool:
    return bool(_SAMPLES.fullmatch(name)) or _is_results(name)


def _holds_run(folder: Path) -> bool:
    with suppress(OSError):
        return any(_SAMPLES.fullmatch(path.name) for path in folder.iterdir())
    return False


@dataclass(frozen=True)
class _Run:
    """The files of one run.

    Attributes:
        samples: task -> its file.
        results: what the run states of its tasks; empty without such a file.
    """

    samples: Mapping[str, Path]
    results: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The model's name as the results have it, else that of the folder."""
        name = self.results.get("model_name")
        words = object_of(self.results, "config").get("model_args")
        if not name and isinstance(words, Mapping):
            name = words.get("pretrained") or words.get("model")
        if not name and isinstance(words, str):
            pairs = dict(word.partition("=")[::2] for word in words.split(","))
            name = pairs.get("pretrained") or pairs.get("model")
        folder = next(iter(self.samples.values())).resolve().parent.name
        return str(name) if name else folder.replace("__", "/")


def lm_eval_rows(path: Path) -> Iterator[Row]:
    """Yields a record for each document of each task."""
    try:
        run = _run(path)
    except Wrong as wrong:
        yield 0, wrong
        return
    number = 0
    for task, file in run.samples.items():
        documents, filters, broken = _documents(file), dict[str, str](), False
        for line, row in jsonl(file):
            record = row if isinstance(row, Wrong) else _record(row, task, run, documents, filters)
            if isinstance(record, Wrong):
                broken, is_beside = True, file != path and line
                yield (
                    number or line,
                    Wrong(f"{file.name}:{line}: {record}") if is_beside else record,
                )
            elif record is not None:
                number += 1
                yield (line if file == path else number), record
        effective = object_of(run.results, "n-samples", task).get("effective")
        if isinstance(effective, int) and 0 < len(filters) < effective and not broken:
            problem = (
                f"{file.name}: holds {len(filters):,} of the {effective:,} documents that the "
                "results state; copy it again"
            )
            yield 0, Wrong(problem)


def lm_eval_facts(path: Path) -> LogFacts:
    """Returns the values that the results state, and which end of a metric is better."""
    try:
        run = _run(path)
    except Wrong:
        return LogFacts()  # the rows say what is wrong
    means: dict[tuple[str, str], float] = {}
    directions: dict[tuple[str, str], Direction] = {}
    aggregations: dict[tuple[str, str], str] = {}
    groups = _groups(run)
    for task in (*groups, *run.samples):
        higher = object_of(run.results, "higher_is_better", task)
        aggregation = _aggregations(run, task)
        task_results = object_of(run.results, "results", task)
        group_results = object_of(run.results, "groups", task)
        for name, value in {**task_results, **group_results}.items():
            metric, comma, _ = name.partition(",")
            number = number_of(value)
            if not comma or metric.endswith("_stderr") or number is None:
                continue
            means[task, name] = number
            if isinstance(higher.get(metric), bool):
                directions[task, name] = "higher" if higher[metric] else "lower"
            if metric in aggregation:
                aggregations[task, name] = aggregation[metric]
    return LogFacts(
        means,
        directions,
        model=run.model,
        aggregations=aggregations,
        groups=groups,
        settings=_settings(run),
    )


def _groups(run: _Run) -> dict[str, tuple[str, ...]]:
    """Returns the groups that have results of their own, with the tasks and groups in them."""
    members = object_of(run.results, "group_subtasks")
    names = (group for group in object_of(run.results, "groups") if list_of(members.get(group)))
    return {group: tuple(map(str, members[group])) for group in names}


def _aggregations(run: _Run, task: str) -> dict[str, str]:
    """Returns metric -> how its documents are aggregated, where that is not their mean."""
    config = object_of(run.results, "configs", task)
    named = {
        str(metric.get("metric")): str(metric["aggregation"])
        for metric in map(object_of, list_of(config.get("metric_list")))
        if isinstance(metric.get("aggregation"), str)
    }
    return {metric: how for metric, how in {**_AGGREGATIONS, **named}.items() if how != "mean"}


def _settings(run: _Run) -> dict[str, str]:
    config = object_of(run.results, "config")
    arguments = config.get("model_args")
    if isinstance(arguments, str):
        arguments = dict(word.partition("=")[::2] for word in arguments.split(","))
    arguments = {k: v for k, v in object_of(arguments).items() if k not in ("pretrained", "model")}
    run_settings = ("system_instruction", "chat_template", "fewshot_as_multiturn")
    shots, versions = (object_of(run.results, name) for name in ("n-shot", "versions"))
    return setting_values(
        {
            **{name: config.get(name) for name in _SETTINGS},
            **{name.replace("_", " "): run.results.get(name) for name in run_settings},
            "model arguments": arguments,
            **{f"version of {task}": versions.get(task) for task in run.samples},
            **{f"examples in the prompt of {task}": shots.get(task) for task in run.samples},
        }
    )


def _run(path: Path) -> _Run:
    """Returns the run that a folder holds, or that a file belongs to.

    Raises:
        Wrong: there are no samples, or several runs; or the results are not JSON.
    """
    folder = _folder(path) if path.is_dir() else path.parent
    files = sorted(file for file in folder.iterdir() if file.is_file() and _is_of_run(file.name))
    results = [file for file in files if _is_results(file.name)]
    samples = [file for file in files if file not in results]
    if path in results:
        results = [path]
        samples = [file for file in samples if _date(path) in ("", _date(file))]
    elif path.is_file():
        results = [file for file in results if _date(file) == _date(path)]
        samples = [path]
    runs = {_date(file): file for file in [*samples, *results] if _date(file)}
    if len(runs) > 1 or len(results) > 1:
        several = results if len(results) > 1 else list(runs.values())
        raise Wrong(
            f"holds the results of {len(several)} runs ({listed((f.name for f in several), 3)}); "
            "name one of these files"
        )
    if not samples:
        raise Wrong(
            "there are no samples_*.jsonl of this run next to its results; run lm-eval with "
            "--log_samples"
        )
    return _Run({_task(file): file for file in samples}, _results(results))


def _folder(path: Path) -> Path:
    """Returns the folder with the files of a run: a folder, or the only one in it that has some.

    Raises:
        Wrong: there are several.
    """
    if any(_is_of_run(file.name) for file in path.iterdir() if file.is_file()):
        return path
    folders = sorted(folder for folder in path.iterdir() if folder.is_dir() and _holds_run(folder))
    if len(folders) > 1:
        names = listed((folder.name for folder in folders), 3)
        raise Wrong(
            f"holds the runs of {len(folders)} models ({names}); name these folders one by one"
        )
    return folders[0] if folders else path


def _date(path: Path) -> str:
    date = _DATE.search(path.stem)
    return date[1] if date else ""


def _task(file: Path) -> str:
    name = _SAMPLES.fullmatch(file.name)
    return _DATE.sub("", name[1]) if name else file.stem


def _results(files: list[Path]) -> Mapping[str, Any]:
    if not files:
        return {}
    try:
        return object_of(json_value(files[0]))
    except ValueError as error:
        raise Wrong(f"{files[0].name}: {error}") from None


@dataclass
class _Document:
    """What all lines of a document say of it.

    Attributes:
        scores: score -> its number; None without one.
        lists: score that is a list -> it.
        remarks: on answers that a filter has not found.
    """

    scores: dict[str, float | None]
    lists: dict[str, list[Any]]
    remarks: list[str]


def _documents(file: Path) -> dict[str, _Document]:
    """Returns the documents of a task by their ids."""
    documents: dict[str, _Document] = {}
    for _, record in jsonl(file):
        if isinstance(record, Wrong):
            continue
        names = record.get("metrics")
        metrics = names if isinstance(names, list) else [n for n in record if n not in _KNOWN]
        filter = record.get("filter", _NO_FILTER)
        document = documents.setdefault(str(record.get("doc_id")), _Document({}, {}, []))
        for metric in metrics:
            value, name = record.get(str(metric)), f"{metric},{filter}"
            if isinstance(value, list):
                document.lists.setdefault(name, value)
            elif value is None or isinstance(value, int | float):
                document.scores.setdefault(name, number_of(value))
        if list_of(record.get("filtered_resps"))[:1] == [_NO_ANSWER]:
            document.remarks.append(
                f"have no answer that the filter {filter} finds; they count as they are scored"
            )
    return documents


def _record(
    line: Mapping[str, Any],
    task: str,
    run: _Run,
    documents: Mapping[str, _Document],
    filters: dict[str, str],
) -> dict[str, Any] | Wrong | None:
    """Returns the record of a document; None for a further filter of it.

    Args:
        filters: document -> the filter of its first line.
    """
    document = line.get("doc_id")
    if not isinstance(document, int | str):
        return Wrong(f"expected doc_id, found {shown(document)}; is this a file of samples?")
    item, filter = str(document), str(line.get("filter", _NO_FILTER))
    if item in filters:
        twice = f"doc_id {item} occurs twice under the filter {shown(filter)}; remove one of them"
        return Wrong(twice) if filters[item] == filter else None
    filters[item] = filter
    requests = _requests(line.get("arguments"))
    turns = _turns(requests[0][0] if requests and requests[0] else "")
    target = line.get("target")
    content = line.get("doc_hash") or content_digest((turns["context"], target))
    return {
        **line,  # for --map
        "id": f"{task}/{item}" if len(run.samples) > 1 else item,
        "text": _text(line, requests),
        **turns,
        "references": [] if target in (None, "") else [str(target)],
        "system": run.model,
        "dataset": task,
        LOGGED: logged_field(
            item,
            documents[item].scores,
            str(content),
            lists=documents[item].lists,
            remarks=documents[item].remarks,
        ),
    }


def _requests(arguments: object) -> list[list[Any]]:
    """Returns the arguments of each request: `{"gen_args_0": {"arg_0": …}}`, or lists of older
    versions."""
    if isinstance(arguments, Mapping):
        return [list(object_of(request).values()) for request in arguments.values()]
    return [list_of(request) for request in list_of(arguments)]


def _turns(request: object) -> dict[str, Any]:
    """Returns what was asked: a prompt, or the messages of a chat, which it holds as JSON."""
    if isinstance(request, list) and len(request) == 1:
        request = request[0]
    messages = request
    if isinstance(request, str) and request.lstrip().startswith("[{"):
        with suppress(ValueError):
            messages = parse_json(request)
    if isinstance(messages, list) and all("role" in object_of(m) for m in messages):
        return asked(messages)
    return {"context": [request] if isinstance(request, str) and request else []}


def _text(line: Mapping[str, Any], requests: list[list[Any]]) -> str:
    """Returns the first response; of choices, the continuation that is most likely."""
    responses = list_of(line.get("resps"))
    first = list_of(responses[0]) if responses else []
    if first and isinstance(first[0], str):
        return first[0]
    likely = [_likelihood(response) for response in list_of(line.get("filtered_resps"))]
    if not likely or None in likely or len(likely) != len(requests):
        return ""
    chosen = requests[max(range(len(likely)), key=lambda i: likely[i] or 0.0)]
    return chosen[1] if len(chosen) > 1 and isinstance(chosen[1], str) else ""


def _likelihood(response: object) -> float | None:
    """Returns the log-probability in a pair of it and of whether it is greedy."""
    pair = list_of(response)
    try:
        return finite_number(str(pair[0])) if len(pair) == 2 else None
    except ValueError:
        return None

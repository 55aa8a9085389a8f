"""Runs of lm-evaluation-harness: `results_DATE.json` beside `samples_TASK_DATE.jsonl`.

What is read of a line of samples: `doc_id`, `target`, `arguments`, `resps`, `filtered_resps`,
`filter`, `doc_hash`, and the metrics that `metrics` names; and of the results: `results`,
`higher_is_better`, `model_name` or `config.model_args`. A document has a line for each filter; its
scores are named `METRIC,FILTER`, as in the results.
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
from levelfield.io.formats.text import Row, jsonl
from levelfield.io.json_input import list_of, number_of, object_of, parse_json
from levelfield.io.json_stream import json_value
from levelfield.io.logged import LOGGED, LogFacts, logged_field
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


def is_lm_eval(preview: Preview) -> bool:
    """Whether a folder, or one of its files, is of a run with samples."""
    if preview.is_folder:
        return any(_SAMPLES.fullmatch(name) for name in preview.names) or any(
            name.startswith("results_") and name.endswith(".json") for name in preview.names
        )
    if preview.suffix == ".json":
        is_object = preview.begins == "{" and "results" in preview.record
        return is_object and preview.path.name.startswith("results")
    return {"doc_id", "filtered_resps"} <= preview.record.keys() and "text" not in preview.record


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
        words = object_of(self.results.get("config")).get("model_args")
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
        scores, filters = _scores(file), dict[str, str]()
        for line, row in jsonl(file):
            record = row if isinstance(row, Wrong) else _record(row, task, run, scores, filters)
            if isinstance(record, Wrong):
                is_beside = file != path and line
                yield (
                    number or line,
                    Wrong(f"{file.name}:{line}: {record}") if is_beside else record,
                )
            elif record is not None:
                number += 1
                yield (line if file == path else number), record


def lm_eval_facts(path: Path) -> LogFacts:
    """Returns the means that the results state, and which end of a metric is better."""
    try:
        run = _run(path)
    except Wrong:
        return LogFacts()  # the rows say what is wrong
    means: dict[tuple[str, str], float] = {}
    directions: dict[tuple[str, str], Direction] = {}
    for task in run.samples:
        higher = object_of(object_of(run.results.get("higher_is_better")).get(task))
        for name, value in object_of(object_of(run.results.get("results")).get(task)).items():
            metric, comma, _ = name.partition(",")
            number = number_of(value)
            if not comma or metric.endswith("_stderr") or number is None:
                continue
            means[task, name] = number
            if isinstance(higher.get(metric), bool):
                directions[task, name] = "higher" if higher[metric] else "lower"
    return LogFacts(means, directions)


def _run(path: Path) -> _Run:
    """Returns the run that a folder holds, or that a file belongs to.

    Raises:
        Wrong: there are no samples, or several runs; or the results are not JSON.
    """
    folder = path if path.is_dir() else path.parent
    results = [path] if path.name.startswith("results") else sorted(folder.glob("results_*.json"))
    samples = sorted(folder.glob("samples_*.jsonl"))
    date = _date(path)
    if not date and len(results) == 1:
        date = _date(results[0])
    if path.is_file() and path not in results:
        samples = [path]
        results = [file for file in results if _date(file) == date]
    elif len(results) > 1:
        names = listed((file.name for file in results), 3)
        raise Wrong(f"holds the results of {len(results)} runs ({names}); name one of these files")
    elif date:
        samples = [file for file in samples if _date(file) == date]
    if not samples:
        raise Wrong(
            "there are no samples_*.jsonl of this run next to its results; run lm-eval with "
            "--log_samples"
        )
    return _Run({_task(file): file for file in samples}, _results(results))


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


def _scores(file: Path) -> dict[str, dict[str, float | None]]:
    """Returns document -> its scores under all filters."""
    scores: dict[str, dict[str, float | None]] = {}
    for _, record in jsonl(file):
        if isinstance(record, Wrong):
            continue
        names = record.get("metrics")
        metrics = names if isinstance(names, list) else [n for n in record if n not in _KNOWN]
        of_document = scores.setdefault(str(record.get("doc_id")), {})
        for metric in metrics:
            value = record.get(str(metric))
            name = f"{metric},{record.get('filter', _NO_FILTER)}"
            if value is None or isinstance(value, int | float):
                of_document.setdefault(name, number_of(value))
    return scores


def _record(
    line: Mapping[str, Any],
    task: str,
    run: _Run,
    scores: Mapping[str, Mapping[str, float | None]],
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
        LOGGED: logged_field(item, scores[item], str(content)),
    }


def _requests(arguments: object) -> list[list[Any]]:
    """Returns the arguments of each request: `{"gen_args_0": {"arg_0": …}}`, or lists of older
    versions."""
    if isinstance(arguments, Mapping):
        return [list(object_of(request).values()) for request in arguments.values()]
    return [list_of(request) for request in list_of(arguments)]


def _turns(request: object) -> dict[str, Any]:
    """Returns what was asked: a prompt, or the messages of a chat, which stand in it as JSON."""
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

"""Logs of Inspect: `.eval`, a zip file with a member a sample, and `.json`, the same as a document.

What is read of a sample: `id`, `epoch`, `input`, `target`, `output`, `messages` where there is no
output, `scores`, `metadata`, `attachments`; and of the log: `status`, `eval.task`, `eval.model`,
`eval.config.epochs`, `results.scores`. A sample that is kept in chunks (log version 3) is read from
its `sample.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from levelfield.core.direction import Direction
from levelfield.core.strings import finite_number
from levelfield.io.archive import Archive, ArchiveError
from levelfield.io.formats.chat import asked, message_text
from levelfield.io.formats.preview import Preview
from levelfield.io.formats.text import Row
from levelfield.io.json_input import (
    TooManyValuesError,
    check_values,
    list_of,
    number_of,
    object_of,
)
from levelfield.io.json_stream import JsonStream
from levelfield.io.logged import LOGGED, LogFacts, logged_field
from levelfield.io.problems import Wrong, kind, printable
from levelfield.io.streams import content_digest, open_bytes

_ZIP = b"PK"
_HEADERS = ("header.json", "_journal/start.json", "start.json")
_REDUCERS = (None, "mean")
_MEANS = ("accuracy", "mean")
"""Metrics of Inspect that are means over samples."""

_CHUNKED = re.compile(r"samples/[^/]+/sample\.json")
_REFERENCE = "attachment://"

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_LOWER_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""The values of Inspect that stand for numbers; the second kind in any case."""

Resolve = Callable[[str], str]
"""Text for the name of an attachment."""


def is_inspect(preview: Preview) -> bool:
    """Whether a file is a log of Inspect."""
    if preview.content.startswith(_ZIP):
        return any(name.encode() in preview.content for name in _HEADERS)
    is_object = preview.begins == "{" and {"eval", "status"} <= preview.record.keys()
    return is_object and isinstance(preview.record["eval"], Mapping | None)


def inspect_rows(path: Path) -> Iterator[Row]:
    """Yields a record for each sample and epoch of a log."""
    if Preview(path).content.startswith(_ZIP):
        yield from _zipped_rows(path)
        return
    number, header = 0, dict[str, Any]()
    try:
        with open_bytes(path) as file:
            for name, stream in _members(file, header):
                if name == "samples" and stream.next == "[":
                    for number in stream.items():
                        yield number, _record(stream.value(), header)
    except ValueError as error:
        yield number, _unreadable(error)


def inspect_facts(path: Path) -> LogFacts:
    """Returns the means that a log states, and what its status says."""
    try:
        header = _header_of(path)
    except ValueError:
        return LogFacts()  # the rows say what is wrong
    task = _task(header)
    means: dict[tuple[str, str], float] = {}
    directions: dict[tuple[str, str], Direction] = {}
    for score in map(object_of, list_of(object_of(header.get("results")).get("scores"))):
        key = (task, _score_name(score.get("scorer"), score.get("name")))
        for name, metric in object_of(score.get("metrics")).items():
            kind_of_metric = str(name).rpartition("/")[2]
            value = number_of(object_of(metric).get("value"))
            if kind_of_metric in _MEANS and score.get("reducer") in _REDUCERS and value is not None:
                means[key] = value
            if kind_of_metric == "accuracy":
                directions[key] = "higher"
    status = header.get("status")
    unfinished = f"its status is {status}, so samples may be missing"
    return LogFacts(means, directions, () if status == "success" else (unfinished,))


def _header_of(path: Path) -> dict[str, Any]:
    if Preview(path).content.startswith(_ZIP):
        with Archive(path) as archive:
            return _header(archive)
    header: dict[str, Any] = {}
    with open_bytes(path) as file:
        for _ in _members(file, header):
            if "results" in header:  # they come before the samples
                break
    return header


def _members(file: IO[bytes], header: dict[str, Any]) -> Iterator[tuple[str, JsonStream]]:
    """Yields the names of a log that is one document, and puts what describes it into a header."""
    stream = JsonStream(file)
    for name in stream.members():
        if name in ("status", "eval", "results"):
            header[name] = stream.value()
        else:
            yield name, stream


def _zipped_rows(path: Path) -> Iterator[Row]:
    try:
        with Archive(path) as archive:
            header = _header(archive)
            samples = [i for i, name in enumerate(archive.names) if _is_sample(name)]
            for number, place in enumerate(samples, 1):
                try:
                    sample = _parsed(archive, place)
                    yield number, _record(sample, header, _references(archive, place))
                except ValueError as error:
                    yield number, _unreadable(error)
    except ValueError as error:
        yield 0, _unreadable(error)


def _is_sample(name: str) -> bool:
    is_whole = name.startswith("samples/") and name.endswith(".json") and name.count("/") == 1
    return is_whole or bool(_CHUNKED.fullmatch(name))


def _header(archive: Archive) -> dict[str, Any]:
    name = next((name for name in _HEADERS if name in archive), None)
    if name is None:
        raise ArchiveError(f"a zip file without {_HEADERS[0]}, which a log of Inspect has")
    header = _parsed(archive, name)
    if not isinstance(header, dict):
        raise ArchiveError(f"{name}: expected an object, found {kind(header)}")
    if name == "start.json" and "results.json" in archive:  # logs of 2024
        results = _parsed(archive, "results.json")
        header |= results if isinstance(results, dict) else {}
    return {"status": "started", **header}


def _parsed(archive: Archive, place: int | str) -> Any:
    name = archive.names[place] if isinstance(place, int) else place
    try:
        content = archive.read(place)
        check_values(content)
        return json.loads(content)
    except TooManyValuesError as error:
        raise ArchiveError(f"{name}: {error}") from None
    except RecursionError:
        raise ArchiveError(f"{name}: lists or objects nested too deeply") from None
    except ArchiveError:
        raise
    except ValueError as error:
        raise ArchiveError(f"{name}: not JSON: {error}") from None


def _references(archive: Archive, place: int) -> Resolve | None:
    """Returns how references of a sample in chunks are followed; None for a whole sample."""
    name = archive.names[place]
    if not _CHUNKED.fullmatch(name):
        return None
    prefix = f"{name.removesuffix('sample.json')}attachments/"
    stems = (n.removeprefix(prefix).removesuffix(".json") for n in archive.names if prefix in n)
    starts = sorted(int(stem) for stem in stems if stem.isdecimal())

    def resolve(reference: str) -> str:
        index = int(reference) if reference.isdecimal() else -1
        start = max((s for s in starts if s <= index), default=None)
        if start is None:
            return ""
        chunk = list_of(_parsed(archive, f"{prefix}{start}.json"))
        return str(chunk[index - start]) if index - start < len(chunk) else ""

    return resolve


def _unreadable(error: ValueError) -> Wrong:
    return Wrong(
        f"can't be read as a log of Inspect: {printable(str(error))}; copy it again, or rewrite it "
        "with `inspect log convert`"
    )


def _record(
    sample: Any, header: Mapping[str, Any], references: Resolve | None = None
) -> dict[str, Any] | Wrong:
    if not isinstance(sample, Mapping) or not isinstance(sample.get("id"), str | int):
        return Wrong("expected a sample, which is an object with an id")
    attachments = object_of(sample.get("attachments"))
    follow = references or (lambda reference: str(attachments.get(reference, "")))
    evaluation = object_of(header.get("eval"))
    epochs, epoch = object_of(evaluation.get("config")).get("epochs"), sample.get("epoch", 1)
    several = epochs not in (None, 1) or epoch != 1
    item, turns = str(sample["id"]), _turns(sample.get("input"), follow)
    target = sample.get("target")
    targets = [t for t in ([target] if isinstance(target, str) else list_of(target)) if t]
    return {
        "id": f"{item}/{epoch}" if several else item,
        "text": _text(sample, follow),
        **turns,
        "references": targets,
        "system": str(evaluation.get("model") or ""),
        "dataset": _task(header),
        **({"seed": epoch} if several else {}),
        "metadata": sample.get("metadata") or {},
        LOGGED: logged_field(
            item,
            dict(_values(object_of(sample.get("scores")))),
            content_digest((turns["context"], targets)),
        ),
    }


def _task(header: Mapping[str, Any]) -> str:
    return str(object_of(header.get("eval")).get("task") or "")


def _turns(request: object, follow: Resolve) -> dict[str, Any]:
    """Returns what was asked: a string, or messages."""
    messages = [{"content": request}] if isinstance(request, str) else list_of(request)
    turns = asked([m for m in messages if isinstance(m, Mapping)])
    return {**turns, "context": [_followed(turn, follow) for turn in turns["context"]]}


def _text(sample: Mapping[str, Any], follow: Resolve) -> str:
    output = object_of(sample.get("output"))
    choices = list_of(output.get("choices"))
    turns = map(object_of, list_of(sample.get("messages")))
    if choices:
        content = object_of(object_of(choices[0]).get("message")).get("content")
    elif isinstance(output.get("completion"), str):
        content = output["completion"]
    else:
        answers = [turn.get("content") for turn in turns if turn.get("role") == "assistant"]
        content = answers[-1] if answers else ""
    return _followed(message_text(content), follow)


def _followed(text: str, follow: Resolve) -> str:
    return follow(text.removeprefix(_REFERENCE)) if text.startswith(_REFERENCE) else text


def _values(scores: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Yields the scores of a sample, None for those that aren't numbers; lists are skipped."""
    for scorer, score in scores.items():
        value = object_of(score).get("value")
        if isinstance(value, Mapping):
            yield from ((_score_name(scorer, key), _number(v)) for key, v in value.items())
        elif not isinstance(value, list):
            yield str(scorer), _number(value)


def _score_name(scorer: object, name: object) -> str:
    return str(scorer or name) if name in (None, scorer) else f"{scorer}.{name}"


def _number(value: object) -> float | None:
    """Returns the number of a value, as Inspect's own `value_to_float` has it; None for others.

    >>> _number("C"), _number("P"), _number("no"), _number(True), _number("0.5"), _number("good")
    (1.0, 0.5, 0.0, 1.0, 0.5, None)
    """
    if not isinstance(value, str):
        return number_of(value)
    if value in _WORDS:
        return _WORDS[value]
    if value.lower() in _LOWER_WORDS:
        return _LOWER_WORDS[value.lower()]
    try:
        return finite_number(value)
    except ValueError:
        return None

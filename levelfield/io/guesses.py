"""Guesses of what a table's columns are: `--map` words for the message that asks for them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

from levelfield.io.json_input import object_of

NAMES = ("id", "source", "system", "dataset")
"""Fields that tell samples apart. They may be made of several columns, others in other files."""

ALTERNATIVE = "|"

_WORDS: Mapping[str, str] = {
    "text": "text output out outputs generation gen generated generations candidate cand "
    "prediction predicted predictions pred "
    "hypothesis hyp response completion answer summary translation continuation story rewrite mt",
    "source": "source src input original question document article",
    "references": "references reference refs ref target tgt gold label_text human_reference",
    "prompt": "prompt prefix instruction",
    "context": "context history dialogue dialog",
    "system": "system sys sysname model mdl engine model_name system_name model_id system_id",
    "dataset": "dataset data_set corpus domain task",
    "control.sentiment": "sentiment polarity tone",
    "control.topic": "topic",
    "aspect": "aspect criterion criteria dimension",
    "rater": "rater annotator who worker judge user evaluator coder participant worker_id rater_id",
    "metric": "metric measure scorer",
}
_FIELDS = {word: field for field, words in _WORDS.items() for word in words.split()}
_TEXTS = ("text", "source", "references", "prompt", "context")
_LABELS = frozenset({"label", "labels", "class", "category"})
_RATERS = frozenset(word for word, field in _FIELDS.items() if field == "rater") | {"r", "a"}
_WHOLE_IDS = frozenset({"id", "uid", "uuid", "guid", "sample_id", "example_id", "item_id", "key"})
_PARTS = (
    frozenset({"doc", "doc_id", "document_id", "docid", "set"}),
    frozenset(
        {"seg", "segment", "seg_id", "segment_id", "segid", "sentence_id", "sent_id", "line"}
        | {"item", "idx", "index", "row", "no", "num", "number", "nr", "prompt_id", "topic_id"}
    ),
)
_HUMAN = re.compile(r"human|rating|rated|mos\b|likert|mqm|\bda\b|esa|annot|people|gold_score")
_NOISE = ("text", "texts", "sentence", "sentences", "string", "col", "column", "name")


def field_guesses(record: Mapping[str, Any], fields: Sequence[str] = ("text",)) -> dict[str, str]:
    """Returns our field -> the column that it probably is, without those that bear our name.

    A column of numbers is not a text, and a column with which the text begins is the prompt. If
    no column's name says that it is one of the fields, it is the longest string that is left.
    """
    guesses: dict[str, str] = {}
    for column, value in record.items():
        field = _field(column)
        if field in _TEXTS and _is_number(value):
            continue
        if field and field not in guesses and field not in record:
            guesses[field] = column
    for field in fields:
        if field == "control" and "control" not in record:
            guesses |= _control_guess(record, guesses)
        if field in guesses or field in record or field == "control":
            continue
        used = {*guesses.values(), *id_guess(record).split("+")}
        strings = {c: v for c, v in record.items() if isinstance(v, str) and not _is_number(v)}
        candidates = [c for c in strings if c not in used and _field(c) is None]
        if candidates:
            guesses[field] = max(candidates, key=lambda column: len(strings[column]))
    if guesses.get("source") and "prompt" not in guesses and "prompt" not in record:
        text = record.get("text", record.get(guesses.get("text", "")))
        if _is_prompt(record[guesses["source"]], text):
            guesses["prompt"] = guesses.pop("source")
    return dict(sorted(guesses.items(), key=lambda guess: guess[0] != "text"))


def _control_guess(record: Mapping[str, Any], guesses: Mapping[str, str]) -> dict[str, str]:
    """Returns the column whose name says that it has labels, unless the attribute is known."""
    if any(field.startswith("control.") for field in (*guesses, *record)):
        return {}
    for column in record:
        if column not in guesses.values() and _LABELS & {*_plain(column).split("_")}:
            return {"control.sentiment": column}
    return {}


def _is_prompt(value: object, text: object) -> bool:
    """Returns whether a text begins with a value and goes on after it."""
    values = (value, text)
    return (
        all(isinstance(v, str) for v in values)
        and str(text).startswith(str(value))
        and bool(value)
        and value != text
    )


def id_guess(record: Collection[str]) -> str:
    """Returns the column or columns, joined by `+`, that probably name a sample; empty if none."""
    whole = [column for column in record if _plain(column) in _WHOLE_IDS]
    if whole:
        return whole[0]
    system = [column for column in record if _field(column) == "system"]
    parts = [[c for c in record if _plain(c) in words][:1] for words in _PARTS]
    rest = [column for part in parts for column in part]
    return "+".join([*system[:1], *rest]) if rest else ""


def source_guess(record: Collection[str]) -> dict[str, str]:
    """Returns what is left of the columns of an id without the system: texts that share it compare
    like with like."""
    first, *rest = id_guess(record).split("+")
    return {"source": "+".join(rest)} if rest and _field(first) == "system" else {}


def number_guesses(record: Mapping[str, Any], *, human: bool) -> list[str]:
    """Returns the columns of numbers other than ids: people's if some names say so, or others."""
    ids = {*id_guess(record).split("+"), *(c for c in record if _is_id(c))}
    numeric = [c for c, v in record.items() if c not in ids and _is_number(v)]
    human_columns = [column for column in numeric if _HUMAN.search(_plain(column))]
    if human:
        return human_columns or numeric
    return [column for column in numeric if column not in human_columns] or numeric


def map_words(mapping: Mapping[str, str]) -> str:
    """Returns the mapping as a user writes it: `--map text=output --map system=model`."""
    words = [f"{o}={t}" for o, column in mapping.items() for t in alternatives(o, column)]
    return " ".join(f"--map {shlex.quote(word)}" for word in words)


_MAP_WORDS = re.compile(r"--map (?:'[^']*'|[^\s;']+)(?: --map (?:'[^']*'|[^\s;']+))*")


def map_words_in_toml(problem: str) -> str:
    """Returns the problem with `--map` words as TOML has them: `map = { text = "output" }`."""

    def table(words: re.Match[str]) -> str:
        pairs = (word.partition("=") for word in shlex.split(words[0]) if word != "--map")
        quoted = partial(json.dumps, ensure_ascii=False)
        entries = (f"{quoted(o) if '.' in o else o} = {quoted(t)}" for o, _, t in pairs)
        return f"map = {{ {', '.join(entries)} }}"

    return _MAP_WORDS.sub(table, problem)


def alternatives(field: str, columns: str) -> list[str]:
    """Returns the columns that a field has in one file or another: `model+line|system+segment`."""
    return columns.split(ALTERNATIVE) if field in NAMES else [columns]


def id_mapping(record: Mapping[str, Any], mapping: Mapping[str, str] = {}) -> dict[str, str]:
    """Returns the guess of the id as a mapping; none where a column is `id`.

    Args:
        mapping: names the ids of other files, which stay.
    """
    if "id" in record:
        return {}
    guess = id_guess(record) or "COLUMN"
    return {"id": f"{mapping['id']}{ALTERNATIVE}{guess}" if "id" in mapping else guess}


def wanted_mapping(record: Mapping[str, Any], fields: Sequence[str]) -> dict[str, str]:
    """Returns the guess of each field; `COLUMN` where no column's name says so."""
    guesses = field_guesses(record, [field for field in fields if field == "control"])
    entry = {"control": next((f for f in guesses if f.startswith("control.")), "control.sentiment")}
    return {
        entry.get(field, field): guesses.get(entry.get(field, field), "COLUMN") for field in fields
    }


def several_columns(record: Mapping[str, Any], mapping: Mapping[str, str]) -> str:
    """Returns the mend of an id that is there twice, if several columns seem to make one."""
    several = id_guess(record)
    system = next((column for column in record if _field(column) == "system"), None)
    if "+" not in several and system is not None:
        several = f"{system}+{mapping.get('id', 'id')}"
    if "+" not in several or several == mapping.get("id"):
        return ""
    return f", or combine several columns into the id, for example {map_words({'id': several})}"


def numbers_mapping(record: Mapping[str, Any], entry: str) -> dict[str, str]:
    """Returns `ENTRY.NAME` -> column for the columns of numbers; entry is `ratings` or `metric`.

    Columns such as `rater1` and `rater2` are raters of one aspect. Numbers one object further in
    have dotted paths.
    """
    inside = {
        f"{column}.{name}": value
        for column, values in record.items()
        if isinstance(values, Mapping)
        for name, value in values.items()
    }
    columns = number_guesses({**record, **inside}, human=entry == "ratings")[:4]
    stems = {_plain(column).rstrip("0123456789_") for column in columns}
    if entry == "ratings" and len(columns) > 1 and stems and stems <= _RATERS:
        return {f"ratings.quality.{_name(column)}": column for column in columns}
    return {f"{entry}.{_name(column)}": column for column in columns}


def scores_mapping(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns the guess of the columns of metrics, or of one value a row where one names it.

    The scores of a log are its columns.
    """
    if scores := object_of(record, "logged", "scores"):
        return {f"metric.{_name(score)}": f"logged.scores.{score}" for score in scores}
    metric_columns = numbers_mapping(record, "metric")
    named = next((column for column in record if _field(column) == "metric"), None)
    if named is None or len(metric_columns) != 1:
        return metric_columns
    words = {"metric": named, "score": next(iter(metric_columns.values()))}
    return {field: column for field, column in words.items() if field != column}


def rater_guess(record: Mapping[str, Any]) -> str:
    """Returns the column that probably says who rated; empty if none."""
    return next((column for column in record if _field(column) == "rater"), "")


def _name(column: str) -> str:
    """Returns a name for what a column holds."""
    return re.sub(r"[^0-9A-Za-z_-]+", "-", column.rpartition(".")[2] or column).lower()


def _field(column: str) -> str | None:
    """Returns the field that a column's name is a word for: the whole name, else a part of it."""
    plain = _plain(column)
    tokens = [token for token in plain.split("_") if token not in _NOISE]
    if _is_id(column):
        return _FIELDS.get(plain)
    return next((_FIELDS[word] for word in (plain, *reversed(tokens)) if word in _FIELDS), None)


def _is_id(column: str) -> bool:
    plain = _plain(column)
    return plain in _WHOLE_IDS or any(plain in words for words in _PARTS) or plain.endswith("_id")


def _plain(column: str) -> str:
    """`Model Output` -> `model_output`, `modelOutput` -> `model_output`."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column)
    return re.sub(r"[^0-9a-z]+", "_", snake.lower()).strip("_")


def _is_number(value: object) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return True
    try:
        return isinstance(value, str) and bool(value) and float(value) is not None
    except ValueError:
        return False

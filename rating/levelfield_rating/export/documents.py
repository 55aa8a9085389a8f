"""The files of an export."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from levelfield.core.errors import UserError
from levelfield.core.options import keywords
from levelfield.core.strings import natural
from levelfield.io import atomic_writer
from levelfield.io.problems import printable
from levelfield.io.tables import csv_text
from levelfield.io.writing import temporary_folder
from levelfield_rating.answers import NEITHER
from levelfield_rating.model import Frozen
from levelfield_rating.results.negatives import negative_of
from levelfield_rating.results.raters import counted, rating_status
from levelfield_rating.results.ratings import answers_of, plain_number, records, sample_ratings
from levelfield_rating.settings import ExportOptions
from levelfield_rating.store import RatingStore
from levelfield_rating.store.records import LogRow, RaterState


@keywords(ExportOptions)
def export(
    store: RatingStore,
    folder: str | os.PathLike[str],
    chosen: ExportOptions | None = None,
    **words: Any,
) -> list[Path]:
    """Writes all files into a folder, each whole or not at all; those there are replaced.

    Args:
        words: options by name, as in `ExportOptions`.

    Raises:
        UserError: it can't be written.
    """
    excluded = ExportOptions.of(chosen, **words).excluded
    place = Path(folder)
    try:
        place.mkdir(0o700, parents=True, exist_ok=True)
    except OSError as error:
        name = printable(os.fspath(folder))
        raise UserError(f"{name}: no folder can be made there: {error.strerror}") from error
    written = []
    for name, text in documents(store, excluded=excluded).items():
        with atomic_writer(place / name, private=True) as file:
            file.write(text)
        written.append(place / name)
    return written


def documents(store: RatingStore, *, excluded: bool = False) -> dict[str, str]:
    """Returns file name -> content, all as of one moment; docs/rating.md describes the files."""
    with temporary_folder() as folder:
        copy = folder / "moment.sqlite"
        store.backup(copy)
        with contextlib.closing(RatingStore.open(copy, read_only=True)) as still:
            return _documents(still, excluded=excluded)


def _documents(store: RatingStore, *, excluded: bool) -> dict[str, str]:
    frozen = store.frozen
    states = counted(store, excluded=excluded)
    files = {
        "ratings.jsonl": _lines(records(frozen, sample_ratings(frozen, states))),
        "ratings.csv": csv_text(_rating_rows(frozen, states)),
        "controls.jsonl": _lines(_controls(frozen, states)),
        "comments.jsonl": _lines(_comments(frozen, states)),
        "events.jsonl": _lines(_event(frozen, row) for row in store.log()),
        "raters.csv": csv_text(_rater_rows(store)),
        "study.json": frozen.document() + "\n",
        "codebook.md": codebook(store, excluded=excluded),
    }
    if frozen.design != "direct":
        name = "pairs.jsonl" if frozen.design == "pairwise" else "rankings.jsonl"
        files[name] = _lines(_compared(frozen, states))
    return dict(sorted(files.items()))


def archive(store: RatingStore, *, excluded: bool = False) -> bytes:
    """Returns all files as one ZIP."""
    content = io.BytesIO()
    name = f"{store.frozen.id}-v{store.frozen.version}"
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as whole:
        for file, text in documents(store, excluded=excluded).items():
            whole.writestr(f"{name}/{file}", text.encode("utf-8", "backslashreplace"))
    return content.getvalue()


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _rating_rows(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[Sequence[object]]:
    record_of = {record["id"]: record for record in records(frozen, ())}
    yield ["id", "aspect", "rater", "value", "survey", "system", "source", "text", "study_digest"]
    for id, aspect, rater, value in sample_ratings(frozen, states):
        record = record_of[id]
        yield (
            *(id, aspect, rater, plain_number(value), record["survey"]),
            *(record.get("system", ""), record.get("source", ""), record["text"], frozen.digest),
        )


def _rater_rows(store: RatingStore) -> Iterator[Sequence[object]]:
    """Yields one row per rater: their progress, and how they used each scale."""
    names = [c.id for c in store.frozen.criteria]
    yield (
        *("rater", "survey", "slot", "state", "done", "items", "failed", "excluded", "code"),
        *(f"{name} {statistic}" for name in names for statistic in ("n", "mean", "sd", "same")),
    )
    for rater in sorted(rating_status(store).raters, key=lambda r: natural(r.state.rater)):
        state, failed = rater.state, rater.verdict.failed
        used = (rater.scales[name] for name in names)
        yield (
            *(state.rater, rater.survey, state.slot + 1, state.phase),
            *(rater.progress.done, rater.progress.items),
            *("" if failed is None else failed, rater.excluded, state.completion_code),
            *(
                "" if math.isnan(value) else value
                for use in used
                for value in (use.n, use.mean, use.sd, use.same)
            ),
        )


def _controls(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[dict[str, Any]]:
    for state in states:
        for item, criterion, answer in answers_of(frozen, state, controls=True):
            yield {
                "study_digest": frozen.digest,
                "item": item.key,
                "kind": item.control,
                "survey": item.survey,
                "rater": state.rater,
                "aspect": criterion.id,
                "answer": answer,
                "negative": negative_of(item),
                "texts": [candidate.part.text for candidate in item.candidates],
                "samples": [list(candidate.samples) for candidate in item.candidates],
            }


def _compared(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[dict[str, Any]]:
    for state in states:
        orders = {placed.item: placed.order for placed in frozen.placed(state.slot)}
        for item, criterion, answer in answers_of(frozen, state):
            row: dict[str, Any] = {
                "study_digest": frozen.digest,
                "item": item.key,
                "survey": item.survey,
                "rater": state.rater,
                "aspect": criterion.id,
                "samples": [list(candidate.samples) for candidate in item.candidates],
            }
            if isinstance(answer, tuple):
                row |= {"ranks": list(answer), "shown": list(orders[item.key])}
            else:
                better = None if answer == NEITHER else item.candidates[answer].samples
                row |= {
                    "better": answer,
                    "better_samples": list(better) if better is not None else [],
                    "shown_first": orders[item.key][0],
                }
            yield row


def _comments(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[dict[str, Any]]:
    for state in states:
        for key in sorted({*state.comments, *state.problems}):
            item = frozen.items[key]
            yield {
                "study_digest": frozen.digest,
                "item": key,
                "control": item.control,
                "survey": item.survey,
                "rater": state.rater,
                "comment": state.comments.get(key, ""),
                "problem": key in state.problems,
                "samples": [list(candidate.samples) for candidate in item.candidates],
                "texts": [candidate.part.text for candidate in item.candidates],
            }


def _event(frozen: Frozen, row: LogRow) -> dict[str, Any]:
    fields = {**dataclasses.asdict(row), "at": row.at.isoformat()}
    return {"study_digest": frozen.digest, **fields}


def codebook(store: RatingStore, *, excluded: bool = False) -> str:
    """Returns what the files hold, who rated, who was left out and why; Markdown."""
    templates = Environment(
        loader=PackageLoader("levelfield_rating.export", ""),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters["plain"] = _plain
    frozen = store.frozen
    controls = sum(bool(item.control) for item in frozen.items.values())
    return templates.get_template("codebook.md").render(
        study=frozen,
        surveys=len({slot.survey for slot in frozen.slots}),
        items=len(frozen.items) - controls,
        controls=controls,
        raters=rating_status(store).raters,
        excluded=excluded,
    )


def _plain(text: object) -> str:
    """Returns the text as a line of Markdown shows it: no markup, no HTML, no cells."""
    return _SPECIAL.sub(r"\\\1", html.escape(" ".join(str(text).split()), quote=False))


_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")

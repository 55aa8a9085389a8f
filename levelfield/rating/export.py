"""What leaves the store: ratings for `levelfield correlate` and `agreement`, and all that explains
them."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.io import atomic_writer
from levelfield.io.problems import printable
from levelfield.rating.answers import NEITHER
from levelfield.rating.model import Frozen
from levelfield.rating.results import (
    answers_of,
    counted,
    natural,
    negative_of,
    progress,
    records,
    sample_ratings,
    spreads,
    surveys_of,
    verdict,
)
from levelfield.rating.store import Store
from levelfield.rating.store.records import LogRow, RaterState

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet may take a cell for a formula by."""

_SCALES = {
    "slider": "whole numbers from 1 (left end) to 100 (right end), no numbers shown",
    "likert": "whole numbers from 1 (left end) to {points}",
    "pairwise": "1 for the better text of a pair, 0 for the other, 0.5 for neither; the mean over "
    "the pairs that a rater saw the sample in",
    "ranking": "the share of the other texts that it was put before, ties counting one half: "
    "(number of texts − rank) / (number of texts − 1) where nothing ties",
}


def export(store: Store, folder: str | os.PathLike[str], *, excluded: bool = False) -> list[Path]:
    """Writes all files into a folder, each whole or not at all; those there are replaced.

    Args:
        excluded: also the ratings of raters who were excluded or replaced.

    Raises:
        UserError: it can't be written.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        name = printable(os.fspath(folder))
        raise UserError(f"{name}: no folder can be made there: {error.strerror}") from error
    written = []
    for name, text in documents(store, excluded=excluded).items():
        with atomic_writer(place / name) as file:
            file.write(text)
        written.append(place / name)
    return written


def documents(store: Store, *, excluded: bool = False) -> dict[str, str]:
    """Name of a file -> what is in it, all of one moment; see docs/rating.md for what they hold."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "moment.sqlite"
        store.backup(copy)
        with contextlib.closing(Store.open(copy, read_only=True)) as still:
            return _documents(still, excluded=excluded)


def _documents(store: Store, *, excluded: bool) -> dict[str, str]:
    frozen = store.frozen
    states = counted(store, excluded=excluded)
    files = {
        "ratings.jsonl": _lines(records(frozen, sample_ratings(frozen, states))),
        "ratings.csv": table(_rating_rows(frozen, states)),
        "controls.jsonl": _lines(_controls(frozen, states)),
        "comments.jsonl": _lines(_comments(frozen, states)),
        "events.jsonl": _lines(_event(frozen, row) for row in store.log()),
        "raters.csv": table(rater_rows(store)),
        "study.json": frozen.document() + "\n",
        "codebook.md": codebook(store, excluded=excluded),
    }
    if frozen.design == "pairwise":
        files["pairs.jsonl"] = _lines(_compared(frozen, states))
    if frozen.design == "ranking":
        files["rankings.jsonl"] = _lines(_compared(frozen, states))
    return dict(sorted(files.items()))


def archive(store: Store, *, excluded: bool = False) -> bytes:
    """All files as one ZIP."""
    made = io.BytesIO()
    name = f"{store.frozen.id}-v{store.frozen.version}"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as whole:
        for file, text in documents(store, excluded=excluded).items():
            whole.writestr(f"{name}/{file}", text.encode("utf-8", "backslashreplace"))
    return made.getvalue()


def table(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV that no spreadsheet takes for formulas: see `safe_cell`."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\r\n")
    for row in rows:
        writer.writerow([safe_cell(cell) for cell in row])
    return made.getvalue()


def safe_cell(cell: object) -> object:
    """The cell, with an apostrophe before text that a spreadsheet would calculate.

    >>> safe_cell("=1+1"), safe_cell(-1), safe_cell("1+1")
    ("'=1+1", -1, '1+1')
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def codebook(store: Store, *, excluded: bool = False) -> str:
    """What the files hold, who rated, who was left out and why; Markdown."""
    frozen = store.frozen
    out = [
        f"# {_plain(frozen.title)}: codebook",
        "",
        f"- study: `{frozen.id}`, version {frozen.version}",
        f"- study digest (sha256): `{frozen.digest}`",
        f"- study file and samples (sha256): `{frozen.source_digest or 'unknown'}`",
        f"- design: {frozen.design}; "
        f"{len({slot.survey for slot in frozen.slots})} surveys, {len(frozen.slots)} slots, "
        f"{sum(not item.control for item in frozen.items.values())} items, "
        f"{sum(bool(item.control) for item in frozen.items.values())} with a negative sample",
        f"- seed: {frozen.seed}",
        f"- raters left out: {'only those who withdrew' if excluded else 'see below'}",
        "",
        "## Criteria",
        "",
        *_markdown(
            ["aspect", "title", "statement", "scale", "left end", "right end", "values"],
            [
                [
                    *(c.id, c.title, c.statement, c.scale, c.low, c.high),
                    _SCALES[c.scale].format(points=c.points)
                    + (f": {', '.join(c.labels)}" if c.labels else ""),
                ]
                for c in frozen.criteria
            ],
        ),
        "",
        "## Raters",
        "",
        *_markdown(
            ["rater", "survey", "state", "items done", "negative samples", "left out because"],
            _raters(store),
        ),
        "",
        f"Rule of the negative samples: {_RULES[frozen.fail_rule]}",
        "",
        "## Files",
        "",
        *(f"- `{name}`: {what}" for name, what in _files(frozen)),
        "",
    ]
    return "\n".join(out)


_RULES = {
    "none": "none.",
    "not-lowest": "a rater fails whose negative sample is not rated below the median of the "
    "survey's real texts on the first criterion. Who fails is left out only if the organiser says "
    "so.",
}


def _files(frozen: Frozen) -> Iterator[tuple[str, str]]:
    yield (
        "ratings.jsonl",
        "the samples with their own fields, `survey`, `study_digest`, and `ratings`: aspect → "
        "rater → value. Texts that were equal were shown once; each of their samples has the "
        "ratings. Negative samples are not among them. Read by `levelfield correlate` and "
        "`levelfield agreement`",
    )
    yield (
        "ratings.csv",
        "the same, one rating a row, for spreadsheets. Text that begins with = + - @, a tab or a "
        "line break has an apostrophe before it",
    )
    yield (
        "raters.csv",
        "one row a rater: how far they are, completion code, and for each criterion number, mean "
        "and standard deviation of their answers, and the share of the most frequent one",
    )
    yield "controls.jsonl", "answers about negative samples, and the texts that were shown"
    yield "comments.jsonl", "comments, and texts that raters said have a problem"
    if frozen.design == "pairwise":
        yield (
            "pairs.jsonl",
            "every choice: samples of both texts, which is better (0 or 1; −1 neither), which was "
            "shown first",
        )
    if frozen.design == "ranking":
        yield "rankings.jsonl", "every ranking: samples of all texts, ranks (1 best), order shown"
    yield (
        "events.jsonl",
        "everything that happened, in the order of the server. `at` is the server's time (UTC), "
        "`client_ms` what the page said of time on the item, which nobody checks. What a rater "
        "said who withdrew is null. Earlier answers are there too: the current one has the "
        "largest clock",
    )
    yield "study.json", "the study as it was rated; its sha256, without the line break, is above"


def _raters(store: Store) -> list[list[str]]:
    frozen, left_out = store.frozen, store.excluded()
    rows = []
    for state in store.raters():
        far, judged = progress(frozen, state), verdict(frozen, state)
        failed = {True: "failed", False: "passed", None: judged.why}[judged.failed]
        why = left_out.get(state.rater, "")
        if state.phase == "withdrawn":
            why, failed = "withdrawn; answers are deleted", ""
        rows.append(
            [
                state.rater,
                str(survey_of(frozen, state) or ""),
                state.phase,
                f"{far.done} of {far.items}",
                failed,
                why,
            ]
        )
    return rows


def survey_of(frozen: Frozen, state: RaterState) -> int | None:
    """The survey of a rater; None if the study has fewer slots now."""
    return frozen.slots[state.slot].survey if state.slot < len(frozen.slots) else None


def _markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"


def _plain(text: str) -> str:
    """Text as such in a line of Markdown: no markup of its own, no HTML, no cells."""
    line = " ".join(text.split())
    escaped = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*_[]|#~":
        escaped = escaped.replace(sign, "\\" + sign)
    return escaped


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _rating_rows(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[Sequence[object]]:
    of_sample = {record["id"]: record for record in records(frozen, ())}
    survey = surveys_of(frozen)
    yield ["id", "aspect", "rater", "value", "survey", "system", "source", "text", "study_digest"]
    for id, aspect, rater, value in sample_ratings(frozen, states):
        record = of_sample[id]
        yield (
            id,
            aspect,
            rater,
            int(value) if value == int(value) else value,
            survey[id],
            record.get("system", ""),
            record.get("source", ""),
            record["text"],
            frozen.digest,
        )


def _controls(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[dict[str, Any]]:
    for state in states:
        for item, criterion, answer in answers_of(frozen, state):
            if not item.control:
                continue
            at = negative_of(item)
            yield {
                "study_digest": frozen.digest,
                "item": item.key,
                "kind": item.control,
                "survey": item.survey,
                "rater": state.rater,
                "aspect": criterion.id,
                "answer": answer,
                "negative": at,
                "texts": [candidate.part.text for candidate in item.candidates],
                "samples": [list(candidate.samples) for candidate in item.candidates],
            }


def _compared(frozen: Frozen, states: Sequence[RaterState]) -> Iterator[dict[str, Any]]:
    for state in states:
        there = state.slot < len(frozen.slots)
        orders = {p.item: p.order for p in frozen.slots[state.slot].items} if there else {}
        for item, criterion, answer in answers_of(frozen, state):
            if item.control:
                continue
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
    made = {**dataclasses.asdict(row), "at": row.at.isoformat()}
    return {"study_digest": frozen.digest, **made}


def rater_rows(store: Store) -> Iterator[Sequence[object]]:
    """A row a rater, for spreadsheets: how far they are, how they used each scale."""
    frozen, left_out = store.frozen, store.excluded()
    names = [c.id for c in frozen.criteria]
    yield (
        *("rater", "survey", "slot", "state", "done", "items", "failed", "excluded", "code"),
        *(f"{name} {what}" for name in names for what in ("n", "mean", "sd", "same")),
    )
    for state in sorted(store.raters(), key=lambda s: natural(s.rater)):
        far, used = progress(frozen, state), spreads(frozen, state)
        judged = verdict(frozen, state)
        yield (
            state.rater,
            survey_of(frozen, state),
            state.slot + 1,
            state.phase,
            far.done,
            far.items,
            "" if judged.failed is None else judged.failed,
            left_out.get(state.rater, ""),
            state.completion_code,
            *(
                "" if isinstance(value, float) and math.isnan(value) else value
                for name in names
                for value in (used[name].n, used[name].mean, used[name].sd, used[name].same)
            ),
        )

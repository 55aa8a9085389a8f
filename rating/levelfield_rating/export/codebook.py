"""The codebook of an export: what the files hold, who rated, who was left out and why."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence

from levelfield_rating.export.tables import survey_of
from levelfield_rating.model import Frozen
from levelfield_rating.results.negatives import verdict
from levelfield_rating.results.raters import progress
from levelfield_rating.store import RatingStore

_SCALES = {
    "slider": "whole numbers from 1 (left end) to 100 (right end), no numbers shown",
    "likert": "whole numbers from 1 (left end) to {points}",
    "pairwise": "1 for the better text of a pair, 0 for the other, 0.5 for neither; the mean over "
    "the pairs that a rater saw the sample in",
    "ranking": "the share of the other texts that it was put before, ties counting one half: "
    "(number of texts − rank) / (number of texts − 1) where nothing ties",
}


def codebook(store: RatingStore, *, excluded: bool = False) -> str:
    """Returns what the files hold, who rated, who was left out and why; Markdown."""
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
        *(f"- `{name}`: {description}" for name, description in _files(frozen)),
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


def _raters(store: RatingStore) -> list[list[str]]:
    frozen, left_out = store.frozen, store.excluded()
    rows = []
    for state in store.raters():
        far, judged = progress(frozen, state), verdict(frozen, state)
        failed = {True: "failed", False: "passed", None: judged.why}[judged.failed]
        reason = left_out.get(state.rater, "")
        if state.phase == "withdrawn":
            reason, failed = "withdrawn; answers are deleted", ""
        rows.append(
            [
                state.rater,
                str(survey_of(frozen, state) or ""),
                state.phase,
                f"{far.done} of {far.items}",
                failed,
                reason,
            ]
        )
    return rows


def _markdown(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heading)} |"
    yield f"|{'---|' * len(heading)}"
    for row in rows:
        yield f"| {' | '.join(map(_plain, row))} |"


def _plain(text: str) -> str:
    """Returns the text as a line of Markdown shows it: no markup, no HTML, no cells."""
    return _SPECIAL.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


_SPECIAL = re.compile(r"([\\`*_\[\]|#~])")

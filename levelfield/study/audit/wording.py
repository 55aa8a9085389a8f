"""What stands in the texts that no judge should have to read."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import NamedTuple

from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Finding,
    Limits,
    common,
    counted,
    grouped,
    percent,
    share_found,
    shown,
)
from levelfield.study.audit.texts import Text, in_mid_sentence, runs_of, words_of


class _Leftover(NamedTuple):
    """What to look for; `has` are strings one of which every match holds, for speed."""

    kind: str
    has: tuple[str, ...]
    pattern: re.Pattern[str]


_LEFTOVERS = (
    _Leftover(
        "special tokens",
        ("<", "["),
        re.compile(
            r"<\|[^<>|\s]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:pad|unk|mask|bos|eos)>"
            r"|\[(?:PAD|UNK|MASK|CLS|SEP)\]|<extra_id_\d+>|<(?:start|end)_of_turn>"
        ),
    ),
    _Leftover(
        "headings of an instruction",
        ("##",),
        re.compile(r"#{2,}\s*(?:Instruction|Response|Input|Output|Human|User|Assistant)\b"),
    ),
    _Leftover(
        "talk about the task",
        (" AI ", " AI,", "I can", "I'm ", "I’m "),
        re.compile(
            r"\b[Aa]s an AI\b|\bI(?:'m|’m| am) (?:just )?an AI\b|\bAI language model\b"
            r"|\bI(?: can(?:no|'|’)t|(?:'|’)m (?:sorry|unable)).{0,30}"
            r"\b(?:fulfil|comply|assist|request)"
        ),
    ),
    _Leftover(
        "talk about the task",
        ("Sure", "Certainly", "Of course", "Here"),
        re.compile(
            r"\A\W*(?:(?:Sure|Certainly|Of course)[,!.]\s+(?:[Hh]ere|I)\b"
            r"|Here(?:(?:'|’)s| is) (?:a|an|the|your|my)\b[^.\n]{0,80}:)"
        ),
    ),
    _Leftover(
        "talk about the task",
        (" can't ", " cannot ", " unable ", " not able ", " can’t "),
        re.compile(
            r"\bI(?:'m|’m| am)? (?:can(?:no|'|’)t|unable to|not able to) (?:fulfill?|comply|assist"
            r"|provide|generate|create|write|produce|continue) (?:that|this|such|your|a|any|with)\b"
        ),
    ),
    _Leftover(
        "Markdown",
        ("**", "```", "#", "]("),
        re.compile(r"\*\*[^*\n]{1,80}\*\*|```|^#{1,6} \w|\[[^\]\n]{1,80}\]\(https?:", re.MULTILINE),
    ),
    _Leftover(
        "error messages",
        ("Traceback", "Error", "memory", "rate limit"),
        re.compile(
            r"Traceback \(most recent call last\)|\b[A-Z]\w+Error: |out of memory\. Tried"
            r"|rate limit exceeded",
            re.IGNORECASE,
        ),
    ),
    _Leftover("characters that could not be decoded", ("\ufffd",), re.compile("\ufffd")),
)
_NO_TEXT = frozenset(("nan", "none", "null", "n/a", "<na>", "[removed]", "[deleted]"))
_ROLES = "User|Assistant|System|Human"
_SHINGLE = 6


def empty_text(study: AuditedStudy) -> list[Finding]:
    """Texts with nothing in them, or nothing after their prompt.

    Serious from 5 % on, a warning from 1 % on, a note from the first one: every measure has to do
    something about it.
    """
    findings = []
    for cells in study.systems.values():
        texts = study.of_system(cells)
        hits = [text for text in texts if not text.written]
        what = "are empty or end with their prompt"
        findings += share_found("empty-text", Limits(0.05, 0.01, 0), what, hits, texts)
    return findings


def cut_text(study: AuditedStudy) -> list[Finding]:
    """Systems most of whose texts end in mid-sentence: their budget of tokens cut them off.

    An end is in mid-sentence if it is a letter of a script that has cases, a digit, a comma or a
    dash. A note, one for each kind of control. Silent where at most half of the texts are cut.
    """
    findings = []
    for control, cells in study.controls.items():
        cut: dict[str, Sequence[Text]] = {}
        of = 0
        for system, own in grouped(cells, lambda cell: cell.key.system).items():
            texts = [text for text in study.of_system(own) if text.written]
            hits = [text for text in texts if in_mid_sentence(text.written)]
            if 2 * len(hits) > len(texts):
                cut[f"{system} {percent(len(hits), len(texts))}"] = hits
                of += len(texts)
        if cut:
            hits = [text for own in cut.values() for text in own]
            what = f"most texts end in mid-sentence: {', '.join(cut)}"
            system = hits[0].key.system if len(cut) == 1 else ""
            where = (system, "", control, None)
            findings.append(Finding("cut-text", "note", *where, what, len(hits), of))
    return findings


def leftover_markup(study: AuditedStudy) -> list[Finding]:
    """Texts with what post-processing should have taken away.

    Role markers (`User:`, the system's own name with a colon), special tokens, headings of an
    instruction, talk about the task (`As an AI …`), Markdown, error messages, `nan` and its like,
    undecodable characters, and 6 words in a row of the instruction, where `extra["input"]` tells
    it. Serious from 5 % of the texts on; silent below 2 %, since texts like those of the web hold
    such things by themselves.
    """
    findings = []
    for (system, _), cells in study.systems.items():
        texts = study.of_system(cells)
        counts: Counter[str] = Counter()
        hits = []
        for text in texts:
            kinds = set(_leftovers(text, system))
            counts.update(kinds)
            if kinds:
                hits.append(text)
        what = f"hold what is no text: {counted(counts)}"
        findings += share_found("leftover-markup", Limits(0.05, 0.02), what, hits, texts)
    return findings


def _leftovers(text: Text, system: str) -> Iterator[str]:
    written = text.written
    if written.casefold() in _NO_TEXT:
        yield "names of a missing value"
    for kind, has, pattern in _LEFTOVERS:
        if any(part in written for part in has) and pattern.search(written):
            yield kind
    if ":" in written and _roles(system).search(written):
        yield "role markers"
    instruction = str(text.sample.extra.get("input", "")).replace(text.sample.prompt, "\0")
    if len(instruction.split()) >= _SHINGLE and (
        _shingles(instruction) & runs_of(text.words, _SHINGLE)
    ):
        yield "words of the instruction"


@functools.lru_cache(maxsize=64)
def _roles(system: str) -> re.Pattern[str]:
    """Markers of turns, at the start of a line or directly after a sentence."""
    name = re.match(r"[A-Za-z]{4,}", system)
    roles = f"{_ROLES}|{name[0].capitalize()}" if name else _ROLES
    return re.compile(rf"(?:^|[\n.!?\"”)\]]\s*)(?:{roles})\s?:", re.MULTILINE)


@functools.lru_cache(maxsize=4096)
def _shingles(instruction: str) -> frozenset[tuple[str, ...]]:
    parts = map(words_of, instruction.split("\0"))
    return frozenset(run for part in parts for run in runs_of(part, _SHINGLE))


def repetition(study: AuditedStudy) -> list[Finding]:
    """Systems whose texts repeat themselves: share of 4-grams of words that came before in a text.

    Mean over what was written after the prompt, texts with fewer than 4 words left out. Fluent
    texts have 0.00 to 0.02; a warning from 0.05 on, serious from 0.2 on.
    """
    findings = []
    limits = Limits(0.2, 0.05)
    for (system, control), cells in study.systems.items():
        texts = study.of_system(cells)
        shares = [(s, t) for t in texts if (s := repeated(t.written)) is not None]
        mean = fmean(s for s, _ in shares) if shares else 0.0
        severity = limits.severity(mean)
        if severity:
            above = sorted(
                ((s, t) for s, t in shares if s >= limits.warning), key=lambda pair: -pair[0]
            )
            dataset, seed = common([t for _, t in above], texts)
            what = (
                f"{percent(mean, 1)} of the 4-grams in a text are repeats of one before (mean over "
                f"{len(shares):,} texts); they are 5 % or more in {len(above):,} texts"
            )
            worst = shown(text for _, text in above[:EXAMPLES])
            where = (system, dataset, control, seed)
            findings.append(
                Finding("repetition", severity, *where, what, len(above), len(shares), worst)
            )
    return findings


def repeated(text: str) -> float | None:
    """1 − distinct 4-grams / 4-grams of words; None if there are none.

    >>> repeated("a b c d a b c d"), repeated("too short")
    (0.2, None)
    """
    words = text.split()
    n = len(words) - 3
    if n < 1:
        return None
    distinct = set(zip(words, words[1:], words[2:], words[3:], strict=False))
    return round(1 - len(distinct) / n, 12)

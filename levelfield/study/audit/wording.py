"""Parts of texts that no judge should have to read."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.entities import html5
from itertools import chain, compress
from statistics import fmean
from typing import NamedTuple

from levelfield.study.audit.findings import (
    Fault,
    Faults,
    Limits,
    Share,
    StudyPart,
    check,
    counted,
    percent,
)
from levelfield.study.audit.texts import Text, in_mid_sentence, runs_of, words_of
from levelfield.text.mojibake import is_mojibake


class _Mark(NamedTuple):
    """What to look for; `has` are strings one of which every match holds, for speed."""

    kind: str
    has: tuple[str, ...]
    pattern: re.Pattern[str]


def _mark(kind: str, has: tuple[str, ...], pattern: str, flags: int = 0) -> _Mark:
    return _Mark(kind, has, re.compile(pattern, flags))


_LEFTOVERS = (
    _mark(
        "special tokens",
        ("<", "["),
        r"<\|[^<>|\s]{1,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:pad|unk|mask|bos|eos)>"
        r"|\[(?:PAD|UNK|MASK|CLS|SEP)\]|<extra_id_\d+>|<(?:start|end)_of_turn>",
    ),
    _mark(
        "headings of an instruction",
        ("##",),
        r"(?<!#)#{2,}\s*(?:Instruction|Response|Input|Output|Human|User|Assistant)\b",
    ),
    _mark(
        "talk about the task",
        (" AI ", " AI,", "I can", "I'm ", "I’m "),
        r"\b[Aa]s an AI\b|\bI(?:'m|’m| am) (?:just )?an AI\b|\bAI language model\b"
        r"|\bI(?: can(?:no|'|’)t|(?:'|’)m (?:sorry|unable)).{0,30}"
        r"\b(?:fulfil|comply|assist|request)",
    ),
    _mark(
        "talk about the task",
        ("Sure", "Certainly", "Of course", "Here"),
        r"\A\W*(?:(?:Sure|Certainly|Of course)[,!.]\s+(?:[Hh]ere|I)\b"
        r"|Here(?:(?:'|’)s| is) (?:a|an|the|your|my)\b[^.\n]{0,80}:)",
    ),
    _mark(
        "talk about the task",
        (" can't ", " cannot ", " unable ", " not able ", " can’t "),
        r"\bI(?:'m|’m| am)? (?:can(?:no|'|’)t|unable to|not able to) (?:fulfill?|comply|assist"
        r"|provide|generate|create|write|produce|continue) (?:that|this|such|your|a|any|with)\b",
    ),
    _mark(
        "Markdown",
        ("**", "```", "#", "]("),
        r"\*\*[^*\n]{1,80}\*\*|```|^#{1,6} \w|\[[^\]\n]{1,80}\]\(https?:",
        re.MULTILINE,
    ),
    _mark(
        "error messages",
        ("Traceback", "Error", "memory", "rate limit"),
        r"Traceback \(most recent call last\)|\b[A-Z]\w+Error: |out of memory\. Tried"
        r"|rate limit exceeded",
        re.IGNORECASE,
    ),
    _mark("characters that could not be decoded", ("\ufffd",), "\ufffd"),
)
_NO_TEXT = frozenset(("nan", "none", "null", "n/a", "<na>", "[removed]", "[deleted]"))
_ROLES = "User|Assistant|System|Human"
_SHINGLE = 6


_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|([A-Za-z][A-Za-z0-9]{1,30}));")
_STORED = (
    _mark(
        "HTML tags",
        ("<",),
        r"</?(?:br|p|div|span|b|i|em|strong|a|ul|ol|li|h[1-6]|img|table|tr|td|html|body|script"
        r"|title)(?:\s[^<>]{0,200})?\s*/?>",
        re.IGNORECASE,
    ),
    _mark("escapes", ("\\",), r"\\(?:[nrt]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\"'])"),
    _mark(
        "escapes of URLs", ("%",), r"%(?:20|2[1-9A-Fa-f]|[CDEcde][0-9A-Fa-f]%[89ABab][0-9A-Fa-f])"
    ),
    _mark(
        "marks of subwords",
        ("\u0120", "\u010a", "\u2581", "@@", "##", "</w>", "<0x", "\u00e2\u0122"),
        "[\u0120\u010a\u2581]"  # of byte-level BPE and SentencePiece
        r"|\w@@(?:\s|$)|(?:^|\s)##\w|</w>|<0x[0-9A-F]{2}>"
        r"|\u00e2\u0122.",  # beginning of a mark such as ’ in byte-level BPE
    ),
    _mark(
        "marks of a treebank",
        ("-LRB-", "-RRB-", "-LSB-", "-LCB-", "-RSB-", "-RCB-", "``", "''", " @", "@ "),
        r"-(?:LRB|RRB|LSB|RSB|LCB|RCB)-|``| @[-.,]@ |(?:^|\s)''(?:\s|$)",
    ),
)
_LITERAL = re.compile(r"\A\s*(?:b?['\"]?\[\s*['\"]|b['\"]|\{\s*['\"]\w+['\"]\s*:)")
# control characters but \t, \n, \r; invisible ones; private ones; halves of a pair
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u200b\u2060\ufeff\ufffe\uffff\ue000-\uf8ff\ud800-\udfff]"
)


@check("wrong-encoding", per="system", limits=Limits(0.05, 0.02))
def wrong_encoding(part: StudyPart) -> Faults:
    """Texts that contain traces of how they were stored, which no system wrote.

    UTF-8 read in another encoding (`â€™`, `Ã©`), HTML entities and tags (`&#39;`, `<br />`),
    escapes written out (`\\\\n`, `\\\\u2019`, `%20`), marks of tokenizers (`Ġ`, `▁`, `@@`, `##ing`,
    `-LRB-`), literals of Python or JSON (`b'…'`, `['…']`, `{"text": …}`), control characters and
    invisible ones. Serious from 5 % of the texts of a system on; silent below 2 %, since texts of
    the web hold such things by themselves.
    """
    yield _with_kinds("contain traces of how they were stored", part, _traces)


def _traces(text: Text) -> Iterator[str]:
    whole = text.sample.text
    if is_mojibake(whole):
        yield "UTF-8 read in another encoding"
    if "&" in whole and any(not name or name in _NAMES for name in _ENTITY.findall(whole)):
        yield "HTML entities"
    yield from _marks(whole, _STORED)
    if _LITERAL.match(whole) or _LITERAL.match(text.written):
        yield "literals of a program"
    if not whole.isprintable() and _CONTROL.search(whole):
        yield "control characters"


_NAMES = frozenset(name.removesuffix(";") for name in html5)


@check("empty-text", per="system", limits=Limits(0.05, 0.01, 0))
def empty_text(part: StudyPart) -> Faults:
    """Texts with nothing in them, or nothing after their prompt.

    Serious from 5 % on, a warning from 1 % on, a note from the first one: every measure has to do
    something about it.
    """
    hits = [text for text in part.texts if not text.written]
    yield Share("are empty or end with their prompt", hits, part.texts)


@check("leftover-markup", per="system", limits=Limits(0.05, 0.02))
def leftover_markup(part: StudyPart) -> Faults:
    """Texts with remains that post-processing should have removed.

    Role markers (`User:`, the system's own name with a colon), special tokens, headings of an
    instruction, talk about the task (`As an AI …`), Markdown, error messages, `nan` and its like,
    undecodable characters, and 6 words in a row of the instruction, where `extra["input"]` has
    it. Serious from 5 % of the texts on; silent below 2 %, since texts like those of the web hold
    such things by themselves.
    """
    yield _with_kinds("contain what is not text", part, lambda text: _leftovers(text, part.system))


def _with_kinds(
    predicate: str, part: StudyPart, kinds_of: Callable[[Text], Iterable[str]]
) -> Share:
    """Returns the share of texts that have any kind, and how many have each."""
    kinds = [set(kinds_of(text)) for text in part.texts]
    counts = Counter(chain.from_iterable(kinds))
    hits = list(compress(part.texts, kinds))
    return Share(f"{predicate}: {counted(counts)}", hits, part.texts)


def _marks(text: str, marks: Iterable[_Mark]) -> Iterator[str]:
    for kind, has, pattern in marks:
        if any(part in text for part in has) and pattern.search(text):
            yield kind


def _leftovers(text: Text, system: str) -> Iterator[str]:
    written = text.written
    if written.casefold() in _NO_TEXT:
        yield "names of a missing value"
    yield from _marks(written, _LEFTOVERS)
    if ":" in written and has_role_marker(written, system):
        yield "role markers"
    instruction = str(text.sample.extra.get("input", "")).replace(text.sample.prompt, "\0")
    if len(instruction.split()) >= _SHINGLE and (
        _shingles(instruction) & runs_of(text.words, _SHINGLE)
    ):
        yield "words of the instruction"


def has_role_marker(text: str, system: str) -> bool:
    """Returns whether a turn begins at the start of a line or directly after a sentence."""
    for match in _roles(system).finditer(text):
        begin = end = match.start()
        while begin and text[begin - 1].isspace():
            begin -= 1
        if not end or "\n" in text[begin:end] or text[begin - 1 : begin] in _SENTENCE_ENDS:
            return True
    return False


_SENTENCE_ENDS = frozenset('.!?"”)]')


@functools.lru_cache(maxsize=64)
def _roles(system: str) -> re.Pattern[str]:
    """Returns the pattern of markers of turns, anywhere in a text."""
    name = re.match(r"[A-Za-z]{4,}", system)
    roles = f"{_ROLES}|{name[0].capitalize()}" if name else _ROLES
    return re.compile(rf"(?:{roles})\s?:")


@functools.lru_cache(maxsize=4096)
def _shingles(instruction: str) -> frozenset[tuple[str, ...]]:
    parts = map(words_of, instruction.split("\0"))
    return frozenset(run for part in parts for run in runs_of(part, _SHINGLE))


_EDGE = 15
_SAMPLE = 150
_SHARE = 0.3
_ELSEWHERE = 0.02
_TEXTS = 8
_PROMPTS = 5


@check("boilerplate", per="control", limits=Limits(0.5, _SHARE))
def boilerplate(part: StudyPart) -> Faults:
    """Words in a row that one system writes after many prompts and no other system does.

    An instruction that was left in, a greeting, an advertisement. Counted: the texts with the same
    3 words in a row among their first or last 15, which their prompts do not hold. Serious from
    half of a system's texts on, a warning from 30 % (8 texts, after 5 prompts), where at most 2 %
    of the texts of each other system have them. Silent with one system.
    """
    systems = part.texts_of_systems
    edges = {s: [f" {' '.join(_edges(text))} " for text in texts] for s, texts in systems.items()}
    for system, texts in systems.items() if len(systems) > 1 else ():
        others = [words for name, words in edges.items() if name != system]
        least = max(_TEXTS, _SHARE * len(texts))
        runs = {
            run: n
            for run in _candidates(texts)
            if (n := sum(run in words for words in edges[system])) >= least
            and all(sum(run in t for t in other) <= _ELSEWHERE * len(other) for other in others)
        }
        pairs = zip(texts, edges[system], strict=True)
        hits = [text for text, words in pairs if any(run in words for run in runs)]
        if len(hits) >= _TEXTS and len({text.sample.prompt for text in hits}) >= _PROMPTS:
            most = max(runs, key=lambda run: (runs[run], run))  # runs come out of a set
            yield Share(f"say what no other system says, e.g. '{most.strip()}'", hits, texts)


def _candidates(texts: Sequence[Text]) -> Sequence[str]:
    """Runs of 3 words, with blanks around them, in 15 % of a part of the texts."""
    subset = texts[:: max(1, len(texts) // _SAMPLE)]
    counts = Counter(run for text in subset for run in _runs(text))
    return [run for run, n in counts.items() if n >= max(_TEXTS, _SHARE * len(subset)) / 2]


def _edges(text: Text) -> list[str]:
    """Returns the first and the last words."""
    words = text.words
    return words if len(words) <= 2 * _EDGE else [*words[:_EDGE], "", *words[-_EDGE:]]


def _runs(text: Text) -> set[str]:
    edges, prompt = (
        {f" {' '.join(run)} " for run in runs_of(words, 3)}
        for words in (_edges(text), words_of(text.sample.prompt))
    )
    return edges - prompt


@check("repetition", per="system")
def repetition(part: StudyPart) -> Faults:
    """Systems whose texts repeat themselves: share of 4-grams of words that came before in a text.

    Mean over what was written after the prompt, texts with fewer than 4 words left out. Fluent
    texts have 0.00 to 0.02; a warning from 0.05 on, serious from 0.2 on.
    """
    limits = Limits(0.2, 0.05)
    texts = part.texts
    shares = [(s, t) for t in texts if (s := repeated(t.written)) is not None]
    mean = fmean(s for s, _ in shares) if shares else 0.0
    if severity := limits.severity(mean):
        order = sorted(shares, key=lambda pair: -pair[0])
        hits = [text for share, text in order if share >= limits.warning]
        total = len(shares)
        sentence = (
            f"{percent(mean, 1)} of the 4-grams in a text repeat an earlier one (mean over "
            f"{total:,} texts); the share is 5 % or more in {len(hits):,} texts"
        )
        yield Fault.from_texts(severity, sentence, hits, texts)._replace(of=total)


def repeated(text: str) -> float | None:
    """Returns 1 − distinct 4-grams / 4-grams of words; None if there are none.

    >>> repeated("a b c d a b c d"), repeated("too short")
    (0.2, None)
    """
    words = text.split()
    n = len(words) - 3
    if n < 1:
        return None
    distinct = set(zip(words, words[1:], words[2:], words[3:], strict=False))
    return round(1 - len(distinct) / n, 12)


@check("cut-text", per="control")
def cut_text(part: StudyPart) -> Faults:
    """Systems most of whose texts end in mid-sentence: their budget of tokens cut them off.

    An end is in mid-sentence if it is a letter of a script that has cases, a digit, a comma or a
    dash. A note, one for each kind of control. Silent where at most half of the texts are cut.
    """
    cut: dict[str, Sequence[Text]] = {}
    total = 0
    for system, texts in part.texts_of_systems.items():
        texts = [text for text in texts if text.written]
        hits = [text for text in texts if in_mid_sentence(text.written)]
        if 2 * len(hits) > len(texts):
            cut[f"{system} {percent(len(hits), len(texts))}"] = hits
            total += len(texts)
    if cut:
        hits = [text for texts in cut.values() for text in texts]
        system = hits[0].key.system if len(cut) == 1 else ""
        sentence = f"most texts end in mid-sentence: {', '.join(cut)}"
        yield Fault("note", sentence, len(hits), total, (), system)

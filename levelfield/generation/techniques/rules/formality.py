"""Rules of formality for English.

Each direction is a list of small steps that are applied until none changes the text, so a direction
applied to its own output changes nothing. No step touches what is protected: addresses, mentions,
tags, words with digits. Words with a capital inside a sentence are taken for names and stay, too,
as do letters outside ASCII.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from levelfield.io.streams import sha256
from levelfield.io.toml import read_toml

FORMAL, INFORMAL = "formal", "informal"
STYLES = (FORMAL, INFORMAL)

Step = Callable[[str], str]
Replace = Callable[[re.Match[str]], str]

_FILE = resources.files(__package__) / "formality.toml"

_PASSES = 25
"""So often the steps are applied at most; each but the last makes something formal (or informal)
that was not, so few are needed."""

_PROTECTED = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://|www\.)\S+"  # addresses
    r"|[^\s@]+@[^\s@]+\.\w+"
    r"|(?<![\w&])[@#]\w[\w-]*"  # mentions, tags
    r"|`[^`]*`"
    r"|\b[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}(?:/\S*)?\b"  # example.com/page
    r"|[^\s]*\d[^\s,;!?]*",  # words with digits
    re.IGNORECASE,
)
_LONG = re.compile(r"\S{100,}")
"""Longer than any word and most addresses; Chinese and Japanese have no blanks."""
_START = re.compile(r"""(?:^|(?<=[.!?])(?:["')\]]*)\s+)["'“‘(\[]*""")
_ABBREVIATION = re.compile(
    r"\b(?:[a-z]|e\.g|i\.e|etc|vs|cf|approx|mr|mrs|ms|dr|prof|st|jr|sr|[ap]\.m)\.$",
    re.IGNORECASE,
)
_WINDOW = 16
"""Characters in which the longest abbreviation ends, with what precedes it."""


def rewrite(text: str, style: str) -> str:
    """Returns the text in one of the `STYLES`.

    >>> rewrite("hey!! i dont know if u can come...", "formal")
    'Hello. I do not know if you can come.'
    >>> rewrite("I do not know whether you are coming.", "informal")
    "i dunno whether ur coming"
    """
    steps = {FORMAL: _FORMAL, INFORMAL: _INFORMAL}[style]
    for _ in range(_PASSES):
        before = text
        for step in steps:
            text = step(text)
        if text == before:
            break
    return text


@functools.cache
def digest() -> str:
    """Names the word lists."""
    with resources.as_file(_FILE) as path:
        return sha256(path)[:12]


@functools.cache
def _file() -> Mapping[str, Any]:
    return read_toml(_FILE)


def _words(style: str) -> Mapping[str, str]:
    table: Mapping[str, str] = _file()[style]
    return table


# -- where something may be replaced


@functools.lru_cache(maxsize=1)  # one text goes through many steps, and most change nothing
def _protected(text: str) -> Sequence[tuple[int, int]]:
    """Returns where a text is protected: spans in order, none of which overlap.

    Between the `_LONG` ones, which are protected whole, `_PROTECTED` looks at few characters in a
    row, so that its time does not grow with their square.
    """
    spans, begin = [], 0
    for end, after in [*(match.span() for match in _LONG.finditer(text)), (len(text),) * 2]:
        spans += [match.span() for match in _PROTECTED.finditer(text, begin, end)]
        spans += [(end, after)] if after > end else []
        begin = after
    return spans


def _replaced(pattern: re.Pattern[str], replace: Replace | str, text: str) -> str:
    """`text` with the matches replaced that touch nothing protected."""
    protected = _protected(text)

    def replacement(match: re.Match[str]) -> str:
        begin, end = match.span()
        place = bisect.bisect_right(protected, begin, key=lambda span: span[1])
        if place < len(protected) and protected[place][0] < max(end, begin + 1):
            return match[0]
        return _new(match, replace)

    return pattern.sub(replacement, text)


def _new(match: re.Match[str], replace: Replace | str) -> str:
    """Returns what a match is replaced with."""
    return match.expand(replace) if isinstance(replace, str) else replace(match)


def _starts(text: str) -> set[int]:
    """Where sentences begin, marks of quotation left out."""
    return {
        match.end()
        for match in _START.finditer(text)
        if not _ABBREVIATION.search(text[max(0, match.start() - _WINDOW) : match.start()])
    }


def _word(pattern: str) -> re.Pattern[str]:
    """Whole words: no part of a compound, an abbreviation, an address, or a file's name."""
    return re.compile(
        rf"(?<![\w@#/'’&-])(?<!\w\.)(?:{pattern})(?![\w@/'’&-]|\.\w)", re.IGNORECASE | re.ASCII
    )


def _is_ours(match: re.Match[str], starts: set[int]) -> bool:
    """Whether the words are lower case, but for `I` and the first letter of a sentence; others are
    names."""
    words = re.sub(r"\bI\b", "i", match[0])
    if match.start() in starts:
        words = words[:1].lower() + words[1:]
    return words.islower()


def _substitution(pattern: re.Pattern[str], replace: Replace | str, *, capital: bool) -> Step:
    """A step that replaces words; `capital` keeps the capital of a sentence's first letter."""

    def step(text: str) -> str:
        starts = _starts(text)

        def replacement(match: re.Match[str]) -> str:
            if not _is_ours(match, starts):
                return match[0]
            new = _new(match, replace)
            return new[:1].upper() + new[1:] if capital and match[0][:1].isupper() else new

        return _replaced(pattern, replacement, text)

    return step


def _table(
    style: str,
    *,
    capital: bool,
    when: Callable[[str], bool] = lambda _: True,
    lookahead: str = "",
) -> Step:
    """Returns the entries of a word list, the longest first.

    Args:
        capital: as of `_substitution`.
        when: which entries, by what they are replaced with.
        lookahead: what has to follow, as a pattern.
    """

    @functools.cache
    def step_of_table() -> Step:
        words = {key: new for key, new in _words(style).items() if when(new)}
        keys = sorted(words, key=len, reverse=True)
        alternatives = "|".join(re.escape(key).replace("'", "['’]") for key in keys)
        pattern = rf"(?:{alternatives})" + (f"(?={lookahead})" if lookahead else "")

        def new(match: re.Match[str]) -> str:
            return words[match[0].lower().replace("’", "'")]

        return _substitution(_word(pattern), new, capital=capital)

    return lambda text: step_of_table()(text)


def _has_letters(text: str) -> bool:
    return any(character.isalpha() for character in text)


def _unless_empty(step: Step) -> Step:
    """Returns the step, unless it would leave no letter of the text."""

    def careful(text: str) -> str:
        new = step(text)
        return new if _has_letters(new) else text

    return careful


# -- formal

_BE_HAVE = "been|become|done|gone|got|grown|had|made|seen|taken"
_PRONOUN = "i|you|he|she|it|we|they"
_NOT = re.compile("n['’]t$", re.IGNORECASE)
_IRREGULAR = {"can't": "cannot", "won't": "will not", "shan't": "shall not"}


def _negation(match: re.Match[str]) -> str:
    """`don't` → `do not`; before a pronoun, as in a question, `do you not`."""
    word, pronoun = match["word"].lower().replace("’", "'"), match["pronoun"]
    whole = _IRREGULAR.get(word, _NOT.sub(" not", word))
    if pronoun is None:
        return whole
    verb = whole.removesuffix("not").strip()
    return f"{verb} {pronoun} not"


def _is_not(match: re.Match[str]) -> str:
    before = (match["pronoun"] or "").lower()
    verb = {"i": "am", "you": "are", "we": "are", "they": "are"}.get(before, "is")
    return f"{match['pronoun']} {verb} not" if before else f"{verb} not"


def _elongated(text: str) -> str:
    """`soooo` → `so`, `goooood` → `good`; numerals, sounds and what has capitals stay."""

    def shorter(match: re.Match[str]) -> str:
        word = match[0]
        if not re.search(r"([a-z])\1\1", word):
            return word
        if not re.search("[aeiouy]", word) or len(set(word)) == 1 or not set(word) - set("ivxlcdm"):
            return word
        single = re.sub(r"([a-z])\1{2,}", r"\1", word)
        return single if single in _file()["known"] else re.sub(r"([a-z])\1{2,}", r"\1\1", word)

    return _replaced(re.compile(r"(?<![\w@#'’-])[a-z]++(?![\w@-])"), shorter, text)


_NUMERAL = re.compile("[xvlcdm]*i{2,3}")
"""Roman numerals that are not words: `ii`, `viii`, but not `mix`."""


def _capitals(text: str) -> str:
    """Returns the first letters of sentences whose first word is all lower case; `I`."""
    text = _replaced(re.compile(r"(?<![\w.(@#/'’-])i(?![\w)@/'’-]|\.\w)", re.ASCII), "I", text)
    starts = _starts(text)

    def capital(match: re.Match[str]) -> str:
        is_first = match.start() in starts and not _NUMERAL.fullmatch(match[0])
        return match[0][:1].upper() + match[0][1:] if is_first else match[0]

    return _replaced(re.compile(r"(?<!\w)[a-z]+(?:['’][a-z]+)*(?![\w@/-]|\.\w)"), capital, text)


_QUESTION = re.compile(
    r"(?:(?:how|what|why|where|who|when|which)\s+)?"
    r"(?:is|are|do|does|did|can|could|would|will|should|was|were|has|have)\s+"
    r"(?:i|you|he|she|it|we|they|this|that|there|the|your|my|our|anyone|someone)\b",
    re.IGNORECASE,
)
_LAST = re.compile(r"(?<![\w@#/'’.-])(?:[A-Za-z]+(?:['’-][A-Za-z]+)*|\d+)\s*\Z", re.ASCII)


def _last_mark(text: str) -> str:
    """A full stop, or a question mark, after a last sentence that ends with a word or a number."""
    last = _LAST.search(text)
    if last is None or not _has_letters(text):
        return text
    if any(end >= len(text.rstrip()) and not text[begin:end].strip().isdigit()
           for begin, end in _protected(text)):  # fmt: skip
        return text
    begin = max((start for start in _starts(text) if start <= last.start()), default=0)
    return text.rstrip() + ("?" if _QUESTION.match(text, begin) else ".")


def _marks(text: str) -> str:
    """One mark where there are several; full stops for exclamation marks."""
    text = _replaced(re.compile(r"(?<=[A-Za-z\")'’])(?=!*\?)[!?]++(?=\s|\Z)"), "?", text)
    text = _replaced(re.compile(r"(?<=[A-Za-z\")'’])!+(?=\s|\Z)"), ".", text)
    text = _replaced(re.compile(r"(?<=[A-Za-z\")'’])(?:\.{2,}|…)(?=\s*\Z|\s+[A-Z])"), ".", text)
    text = _replaced(re.compile(r"(?<=[A-Za-z\")'’])(?:\.{2,}|…)(?=\s+[a-z])"), ",", text)
    text = _replaced(re.compile(r"(?<=[A-Za-z]) +(?=[,.?!](?:\s|\Z))"), "", text)
    return _replaced(re.compile(r"(?<=[A-Za-z,.?!]) {2,}(?=[A-Za-z])"), " ", text)


_FILLER = r"(?:lol|lmao|rofl|omg|smh|a?(?:ha){2,}h?|(?:he){2,}h?|ugh|duh)"


def _fillers(text: str) -> str:
    """Without laughter and smileys."""
    text = _replaced(re.compile(r"(?<!\S)(?:[:;=]['-]?[)(DPpoO/|*]+|[xX]D+|<3)(?!\S)\s*"), "", text)
    text = _replaced(re.compile(rf"(?<!\S){_FILLER}\b[,!.]*(?!\S)\s*", re.IGNORECASE), "", text)
    return _replaced(re.compile(r"(?<=[A-Za-z.?!])\s+\Z"), "", text)


_CONTRACTIONS: Sequence[tuple[str, Replace | str]] = (
    (rf"(?:(?P<pronoun>{_PRONOUN})\s+)?ain['’]?t", _is_not),
    (
        r"(?P<word>(?:can|won|shan|is|are|was|were|do|does|did|has|have|had|would|could|should|"
        rf"must|might|need)n?['’]t)(?:\s+(?P<pronoun>{_PRONOUN}))?",
        _negation,
    ),
    ("i['’]m", "I am"),
    ("let['’]s", "let us"),
    (rf"({_PRONOUN}|that|there|who|what)['’]ll", r"\1 will"),
    ("(you|we|they|who)['’]re", r"\1 are"),
    ("(i|you|we|they|could|would|should|must|might)['’]ve", r"\1 have"),
    (rf"(it|that|he|she|there|who|what)['’]s(?=\s+(?:{_BE_HAVE})\b)", r"\1 has"),
    (r"(it|that|he|she|there|here|what|who|where|how)['’]s(?=\s+[a-z])", r"\1 is"),
    (
        rf"({_PRONOUN})['’]d(?=\s+(?:like|love|prefer|rather|appreciate|be|have|need|recommend|"
        r"suggest|say|want)\b)",
        r"\1 would",
    ),
)
"""Words, and what stands for them."""

_FORMAL: Sequence[Step] = (
    _unless_empty(_fillers),
    _elongated,
    _marks,
    _table(FORMAL, capital=True),
    *(_substitution(_word(words), new, capital=True) for words, new in _CONTRACTIONS),
    _capitals,
    _last_mark,
)


# -- informal

_NEEDS_A_WORD = re.compile(r"^im$|^ur$|['’](?!t$)")
"""What is contracted only where a word follows: `it's late`, but `yes, it is`."""


def _small(text: str) -> str:
    """The first words of sentences without their capital where they are common words; `i`."""
    starts = _starts(text)

    def small(match: re.Match[str]) -> str:
        word = match[0]
        first = re.split("['’]", word.lower())[0]
        ours = match.start() in starts and (
            first in _file()["common"] or word.lower() in _words(INFORMAL).values()
        )
        return word[:1].lower() + word[1:] if ours else word

    text = _replaced(re.compile(r"(?<!\w)[A-Z][a-z]*(?:['’][a-z]+)*(?![\w@/-]|\.\w)"), small, text)
    return _replaced(re.compile(r"(?<![\w.(@#/-])I(?![\w)@/.-])", re.ASCII), "i", text)


def _no_last_mark(text: str) -> str:
    """Without a full stop after the last word."""
    stripped = text.rstrip()
    if _ABBREVIATION.search(stripped) or not re.search(r"(?:^|\s)[A-Za-z'’-]+\.\Z", stripped):
        return text
    if any(end >= len(stripped) for _, end in _protected(stripped)):
        return text
    return stripped[:-1]


_INFORMAL: Sequence[Step] = (
    _table(INFORMAL, capital=False, when=lambda new: not _NEEDS_A_WORD.search(new)),
    _table(
        INFORMAL,
        capital=False,
        when=lambda new: bool(_NEEDS_A_WORD.search(new)),
        lookahead=r"\s+[a-z]",
    ),
    _small,
    _no_last_mark,
)

"""A text of a study and what of it is compared: its words, its length, its style."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.sample import Control, Sample
from levelfield.study.cells import CellKey

_WORD = re.compile(r"\w+")
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_MID_SENTENCE = ",;:-–—(&/"
RUN = 8
_STOP = re.compile("[.,;:!?。，、；：！？…]")
_DIGIT = re.compile(r"\d")
_MARKS = ("*", "#", "-", "•", "[", "{", "<", ">", "|")
_QUOTES = "\"'“”„‘’«»「」"


@dataclass(frozen=True)
class Text:
    """A text of a cell. `end` is where its prompt ends in it; None if it begins otherwise."""

    sample: Sample
    key: CellKey
    end: int | None

    @functools.cached_property
    def written(self) -> str:
        """What the system wrote: what follows the prompt, or all of a text that begins otherwise.

        Edges without the white space.
        """
        return self.sample.text[self.end or 0 :].strip()

    @property
    def request(self) -> tuple[object, ...]:
        """What it answers: the same for all systems and seeds."""
        sample = self.sample
        return (sample.extra.get("request", sample.prompt), tuple(sample.control.items()))

    @functools.cached_property
    def words(self) -> list[str]:
        """The words after the prompt, without case and punctuation."""
        return words_of(self.written)

    @property
    def runs(self) -> set[tuple[str, ...]]:
        """Its runs of 8 words, which two texts hardly share by themselves."""
        return runs_of(self.words, RUN)

    @functools.cached_property
    def letters(self) -> str:
        """What was written without blanks, case and punctuation; empty if that is too short.

        Two systems say the same few words by themselves, but not the same 5 or 20 letters.
        """
        letters = "".join(self.words)
        return letters if len(self.words) >= 5 or len(letters) >= 20 else ""

    @functools.cached_property
    def length(self) -> int:
        """Words after the prompt; of scripts without blanks, characters."""
        return length_of(self.written)

    @functools.cached_property
    def style(self) -> frozenset[str]:
        """The names of the features of style that it has; see `STYLE`."""
        if not self.written:
            return frozenset()
        return frozenset(name for name, has in STYLE.items() if has(self))

    @functools.cached_property
    def script(self) -> str:
        """The script of most of its first letters, e.g. `LATIN`; empty without letters."""
        first = [c for c in self.written[:80] if c.isalpha()][:30]
        names = Counter("LATIN" if c < "\u0250" else script_of(c) for c in first)
        return max(names, key=lambda name: names[name]) if names else ""


@functools.lru_cache(maxsize=4096)
def script_of(letter: str) -> str:
    """Returns the script of a letter: the first word of its Unicode name, such as `CYRILLIC`."""
    return unicodedata.name(letter, "UNKNOWN").partition(" ")[0]


def wants_words(control: Control) -> bool:
    """Returns whether a control wants words in the text, as keywords are."""
    return any(isinstance(value, tuple) for value in control.values())


def length_of(text: str) -> int:
    """Words between blanks; of scripts without blanks, characters."""
    return len(text.split()) + len(_WITHOUT_BLANKS.findall(text))


def words_of(text: str) -> list[str]:
    """Its words, without case and punctuation."""
    return _WORD.findall(text.casefold())


def runs_of(words: Sequence[str], n: int) -> set[tuple[str, ...]]:
    """Its n words in a row."""
    return set(zip(*(words[i:] for i in range(n)), strict=False))


def in_mid_sentence(text: str) -> bool:
    """Returns whether a text ends with a letter of a cased script, a digit, a comma or a dash."""
    last = text[-1]
    return last in _MID_SENTENCE or unicodedata.category(last) in ("Ll", "Lu", "Nd")


_SPACED = re.compile(r"\w [,.;!?](?:\s|$)| n't\b| '(?:s|re|ll|ve)\b")
_SENTENCE_END = re.compile(r"[.!?]\s+\W?[^\W\d_]|[。！？].")

STYLE: Mapping[str, Callable[[Text], bool]] = {
    "contain an upper-case letter": lambda t: t.sample.text != t.sample.text.lower(),
    "contain an upper-case letter after their prompt": lambda t: t.written != t.written.lower(),
    "are all in upper case": lambda t: t.written.isupper() and len(t.written) > 3,
    "begin with upper case after their prompt": lambda t: t.written.lstrip(_QUOTES)[:1].isupper(),
    "contain punctuation before their end": lambda t: bool(_STOP.search(t.written[:-1])),
    "contain a blank before punctuation": lambda t: bool(_SPACED.search(t.written)),
    "end in mid-sentence": lambda t: in_mid_sentence(t.written),
    "end with several stops": lambda t: t.written.endswith(("..", "…", "!!", "??", "。。")),
    "contain several sentences": lambda t: bool(_SENTENCE_END.search(t.written)),
    "contain a line break": lambda t: "\n" in t.written,
    "contain a digit": lambda t: bool(_DIGIT.search(t.written)),
    "contain letters beyond ASCII": lambda t: not t.written.isascii(),
    "contain several blanks in a row": lambda t: "  " in t.written,
    "stand in quotes": lambda t: (
        len(t.sample.text.strip()) > 2
        and t.sample.text.strip()[0] in _QUOTES
        and t.sample.text.strip()[-1] in _QUOTES
    ),
    "begin with a mark": lambda t: t.written[:1] in _MARKS,
}
"""Features of style: what texts do, and whether a text that says something does it."""

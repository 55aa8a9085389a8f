"""Grammar: the errors that the rules of `quire-grammar` find in English text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import regex

from levelfield.core.continuation import READING, Reading, continuation
from levelfield.core.direction import Direction
from levelfield.core.errors import with_extra
from levelfield.core.options import Options, option
from levelfield.core.packages import installed_label
from levelfield.core.sample import Sample
from levelfield.core.undefined import EMPTY_TEXT, Undefined, no_unit
from levelfield.metrics.sample_metric import ChoiceSignature, SampleMetric, SampleValue
from levelfield.models.languages import ENGLISH

CATEGORIES = ("agreement", "confusable", "mechanics", "punctuation")
"""Categories of rules whose errors count."""

WORD = regex.compile(r"\p{Latin}[\p{Latin}\p{M}]*(?:['’-]\p{Latin}[\p{Latin}\p{M}]*)*")
"""A word, as the value counts them."""

_LONGEST_PASSAGE = 5_000
_CURLY_APOSTROPHE = re.compile(r"(?<=\w)’(?=\w)")
_MARKS = (".", "!", "?", "…")
_CLOSING = "\"'”’»)]}*_"

_SPACING = ("missing-space-after-sentence", "space-before-punctuation")
_ABBREVIATIONS = (
    r"\w|co|corp|inc|ltd|bros|jan|feb|aug|sept|oct|nov|dec|gov|sen|rep|rev|capt|lt|sgt|mme|messrs"
)
_NO_SLIPS = {
    "a-vs-an": ("", r"an?\s+(?:\d|\w\b)"),  # an 8-hour day, an r-rated film
    "capitalization-after-period": (rf"\b(?:{_ABBREVIATIONS})\.\W*", ""),  # Smith Corp. said
    "doubled-word": ("", r"\d"),  # 6-4 4-6
    "missing-space-after-sentence": (r"(?:www|//|@)\S*", ""),  # www.example.org
    "sentence-fragment": ("", r"[^.!?]*\?"),  # Which of them is it?
    "space-before-punctuation": ("", r"\s+[:;]['’-]*(?:[][()/|*]|[DPpO3]\b)"),  # Thanks :)
}
"""Rule -> what directly precedes and follows the beginning of a hit that is not an error."""
_WINDOW = 100


class Slip(NamedTuple):
    """An error that a rule finds, and its place in the text."""

    category: str
    rule: str
    start: int
    end: int


def slips(text: str) -> frozenset[Slip]:
    """Returns the errors that the rules find in a text; each line is read by itself.

    >>> [slip.rule for slip in slips("She had a apple.")]
    ['a-vs-an']
    """
    from quire_grammar import check

    # several rules know the straight apostrophe alone, and the model's values differ between CPUs
    text = _CURLY_APOSTROPHE.sub("'", text)
    return frozenset(
        Slip(hit.category, hit.rule_id, start + hit.start, start + hit.end)
        for start, passage in _passages(text)
        for hit in check(passage, disable=("model",))
        if hit.category in CATEGORIES and not _is_right(hit.rule_id, passage, hit.start)
    )


def _is_right(rule: str, passage: str, place: int) -> bool:
    """Returns whether a hit is one of the known false alarms of a rule."""
    if rule not in _NO_SLIPS:
        return False
    before, after = _NO_SLIPS[rule]
    left = passage[max(0, place - _WINDOW) : place]
    return bool(
        re.search(rf"(?:{before})\Z", left, re.IGNORECASE)
        and re.compile(after, re.IGNORECASE).match(passage, place)
    )


def _passages(text: str) -> Iterator[tuple[int, str]]:
    """Yields the lines of a text, each with where it begins.

    Rules take time that grows with the square of what they read, so a very long line is cut after
    a sentence, else after a word.
    """
    start = 0
    for line in text.splitlines(keepends=True):
        end = start + len(line)
        while end - start > _LONGEST_PASSAGE:
            limit = start + _LONGEST_PASSAGE
            blank = text.rfind(". ", start, limit) + 1 or text.rfind(" ", start, limit)
            cut = blank + 1 or limit  # without a blank it is −1
            yield start, text[start:cut]
            start = cut
        yield start, text[start:end]
        start = end


def _finished(text: str) -> str:
    """Returns a text without its last word if no mark ends it: that word may be cut off."""
    text = text.rstrip()
    if text.rstrip(_CLOSING).endswith(_MARKS):
        return text
    return text[: len(text) - len(text.split()[-1])]


@dataclass(frozen=True)
class GrammarErrors(Options, ChoiceSignature, SampleMetric):
    """Grammatical errors of each text that rules find, per 100 words.

    100 · errors / words, at least 0; lower is better. The rules are those of the package
    `quire-grammar`, without its model, in four categories: agreement, confusable (its and it's),
    mechanics (a and an, doubled words, spaces, capitals) and punctuation. Parts are the errors of
    each category per 100 words; they add up to the value. A word is a run of Latin letters, with
    apostrophes and hyphens between them.

    The rules are for English. They are narrow: they find few of the errors that a reader finds,
    and a text without any may still be ungrammatical (docs/grammar.md has the figures).

    A text may stop at a token limit. So a missing mark at the end is not an error, and the last
    word of a text that ends without one is not read, since it may be half a word. With
    text=continuation an error counts if the prompt alone does not have it.

    Undefined: `empty text`; `no word in the text`, such as one of punctuation, emoji or another
    script alone; with text=continuation `no prompt`, `prompt is not a prefix of the text`,
    `nothing after the prompt` and `no word in the continuation`.

    Raises:
        UserError: `quire-grammar` is not installed.
    """

    text: Reading = READING
    spacing: Literal["count", "ignore"] = option(
        "count",
        "Count spaces before punctuation marks and missing spaces after them as errors, or ignore "
        "them, which suits tokenised texts.",
    )

    name: ClassVar[str] = "fluency.grammar"
    languages: ClassVar[Mapping[str, frozenset[str]]] = {"its rules": ENGLISH}
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    extra: ClassVar[str] = "grammar"
    direction: ClassVar[Direction] = "lower"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text == "continuation":
            object.__setattr__(self, "requires", frozenset({"text", "prompt"}))

    def _choices(self) -> Mapping[str, object]:
        rules = installed_label(
            "quire-grammar", f"{self.name} needs quire-grammar: {with_extra('grammar')}"
        )
        return {
            "rules": rules,
            "categories": "+".join(CATEGORIES),
            "spacing": self.spacing,
            "text": self.text,
        }

    def _sample_values(self, samples: Sequence[Sample]) -> list[SampleValue | Undefined]:
        return [self._sample_value(sample) for sample in samples]

    def _sample_value(self, sample: Sample) -> SampleValue | Undefined:
        text, start = sample.text, 0
        if not text.strip():
            return Undefined(EMPTY_TEXT)
        if self.text == "continuation":
            rest = continuation(sample)
            if isinstance(rest, Undefined):
                return rest
            start = len(text) - len(rest)
        words = len(WORD.findall(text, start))
        if not words:
            return Undefined(no_unit("word", "the text" if start == 0 else "the continuation"))
        errors = [
            slip
            for slip in slips(_finished(text)) - slips(text[:start])
            if self.spacing == "count" or slip.rule not in _SPACING
        ]
        parts = [
            (category, 100 * sum(slip.category == category for slip in errors) / words, 1.0)
            for category in CATEGORIES
        ]
        return SampleValue(100 * len(errors) / words, parts, cut=False)

"""What a text still needs to have all of its keywords, and which tokens bring it nearer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from levelfield.core.errors import UserError
from levelfield.core.sample import Control, wanted_values
from levelfield.io.problems import shown
from levelfield.models.torch.language_model import LanguageModel
from levelfield.text.words import plain, whole_word, words

Order = Literal["any", "given"]

_NEAR = 8
"""So many tokens of the prompt say how a continuation is spelled behind it."""

_BEFORE = "It"
"""A word that keywords are tried behind."""


def wanted_keywords(control: Control) -> tuple[str, ...]:
    """The keywords of a control, each once, whatever its case."""
    asked = (keyword.strip() for keyword in wanted_values(control.get("keywords", ())))
    return tuple({plain(keyword, fold=True): keyword for keyword in asked}.values())


def keyword_problem(control: Control) -> str:
    """Why these keywords can't be asked for; empty if they can."""
    for keyword in wanted_keywords(control):
        if not words(keyword):
            return f"keyword {shown(keyword)} has no word"
    return ""


@dataclass(frozen=True)
class Need:
    """What a continuation lacks.

    Attributes:
        tokens: the fewest that bring all missing keywords, each spelled behind a blank.
        next: tokens that bring it nearer by one.
    """

    tokens: int
    next: frozenset[int]


@dataclass(frozen=True)
class _Spelling:
    """The tokens of a keyword, behind a blank, or where the continuation begins."""

    keyword: int
    ids: tuple[int, ...]
    at_start: bool

    def begun(self, ids: Sequence[int]) -> Iterator[int]:
        """How many of its tokens, but not all, a continuation ends with."""
        if self.at_start:
            if len(ids) < len(self.ids) and tuple(ids) == self.ids[: len(ids)]:
                yield len(ids)
            return
        for n in range(1, min(len(self.ids) - 1, len(ids)) + 1):
            if tuple(ids[len(ids) - n :]) == self.ids[:n]:
                yield n


class KeywordState:
    """Follows continuations of one prompt.

    A keyword is there where the text has it as a whole word or phrase, in upper or lower case, as
    `keywords.coverage` counts it. So one at the end of a text is there only as long as the next
    token does not continue the word. What the prompt has does not count.

    Args:
        base: whose tokens they are.
        prompt: ids that the base reads before the continuation.
        keywords: what the text must have.
        order: `any`, or `given`: each behind the one before it.

    Raises:
        UserError: the vocabulary has no way to write a keyword.
    """

    def __init__(
        self, base: LanguageModel, prompt: Sequence[int], keywords: Sequence[str], order: Order
    ) -> None:
        self._base, self._order = base, order
        self._prompt = list(prompt)[-_NEAR:]
        self._before = base.text(self._prompt)
        self._patterns = [whole_word(plain(keyword, fold=True)) for keyword in keywords]
        self._last = self._before[-1:]
        self._inner: list[_Spelling] = []
        self._spellings: list[_Spelling] = []
        for n, keyword in enumerate(keywords):
            behind, first = _spellings(base, keyword), self._first(keyword)
            if not behind:
                raise UserError(
                    f"keyword {shown(keyword)}: the tokens of {base.label} can't spell it"
                )
            self._inner.append(_Spelling(n, behind, at_start=False))
            self._spellings += [self._inner[-1], *(_Spelling(n, ids, True) for ids in first)]

    def need(self, ids: Sequence[int]) -> Need:
        """What a continuation with these tokens lacks."""
        missing = self._missing(ids)
        if not missing:
            return Need(0, frozenset())
        fewest = self._length(missing)
        allowed = missing[:1] if self._order == "given" else missing
        following = {self._inner[n].ids[0] for n in allowed}
        for spelling in self._spellings:
            if spelling.keyword in allowed:
                for begun in spelling.begun(ids):
                    rest = spelling.ids[begun:]
                    total = len(rest) + self._length(self._missing([*ids, *rest]))
                    if total <= fewest:
                        following.add(rest[0])
                    fewest = min(fewest, total)
        return Need(fewest, frozenset(following))

    def _length(self, missing: Sequence[int]) -> int:
        return sum(len(self._inner[n].ids) for n in missing)

    def _missing(self, ids: Sequence[int]) -> list[int]:
        text = self._text(ids)
        if self._order == "any":
            return [n for n, pattern in enumerate(self._patterns) if not pattern.search(text)]
        place = 0
        for n, pattern in enumerate(self._patterns):
            if (match := pattern.search(text, place)) is None:
                return list(range(n, len(self._patterns)))
            place = match.end()
        return []

    def _text(self, ids: Sequence[int]) -> str:
        """The continuation behind the last character of the prompt."""
        return plain(self._last + self._continuation(ids), fold=True)

    def _continuation(self, ids: Sequence[int]) -> str:
        """As of `LanguageModel.continuation`, with what is read of the prompt read once."""
        whole = self._base.text([*self._prompt, *ids])
        begins = whole.startswith(self._before)
        return whole[len(self._before) :] if begins else self._base.text(ids)

    def _first(self, keyword: str) -> list[tuple[int, ...]]:
        """The ways to begin the continuation with a keyword, without a blank before it."""
        ids = tuple(self._base.ids(keyword))
        written = self._continuation(ids)
        whole = whole_word(plain(keyword, fold=True)).search(plain(self._last + written, fold=True))
        return [ids] if whole and written.lstrip(" ") == keyword else []


def _spellings(base: LanguageModel, keyword: str) -> tuple[int, ...]:
    """The tokens of a keyword behind a blank; empty if there are none."""
    before = base.ids(_BEFORE)
    for spelling in (f" {keyword}", keyword):  # some tokenizers put the blank there themselves
        ids = base.ids(spelling)
        if base.continuation(before, ids) == f" {keyword}":
            return tuple(ids)
    return ()

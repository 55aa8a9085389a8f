"""Constrained beam search: likely texts of the base that have every keyword.

Post and Vilar (2018), "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural
Machine Translation", section 3; after the grid of Hokamp and Liu (2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import ClassVar, Literal

import torch

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.sample import KEYWORDS, Control, wanted_values
from levelfield.generation.contract import Answer, AnsweringTechnique, Decoding, Request
from levelfield.generation.sampling import Continuation
from levelfield.generation.table import controlled_by
from levelfield.generation.technique import LocalTechnique, Prompted
from levelfield.generation.width import TextRows
from levelfield.io.problems import shown
from levelfield.models.torch.decoding import CausalRows, normalised
from levelfield.models.torch.draws import penalised
from levelfield.models.torch.language_model import LanguageModel
from levelfield.text.words import plain, whole_word, words

Order = Literal["any", "given"]

_NEAR = 8
"""Number of tokens of the prompt that determine how a continuation is spelled after it."""

_BEFORE = "It"
"""A word after which the spellings of keywords are tried."""


def wanted_keywords(control: Control) -> tuple[str, ...]:
    """Returns the keywords of a control, each once, whatever its case."""
    keywords = (keyword.strip() for keyword in wanted_values(control.get("keywords", ())))
    return tuple({plain(keyword, fold=True): keyword for keyword in keywords}.values())


def keyword_problem(control: Control) -> str:
    """Returns why these keywords can't be asked for; empty if they can."""
    for keyword in wanted_keywords(control):
        if not words(keyword):
            return f"keyword {shown(keyword)} contains no word"
    return ""


@dataclass(frozen=True)
class Need:
    """What a continuation lacks.

    Attributes:
        tokens: the fewest that bring all missing keywords, each spelled after a blank.
        next: tokens that bring it nearer by one.
    """

    tokens: int
    next: frozenset[int]


@dataclass(frozen=True)
class _Spelling:
    """The tokens of a keyword after a blank, or where the continuation begins."""

    keyword: int
    ids: tuple[int, ...]
    is_opening: bool

    def begun(self, ids: Sequence[int]) -> Iterator[int]:
        """How many of its tokens, but not all, a continuation ends with."""
        if self.is_opening:
            if len(ids) < len(self.ids) and tuple(ids) == self.ids[: len(ids)]:
                yield len(ids)
            return
        for n in range(1, min(len(self.ids) - 1, len(ids)) + 1):
            if tuple(ids[len(ids) - n :]) == self.ids[:n]:
                yield n


class KeywordState:
    """Follows continuations of one prompt.

    A keyword is there where the text has it as a whole word or phrase, in upper or lower case, as
    `keywords.coverage` counts it with typography=exact. So one at the end of a text is there only
    as long as the next token does not continue the word. What the prompt has does not count.

    Args:
        base: whose tokens they are.
        prompt: ids that the base reads before the continuation.
        keywords: what the text must have.
        order: `any`, or `given`: each after the one before it.

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
            spellings, first = _spellings(base, keyword), self._first(keyword)
            if not spellings:
                raise UserError(
                    f"keyword {shown(keyword)}: the tokens of {base.label} can't spell it"
                )
            self._inner.append(_Spelling(n, spellings, is_opening=False))
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
        """Returns the continuation after the last character of the prompt."""
        return plain(self._last + self._continuation(ids), fold=True)

    def _continuation(self, ids: Sequence[int]) -> str:
        """As of `LanguageModel.continuation`, with what is read of the prompt read once."""
        whole = self._base.text([*self._prompt, *ids])
        begins = whole.startswith(self._before)
        return whole[len(self._before) :] if begins else self._base.text(ids)

    def _first(self, keyword: str) -> list[tuple[int, ...]]:
        """Returns the ways to begin the continuation with a keyword, without a blank before it."""
        ids = tuple(self._base.ids(keyword))
        written = self._continuation(ids)
        whole = whole_word(plain(keyword, fold=True)).search(plain(self._last + written, fold=True))
        return [ids] if whole and written.lstrip(" ") == keyword else []


def _spellings(base: LanguageModel, keyword: str) -> tuple[int, ...]:
    """Returns the tokens of a keyword after a blank; empty if there are none."""
    before = base.ids(_BEFORE)
    for spelling in (f" {keyword}", keyword):  # some tokenizers put the blank there themselves
        ids = base.ids(spelling)
        if base.continuation(before, ids) == f" {keyword}":
            return tuple(ids)
    return ()


@dataclass(frozen=True, kw_only=True)
class BeamOptions(Options):
    """How texts are searched: a text of T tokens has the score Σ log p / T^γ."""

    beams: int = option(16, "Number of texts kept at each step.", least=1)
    order: Order = option(
        "any", "Order of the keywords in the text: any, or given, as the request has them."
    )
    length_penalty: float = option(
        1.0,
        "Exponent γ of the length: 1 is the mean log-probability of a token, 0 the sum; more "
        "prefers longer texts.",
        least=0,
    )
    no_repeat: int = option(
        3,
        "Length of runs of tokens that no text contains twice, including its prompt; tokens that "
        "a keyword needs are exempt. 0 lets texts repeat.",
        least=0,
        fits=lambda n: n != 1,
        expected="0, or a whole number from 2 on",
    )


@dataclass(frozen=True)
class _Beam:
    """A text that may go on.

    Attributes:
        ids: its tokens.
        log_p: their log-probability.
        need: what it lacks.
        parent: its row in the step before.
    """

    ids: tuple[int, ...]
    log_p: float
    need: Need
    parent: int


class _Request:
    """The search for one text."""

    def __init__(
        self, state: KeywordState, options: BeamOptions, budget: int, ends: frozenset[int]
    ) -> None:
        self._state, self._options, self._budget, self._ends = state, options, budget, ends
        self.live = [_Beam((), 0.0, state.need(()), 0)]
        self.best: Continuation | None = None
        self._score = -torch.inf
        self.passes = 0

    def step(self, log_p: torch.Tensor, free: torch.Tensor, first: int) -> None:
        """One more token.

        Args:
            log_p: of every next token, (beams, vocabulary).
            free: the same, −∞ for tokens that only a keyword may bring.
            first: the row of the first beam.
        """
        self.passes += len(self.live)
        left = self._budget - len(self.live[0].ids) - 1
        likely = free.topk(min(self._options.beams + len(self._ends), free.shape[1]))
        rows = zip(likely.indices.tolist(), likely.values.tolist(), strict=True)
        candidates = []
        for row, (beam, (tokens, values)) in enumerate(zip(self.live, rows, strict=True)):
            following = {t: v for t, v in zip(tokens, values, strict=True) if v > -torch.inf}
            more = beam.need.next if beam.need.tokens else self._ends
            following |= {token: float(log_p[row, token]) for token in more}
            for token, value in following.items():
                total = beam.log_p + value
                if token in self._ends:
                    if not beam.need.tokens:
                        self._finish(beam.ids, total, len(beam.ids) + 1)
                    continue
                ids = (*beam.ids, token)
                need = self._state.need(ids)
                if need.tokens > left:
                    continue
                if left:
                    candidates.append(_Beam(ids, total, need, first + row))
                else:
                    self._finish(ids, total, len(ids))
        self.live = shared_out(candidates, self._options.beams)
        most = max((beam.log_p for beam in self.live), default=-torch.inf)
        if self._score >= self._normalised(most, self._budget):
            self.live = []  # none of them can become better than what there is

    def _finish(self, ids: tuple[int, ...], log_p: float, tokens: int) -> None:
        score = self._normalised(log_p, tokens)
        if score > self._score:
            self._score, self.best = score, Continuation([*ids], steps=tokens)

    def _normalised(self, log_p: float, tokens: int) -> float:
        return float(log_p / tokens**self._options.length_penalty)


def shared_out(candidates: Sequence[_Beam], beams: int) -> list[_Beam]:
    """Returns as many candidates as there are beams: in turn the best of those that need equally
    many tokens, beginning with those that need fewest."""
    ordered = sorted(candidates, key=lambda beam: (beam.need.tokens, -beam.log_p, beam.ids))
    banks = [list(bank) for _, bank in groupby(ordered, key=lambda beam: beam.need.tokens)]
    turns = (beam for turn in zip_longest(*banks) for beam in turn if beam is not None)
    return [beam for beam, _ in zip(turns, range(beams), strict=False)]


def search_all(
    base: LanguageModel,
    prompts: Sequence[Sequence[int]],
    states: Sequence[KeywordState],
    options: BeamOptions,
    decoding: Decoding,
    ends: frozenset[int],
) -> list[Continuation]:
    """Returns the best text that has all keywords, for each prompt.

    The beams of all requests are rows of one batch with one cache. A request's first pass is one
    row, and each later one as many as it has beams. A text that lacks more tokens than the budget
    leaves is given up; a state that needs no more than the budget at the beginning always has a
    text in the end, since one that begins the next keyword is always kept.

    Args:
        prompts: what the base reads, BOS included.
        states: what each text needs; not more than the budget.
        decoding: its `max_new_tokens` is the budget, and its `repetition_penalty` applies.
        ends: ids that end a text, which none does before it has all keywords.
    """
    with torch.inference_mode():
        rows = CausalRows.of(base.model, prompts, base.bos_id, base.device)
        requests = [_Request(state, options, decoding.max_new_tokens, ends) for state in states]
        while True:
            logits = penalised(rows.logits(), rows.ids, rows.mask, decoding.repetition_penalty)
            log_p = normalised(logits)
            free = _without_repeats(log_p, rows, options.no_repeat)
            first = 0
            for request in requests:
                last = first + len(request.live)
                if request.live:
                    request.step(log_p[first:last], free[first:last], first)
                first = last
            beams = [beam for request in requests for beam in request.live]
            if not beams:
                break
            rows.keep(torch.tensor([beam.parent for beam in beams], device=base.device))
            rows.read(torch.tensor([beam.ids[-1] for beam in beams], device=base.device))
    return [_found(request) for request in requests]


def _found(request: _Request) -> Continuation:
    assert request.best is not None
    request.best.passes = request.passes
    return request.best


def _without_repeats(log_p: torch.Tensor, rows: CausalRows, n: int) -> torch.Tensor:
    """log_p, −∞ for tokens that would repeat n tokens of their row, the prompt's among them."""
    if not n:
        return log_p
    free = log_p.clone()
    for row, (ids, mask) in enumerate(zip(rows.ids.tolist(), rows.mask.tolist(), strict=True)):
        repeats = list(_repeats([id for id, real in zip(ids, mask, strict=True) if real], n))
        free[row, repeats] = -torch.inf
    return free


def _repeats(ids: Sequence[int], n: int) -> Iterator[int]:
    """Tokens after which the last n were there before."""
    last = tuple(ids[len(ids) - n + 1 :])
    for i in range(len(ids) - n + 1):
        if tuple(ids[i : i + n - 1]) == last:
            yield ids[i + n - 1]


@dataclass(frozen=True, kw_only=True)
class ConstrainedBeam(BeamOptions, LocalTechnique):
    """The text x of at most T tokens that has all keywords and the largest Σ log p(x_t) / |x|^γ, as
    far as a beam search finds it.

    The beams are shared out among texts that lack equally many tokens of their keywords, so that
    those that have met more do not lose to those that have met none; each text may go on with any
    likely token or with the next token of a keyword. Post and Vilar (2018), "Fast Lexically
    Constrained Decoding with Dynamic Beam Allocation for Neural Machine Translation", section 3,
    after the grid of Hokamp and Liu (2017), "Lexically Constrained Decoding for Sequence Generation
    Using Grid Beam Search".

    Controls keywords, every one of which is in the continuation as a whole word or phrase, with the
    quotation marks and hyphens of the request (typography=exact of `keywords.all`). Nothing is
    drawn: every seed gives the same text. Of the decoding, `max_new_tokens` and
    `repetition_penalty` apply; temperature, `top_k`, `top_p` and `greedy` do not.

    Raises:
        UserError: before the first text, keywords that do not fit the budget.
    """

    name: ClassVar[str] = "constrained-beam"

    @property
    def choices(self) -> Mapping[str, str]:
        return self._shown("beams", "order", "length_penalty", "no_repeat")

    def refusal(self, control: Control) -> str:
        if others := sorted(control.keys() - {KEYWORDS}):
            hint = controlled_by(*sorted(control))
            return f"{self.name}: controls keywords, not {', '.join(others)}; {hint}"
        problem = keyword_problem(control)
        return f"{self.name}: {problem}" if problem else ""

    def _answers(
        self, requests: Sequence[Request], decoding: Decoding, seed: int
    ) -> Iterator[Answer]:
        budget = decoding.max_new_tokens
        needs = {r.id: self._state(self._prompted(r, budget)).need(()).tokens for r in requests}
        if over := [f"'{id}' needs {n}" for id, n in needs.items() if n > budget]:
            more = f"; and {len(over) - 5} more" if len(over) > 5 else ""
            raise UserError(
                f"requests: max_new_tokens is {budget}, and the keywords of "
                f"{'; '.join(over[:5])}{more}"
            )
        yield from super()._answers(requests, decoding, seed)

    def _text_rows(self, request: Request, decoding: Decoding) -> TextRows:  # noqa: ARG002
        return TextRows(self.beams, self.beams)

    log_probs = AnsweringTechnique.log_probs

    def _continue(
        self,
        prompted: Sequence[Prompted],
        decoding: Decoding,
        seed: int,  # noqa: ARG002
    ) -> list[Continuation]:
        prompts, states = [entry.ids for entry in prompted], [self._state(p) for p in prompted]
        return search_all(self.base, prompts, states, self, decoding, self._ends)

    def _state(self, prompted: Prompted) -> KeywordState:
        return KeywordState(
            self.base, prompted.ids, wanted_keywords(prompted.request.control), self.order
        )

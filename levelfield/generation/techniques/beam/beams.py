"""Beam search whose beams are shared out among texts that have met more or less of their keywords.

Post and Vilar (2018), "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural
Machine Translation", section 3; after the grid of Hokamp and Liu (2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

import torch

from levelfield.generation.sampling import Continuation
from levelfield.generation.techniques.beam.keyword_states import KeywordState, Need
from levelfield.models.torch.decoding import CausalRows, normalised
from levelfield.models.torch.draws import penalised
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True)
class BeamSearch:
    """How texts are searched.

    Attributes:
        beams: texts that are kept of each request at each step.
        budget: the most tokens of a text.
        length_penalty: γ; a text of T tokens has the score Σ log p / T^γ.
        no_repeat: no text repeats so many tokens in a row; 0 lets it. Tokens that a keyword needs
            are free of this.
        repetition_penalty: θ, as of `penalised`.
    """

    beams: int
    budget: int
    length_penalty: float
    no_repeat: int
    repetition_penalty: float


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

    def __init__(self, state: KeywordState, search: BeamSearch, ends: frozenset[int]) -> None:
        self._state, self._search, self._ends = state, search, ends
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
        left = self._search.budget - len(self.live[0].ids) - 1
        likely = free.topk(min(self._search.beams + len(self._ends), free.shape[1]))
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
        self.live = shared_out(candidates, self._search.beams)
        most = max((beam.log_p for beam in self.live), default=-torch.inf)
        if self._score >= self._normalised(most, self._search.budget):
            self.live = []  # none of them can become better than what there is

    def _finish(self, ids: tuple[int, ...], log_p: float, tokens: int) -> None:
        score = self._normalised(log_p, tokens)
        if score > self._score:
            self._score, self.best = score, Continuation([*ids], steps=tokens)

    def _normalised(self, log_p: float, tokens: int) -> float:
        return float(log_p / tokens**self._search.length_penalty)


def shared_out(candidates: Sequence[_Beam], beams: int) -> list[_Beam]:
    """Of candidates so many, the best of those that need equally many tokens in turn, those first
    that need fewest."""
    ordered = sorted(candidates, key=lambda one: (one.need.tokens, -one.log_p, one.ids))
    banks = [list(bank) for _, bank in groupby(ordered, key=lambda one: one.need.tokens)]
    turns = (one for turn in zip_longest(*banks) for one in turn if one is not None)
    return [one for one, _ in zip(turns, range(beams), strict=False)]


def search_all(
    base: LanguageModel,
    prompts: Sequence[Sequence[int]],
    states: Sequence[KeywordState],
    search: BeamSearch,
    ends: frozenset[int],
) -> list[Continuation]:
    """The best text that has all keywords, for each prompt.

    The beams of all requests are rows of one batch with one cache. A request's first pass is one
    row, and each later one as many as it has beams. A text that lacks more tokens than the budget
    leaves is given up; a state that needs no more than the budget at the beginning always has a
    text in the end, since one that begins the next keyword is always kept.

    Args:
        prompts: what the base reads, BOS included.
        states: what each text needs; not more than the budget.
        ends: ids that end a text, which none does before it has all keywords.
    """
    with torch.inference_mode():
        rows = CausalRows.of(base.model, prompts, base.bos_id, base.device)
        requests = [_Request(state, search, ends) for state in states]
        while True:
            logits = penalised(rows.logits(), rows.ids, rows.mask, search.repetition_penalty)
            log_p = normalised(logits)
            free = _without_repeats(log_p, rows, search.no_repeat)
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

"""A formula as a logits processor of `transformers`: the same in our loop and in `generate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from transformers import LogitsProcessor

from levelfield.core.errors import UserError
from levelfield.core.sample import Control
from levelfield.generation.contract import Decoding
from levelfield.generation.logits.readers import Readers, Texts
from levelfield.generation.logits.terms import Bound, Formula, Step
from levelfield.models.torch.draws import penalised, possible

Support = Callable[[torch.Tensor], torch.Tensor]
"""Base log-probabilities (rows, vocabulary) -> which tokens may be chosen (rows, vocabulary)."""


def plausible(alpha: float) -> Support:
    """Returns the tokens v with p(v) ≥ α max p (Li et al. 2022, section 3.2); never none.

    Args:
        alpha: α in (0, 1]; 1 leaves the most likely token.
    """
    log_alpha = float(torch.tensor(alpha, dtype=torch.float64).log())
    return lambda log_p: log_p >= log_p.max(-1, keepdim=True).values + log_alpha


def likeliest(n: int) -> Support:
    """Returns the n tokens v with the highest p(v), and those that are as likely as the last."""
    return lambda log_p: possible(log_p, n, 1.0)


class SteeringProcessor(LogitsProcessor):  # type: ignore[misc]
    """Replaces the base's logits by the log-probabilities that a formula makes of them.

    For each row: logits with the repetition penalty → log-probabilities of the base → the tokens
    that `decoding` leaves of them, and `support` of these → the formula on those, divided by the
    temperature; −∞ elsewhere. A formula of None, or of nothing but the base, leaves the base's own
    numbers.

    Helper models read along with a cache. In `model.generate` the processor follows the rows by
    what they hold, through beam search, too.

    Args:
        formula: what the terms add up to.
        controls: one a prompt.
        mask: attention mask of the prompts, (prompts, tokens); None where there is no padding.
        decoding: what may be chosen. `generate` samples with its own options after this.
        support: leaves fewer tokens, given the base's log-probabilities.
    """

    supports_continuous_batching = False

    def __init__(
        self,
        formula: Formula | None,
        controls: Sequence[Control],
        *,
        mask: torch.Tensor | None = None,
        decoding: Decoding = Decoding(),  # noqa: B008
        support: Support | None = None,
    ) -> None:
        self._formula, self._controls = formula, list(controls)
        self._prompt_mask = mask
        self._decoding, self._support = decoding, support
        self._ids: torch.Tensor | None = None
        self._mask = torch.empty(0)
        self._beams = 1
        self._bound: Bound | None = None
        self._readers = Readers()
        self._last: tuple[Step, torch.Tensor | None]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Logits of the next token (rows, vocabulary) → log-probabilities (rows, vocabulary)."""
        self._follow(input_ids)
        decoding = self._decoding
        plain = scores.to(torch.promote_types(scores.dtype, torch.float32))
        logits = penalised(plain, input_ids, self._mask, decoding.repetition_penalty)
        log_p = logits.log_softmax(-1)
        if self._bound:
            plain = log_p if logits is plain else plain.log_softmax(-1)
        may = self._may(log_p, decoding.top_k, decoding.top_p)
        step = Step(input_ids, self._mask, log_p, plain, may)
        values = self._bound.values(step) if self._bound else log_p
        self._last = step, None if step.depends_on_support else values
        return self._scores(log_p, values, may)

    def uncut(self) -> torch.Tensor:
        """Returns what the last call would have returned if `decoding` had neither top_k nor top_p:
        (rows, vocabulary)."""
        step, values = self._last
        may = self._may(step.log_p, 0, 1.0)
        if values is None:
            assert self._bound
            values = self._bound.values(Step(step.ids, step.mask, step.log_p, step.plain, may))
        return self._scores(step.log_p, values, may)

    def _may(self, log_p: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
        may = possible(log_p / self._decoding.temperature, top_k, top_p)
        return may & self._support(log_p) if self._bound and self._support else may

    def _scores(self, log_p: torch.Tensor, values: torch.Tensor, may: torch.Tensor) -> torch.Tensor:
        if self._bound:
            # a term may leave tokens out; where it leaves none, it has no say
            none = (values.isneginf() | ~may).all(-1, keepdim=True)
            values = torch.where(none, log_p, values)
        values = (values / self._decoding.temperature).masked_fill(~may, -torch.inf)
        return values.log_softmax(-1)  # terms have constants of their own, and beams are compared

    @property
    def passes(self) -> int:
        """Rows sent through helper models so far, for each row of the batch."""
        return self._readers.passes if self._bound else 0

    @property
    def backward_passes(self) -> int:
        """Rows that gradients went back through so far, for each row of the batch."""
        return self._readers.backward_passes if self._bound else 0

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these rows only, in this order."""
        assert self._ids is not None
        self._ids, self._mask = self._ids[rows], self._mask[rows]
        if self._bound:
            self._readers.keep(rows)
            self._bound.keep(rows)

    def _follow(self, input_ids: torch.Tensor) -> None:
        """Lets helper models read what the rows have got since the last step."""
        sources = self._sources(input_ids)
        if sources is None:
            self._begin(input_ids)
            return
        if sources != list(range(len(sources))):
            self.keep(torch.tensor(sources, device=input_ids.device))
        tokens = input_ids[:, -1]
        self._ids = input_ids
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        if self._bound:
            self._bound.read(tokens)
            self._readers.read(tokens)

    def _sources(self, input_ids: torch.Tensor) -> list[int] | None:
        """Returns the row of the last step that each row continues: itself, or else the first of
        its beams. None if some row continues none, so that these are other texts."""
        if self._ids is None or input_ids.shape != (len(self._ids), self._ids.shape[1] + 1):
            return None
        rows = list(range(len(input_ids)))
        if torch.equal(self._ids, input_ids[:, :-1]):
            return rows
        previous, current = (
            [(row // self._beams, ids.tobytes()) for row, ids in enumerate(texts.cpu().numpy())]
            for texts in (self._ids, input_ids[:, :-1])
        )
        first = {text: row for row, text in reversed([*enumerate(previous)])}
        if not first.keys() >= set(current):
            return None
        return [row if current[row] == previous[row] else first[current[row]] for row in rows]

    def _begin(self, input_ids: torch.Tensor) -> None:
        rows = len(input_ids)
        self._beams, rest = divmod(rows, max(1, len(self._controls)))
        if rest or not self._beams:
            raise UserError(f"{rows} rows for {len(self._controls)} controls: give one per prompt")
        mask = torch.ones_like(input_ids)
        if self._prompt_mask is not None:
            prompts = self._prompt_mask.to(input_ids.device)
            repeats = rows // len(prompts)
            mask[:, : prompts.shape[1]] = prompts.repeat_interleave(repeats, dim=0)
        self._ids, self._mask = input_ids, mask
        self._bound, self._readers = None, Readers()
        if self._formula is not None and not self._formula.is_base:
            controls = [control for control in self._controls for _ in range(self._beams)]
            self._bound = self._formula.bind(controls, self._readers)
            self._readers.start(Texts(input_ids, mask))

"""BOLT's decode pass: greedy decoding under biases, through which gradients go.

o = onehot(argmax s) + softmax(s) − sg(softmax(s)), where sg stops gradients (Bengio et al. 2013,
"Estimating or propagating gradients through stochastic neurons"). The vectors o are never made:
what is computed of them is looked up, and gradients take the way through the softmax.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from levelfield.generation.open_rows import ReadPrompts, float32_or_wider, token_vectors
from levelfield.models.torch.draws import penalised
from levelfield.models.torch.language_model import LanguageModel


class StraightThrough:
    """The likeliest token of each row of scores.

    Args:
        scores: (rows, vocabulary); minus infinity for tokens that may not be chosen.

    Attributes:
        tokens: (rows,).
    """

    def __init__(self, scores: torch.Tensor) -> None:
        self._scores = scores
        self.tokens = scores.detach().argmax(-1)

    def vectors(self, table: torch.Tensor) -> torch.Tensor:
        """o · table: a table (vocabulary, d), which gets no gradient → (rows, d)."""
        vectors: torch.Tensor = _Vectors.apply(  # type: ignore[no-untyped-call]
            self._scores, self.tokens, table
        )
        return vectors

    def values(self, values: torch.Tensor) -> torch.Tensor:
        """Σ_v o_v values_v: (rows, vocabulary) → (rows,)."""
        sums: torch.Tensor = _Values.apply(  # type: ignore[no-untyped-call]
            self._scores, self.tokens, values
        )
        return sums

    def log_likelihood(self, logits: torch.Tensor, *, hard: bool = False) -> torch.Tensor:
        """Σ_v o_v log softmax(logits)_v: (rows, vocabulary) → (rows,).

        Args:
            hard: let no gradient go through o.
        """
        chosen = logits.gather(-1, self.tokens[:, None])[:, 0] if hard else self.values(logits)
        return chosen - logits.logsumexp(-1)

    def log_p(self, tokens: torch.Tensor) -> torch.Tensor:
        """log softmax(s) of given tokens: (rows, n) → (rows, n)."""
        return self._scores.gather(-1, tokens) - self._scores.logsumexp(-1, keepdim=True)


class _Vectors(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, tokens: torch.Tensor, table: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(scores, table)
        return table[tokens]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scores, table = ctx.saved_tensors
        o_gradient = gradients[0] @ table.T
        return _through_softmax(scores, o_gradient.to(scores.dtype)), None, None


class _Values(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, scores: torch.Tensor, tokens: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(scores, tokens, values)
        return values.gather(-1, tokens[:, None])[:, 0]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        scores, tokens, values = ctx.saved_tensors
        gradient = gradients[0][:, None]
        score_gradient = value_gradient = None
        if ctx.needs_input_grad[0]:
            score_gradient = _through_softmax(scores, (gradient * values).to(scores.dtype))
        if ctx.needs_input_grad[2]:
            value_gradient = torch.zeros_like(values).scatter_(-1, tokens[:, None], gradient)
        return score_gradient, None, value_gradient


def _through_softmax(scores: torch.Tensor, p_gradient: torch.Tensor) -> torch.Tensor:
    """Gradient with respect to softmax(scores) → gradient with respect to scores."""
    p = scores.softmax(-1)
    weighted = p * p_gradient
    return weighted - p * weighted.sum(-1, keepdim=True)


@dataclass(frozen=True, eq=False)
class Rollout:
    """Texts that were written under biases.

    Attributes:
        prompts: what they follow.
        chosen: the straight-through tokens of each position.
        vectors: what the base reads in place of them, (rows, tokens, d), by the way of which
            energies get their gradients.
        log_likelihood: log p(y_t | y_<t) of the base, without biases, (rows, tokens).
        states: of the base's last layer for each token, (rows, tokens, d), if they are wanted.
    """

    prompts: ReadPrompts
    chosen: Sequence[StraightThrough]
    vectors: torch.Tensor
    log_likelihood: torch.Tensor
    states: torch.Tensor | None = None

    @property
    def tokens(self) -> torch.Tensor:
        """The ids that were chosen: (rows, tokens)."""
        return torch.stack([choice.tokens for choice in self.chosen], dim=1)

    def log_p(self, tokens: torch.Tensor) -> torch.Tensor:
        """log-probabilities of given tokens at each position, under the biases: (rows, n) →
        (rows, positions, n)."""
        return torch.stack([choice.log_p(tokens) for choice in self.chosen], dim=1)


def roll_out(
    base: LanguageModel,
    prompts: ReadPrompts,
    biases: torch.Tensor,
    *,
    penalty: float = 1.0,
    banned: torch.Tensor | None = None,
    with_states: bool = False,
    hard_targets: bool = False,
) -> Rollout:
    """y_t = argmax_v (z_t + W b_t)_v, where z_t are the logits of the base after y_<t, penalised
    for repetition, and W is its output embedding.

    Gradients leave out the penalty, and go through each y_t as through softmax(z_t + W b_t).

    Args:
        biases: b, (rows, tokens, d); as many tokens as the texts get.
        penalty: θ of `penalised`; of the prompt's tokens and of those written.
        banned: ids that are never chosen.
        with_states: reads the last token, too, which nothing else needs.
        hard_targets: let no gradient of `log_likelihood` go through a token as what is predicted,
            but only as what is read.
    """
    table, weight = token_vectors(base.model), base.model.get_output_embeddings().weight
    offsets = torch.nn.functional.linear(biases.to(weight.dtype), weight)
    rows = prompts.continuation()
    states: list[torch.Tensor] = []
    ids, mask = prompts.ids, prompts.mask
    logits = prompts.logits
    chosen: list[StraightThrough] = []
    vectors: list[torch.Tensor] = []
    log_likelihood: list[torch.Tensor] = []
    for t in range(biases.shape[1]):
        if t:
            read = rows.read(vectors[-1][:, None], output_hidden_states=with_states)
            logits = read.logits[:, -1]
            states += [read.hidden_states[-1]] if with_states else []
        scores = float32_or_wider(logits)
        token = StraightThrough(
            _without(_penalised(scores, ids, mask, penalty) + offsets[:, t], banned)
        )
        chosen.append(token)
        vectors.append(token.vectors(table))
        log_likelihood.append(token.log_likelihood(scores, hard=hard_targets))
        ids = torch.cat([ids, token.tokens[:, None]], dim=1)
        mask = torch.cat([mask, mask.new_ones(len(ids), 1)], dim=1)
    if with_states:
        read = rows.read(vectors[-1][:, None], output_hidden_states=True)
        states.append(read.hidden_states[-1])
    return Rollout(
        prompts,
        chosen,
        torch.stack(vectors, dim=1),
        torch.stack(log_likelihood, dim=1),
        torch.cat(states, dim=1) if with_states else None,
    )


@functools.lru_cache(maxsize=8)
def unwanted(base: LanguageModel) -> torch.Tensor:
    """Tokens that are never chosen, so that texts keep their length and their line: special ones,
    those that end a text, and those with a line break in them: (n,)."""
    tokenizer, width = base.tokenizer, base.tokens.vocabulary_size
    ids = range(min(len(tokenizer), width))
    texts = tokenizer.batch_decode([[id] for id in ids], clean_up_tokenization_spaces=False)
    breaks = {id for id, text in zip(ids, texts, strict=True) if text != "".join(text.splitlines())}
    special = {id for id in tokenizer.all_special_ids if id < width}
    return torch.tensor(sorted(breaks | special | base.ends), device=base.device)


def _penalised(
    logits: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor, penalty: float
) -> torch.Tensor:
    """Penalised logits, with the gradient of those that are not."""
    if penalty == 1:
        return logits
    raw = logits.detach()
    return logits + (penalised(raw, ids, mask, penalty) - raw)


def _without(scores: torch.Tensor, banned: torch.Tensor | None) -> torch.Tensor:
    return scores if banned is None else scores.index_fill(-1, banned, -torch.inf)

"""An encoder-decoder that writes: a source in, a text out, token by token."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from levelfield.core.errors import ModelError
from levelfield.generation.sampling import Choice, Continuation, Draw, Growth, Steering, grow
from levelfield.models.infilling import positions
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve
from levelfield.models.tokens import Tokens, padded
from levelfield.models.torch.decoding import EncoderDecoderRows, normalised
from levelfield.models.torch.draws import penalised
from levelfield.models.torch.language_model import KEPT
from levelfield.models.torch.loading import batch_of, load_pretrained

IGNORED = -100
"""The label of what is not a token of a target."""


@dataclass(frozen=True, eq=False)
class Seq2Seq:
    """An encoder-decoder and how it reads and writes texts.

    Attributes:
        model: of `transformers`.
        tokenizer: its own.
        label: how signatures name it.
        tokens: reads texts; knows the special tokens around them.
        limit: tokens of the longest source and of the longest text, special ones included.
        start: the token that the decoder begins with.
        end: the token that ends a text.
        pad: fills sources.
    """

    model: Any
    tokenizer: Any
    label: str
    tokens: Tokens
    limit: int
    start: int
    end: int
    pad: int

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def source(self, text: str) -> tuple[list[int], bool]:
        """What the encoder reads, and whether the end of the text was cut off."""
        ids = self.tokens.ids([text])[0]
        room = self.limit - len(self.tokens.before) - len(self.tokens.after)
        return [*self.tokens.before, *ids[:room], *self.tokens.after], len(ids) > room

    def target(self, text: str) -> list[int]:
        """What the decoder writes, with the token that ends it."""
        after = self.tokens.after if self.end in self.tokens.after else [self.end]
        room = self.limit - 1 - len(self.tokens.before) - len(after)
        return [*self.tokens.before, *self.tokens.ids([text])[0][:room], *after]

    def text(self, ids: Sequence[int]) -> str:
        """Returns the text of tokens, without special ones; a character cut in two is left out."""
        text: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.rstrip("\N{REPLACEMENT CHARACTER}").strip()

    def encoded(self, sources: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Padded ids and their mask, (rows, tokens) each."""
        ids, mask = batch_of(sources, self.pad, self.device).values()
        return ids, mask


@functools.lru_cache(maxsize=KEPT)
def seq2seq(name: str, loading: Loading = AS_USUAL) -> Seq2Seq:
    """Returns the encoder-decoder of this name, loaded once a process.

    Raises:
        ModelError: there is no such model, or it is of another kind.
    """
    return open_seq2seq(name, loading)


def open_seq2seq(name: str, loading: Loading) -> Seq2Seq:
    """Returns an encoder-decoder, loaded afresh."""
    resolved = resolve(name, loading)
    model, tokenizer = load_pretrained(resolved, "encoder-decoder", loading)
    return as_seq2seq(model, tokenizer, resolved.label)


def as_seq2seq(model: Any, tokenizer: Any, label: str) -> Seq2Seq:
    """Returns a model of `transformers` that the caller has loaded.

    Raises:
        ModelError: it does not say which token begins or ends a text.
    """
    start, end = model.config.decoder_start_token_id, tokenizer.eos_token_id
    if start is None or end is None:
        raise ModelError(f"model '{label}' does not say which token begins and ends a text")
    pad = tokenizer.pad_token_id
    return Seq2Seq(
        model,
        tokenizer,
        label,
        Tokens(tokenizer),
        positions(model.config),
        int(start),
        int(end),
        int(end if pad is None else pad),
    )


# -- probabilities of texts


def token_log_p(
    model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[torch.Tensor, torch.Tensor]:
    """log P(token | source, tokens before it) of targets, and which of them are tokens: both (rows,
    tokens); 0 where there is none. Gradients are recorded if they are on."""
    ids, mask = model.encoded(sources)
    shown = [[model.start, *target[:-1]] for target in targets]
    inputs = torch.from_numpy(padded(shown, model.pad))
    labels = torch.from_numpy(padded(targets, IGNORED)).to(model.device)
    logits = model.model(
        input_ids=ids,
        attention_mask=mask,
        decoder_input_ids=inputs.to(model.device),
        use_cache=False,
    ).logits
    is_token = labels != IGNORED
    chosen = normalised(logits).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return chosen.masked_fill(~is_token, 0), is_token


# -- writing


class Penalised:
    """Logits with a repetition penalty, as a `Steering` without other models."""

    passes = backward_passes = 0

    def __init__(self, penalty: float = 1.0) -> None:
        self._penalty = penalty

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return penalised(scores, input_ids, torch.ones_like(input_ids), self._penalty)

    def keep(self, rows: torch.Tensor) -> None:
        """Nothing to keep."""


class Sampled:
    """A token from the model's own distribution, with PyTorch's generator."""

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        return normalised(scores).exp().multinomial(1)[:, 0]

    def keep(self, rows: Sequence[int]) -> None:
        """Nothing to keep."""


@torch.no_grad()
def write(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    budgets: Sequence[int],
    steering: Steering = Penalised(),  # noqa: B008
    choice: Choice = Draw(None),  # noqa: B008
) -> list[Continuation]:
    """Writes a text a source: the likeliest token at every step, unless `choice` takes another.

    Args:
        sources: what the encoder reads.
        budgets: the most tokens of each text, at least 1.
        steering, choice: as of `grow`.
    """
    growth = Growth(choice, budgets, frozenset({model.end}))
    return grow(_Rows.of(model, sources), steering, growth)


@torch.no_grad()
def beam_search(
    model: Seq2Seq, source: Sequence[int], beams: int, budget: int, *, penalty: float = 1.0
) -> Continuation:
    """The text of the highest mean log-probability a token that a search with `beams` beams finds.

    At every step the likeliest `beams` continuations of all beams go on. The search ends when
    `beams` texts have ended, or at the budget, where the unfinished ones count as texts. One beam
    is the greedy text.

    Args:
        budget: the most tokens of a text, at least 1.
        penalty: of repetitions.
    """
    rows = _Rows.of(model, [source])
    totals = torch.zeros(1, dtype=torch.float64, device=model.device)
    texts: list[tuple[float, list[int], bool]] = []
    passes = 0
    for step in range(1, budget + 1):
        passes += len(totals)
        logits = penalised(rows.logits(), rows.ids, torch.ones_like(rows.ids), penalty)
        scores = totals[:, None] + normalised(logits).double()
        width = scores.shape[1]
        best = scores.flatten().topk(min(2 * beams, scores.numel()))
        going: list[tuple[int, int, float]] = []
        for rank, (total, cell) in enumerate(
            zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ):
            row, token = divmod(cell, width)
            if token == model.end:
                if rank < beams:
                    texts.append((total / step, rows.ids[row, 1:].tolist(), True))
            elif len(going) < beams:
                going.append((row, token, total))
        if len(texts) >= beams or not going:
            break
        kept = torch.tensor([row for row, _, _ in going], device=model.device)
        rows.keep(kept)
        rows.read(torch.tensor([token for _, token, _ in going], device=model.device))
        totals = torch.tensor([total for _, _, total in going], device=model.device).double()
        if step == budget:
            texts += [
                (total / step, ids, False)
                for (_, _, total), ids in zip(going, rows.ids[:, 1:].tolist(), strict=True)
            ]
    _, ids, ended = max(texts, key=lambda text: text[0])
    return Continuation(ids, len(ids) + ended, passes)


class _Rows(EncoderDecoderRows):
    """Rows with a source each."""

    @classmethod
    def of(cls, model: Seq2Seq, sources: Sequence[Sequence[int]]) -> _Rows:
        ids, mask = model.encoded(sources)
        states = model.model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        begin = torch.full((len(sources), 1), model.start, device=model.device)
        return cls(model.model, states, mask, begin, use_cache=True)

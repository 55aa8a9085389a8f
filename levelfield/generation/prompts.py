"""What models read of a text with a gap, and which tokens end what they write there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from levelfield.core.errors import ModelError, UserError
from levelfield.generation.rows import CausalRows, EncoderDecoderRows, GrowingRows
from levelfield.models.batching import padded, token_mask, window
from levelfield.models.causal_tokens import CausalTokens
from levelfield.models.contracts import Gapped
from levelfield.models.gaps import FIM, GAP_STYLES
from levelfield.models.infilling import positions
from levelfield.models.tokens import Tokens


class PromptFormat(Protocol):
    """How models read a text with a gap, and which tokens end what they write there."""

    name: str
    sees_right: bool
    ends: set[int]

    def prompts(self, sources: Sequence[Gapped], max_tokens: int) -> list[list[int]]: ...
    def decoding(
        self, model: Any, prompts: Sequence[list[int]], device: torch.device, use_cache: bool
    ) -> GrowingRows: ...


class GapFormat:
    """Encoder-decoders: the encoder reads the text with its gap token."""

    sees_right = True

    def __init__(self, tokenizer: Any, configs: Sequence[Any]) -> None:
        family = configs[0].model_type
        # BART writes the whole text again, not what is missing in it
        known = sorted(GAP_STYLES.keys() - {"bart"})
        if family not in known:
            raise ModelError(
                f"a {family} model fills no gaps with segments alone; families that do: "
                f"{', '.join(known)}, and causal models"
            )
        self.name = family
        self._style = GAP_STYLES[family]
        self._tokens = Tokens(tokenizer, marks=True)
        self._limit = min(positions(config) for config in configs)
        gap, *given = (self._single(t) for t in (self._style.token, *self._style.given))
        self._gap = gap
        self._start = [configs[0].decoder_start_token_id, *given]
        self._pad = int(configs[0].pad_token_id)
        following = self._tokens.single("<extra_id_1>") if given else None
        self.ends = {i for i in (tokenizer.eos_token_id, following) if i is not None}

    def _single(self, token: str) -> int:
        found = self._tokens.single(token)
        if found is None:
            raise ModelError(f"the models' tokenizer does not know the token {token}")
        return found

    def prompts(self, sources: Sequence[Gapped], max_tokens: int) -> list[list[int]]:
        _room(self._limit, max_tokens + len(self._start))
        mark = self._style.token
        near = [
            _at_gap(Gapped(source.left.replace(mark, " "), source.right.replace(mark, " ")))
            for source in sources
        ]
        return self._tokens.fit(near, self._limit, join=self._style.join, gap_id=self._gap)[0]

    def decoding(
        self, model: Any, prompts: Sequence[list[int]], device: torch.device, use_cache: bool
    ) -> GrowingRows:
        ids = torch.from_numpy(padded(prompts, self._pad)).to(device)
        mask = torch.from_numpy(token_mask(prompts)).to(device)
        states = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        start = torch.tensor([self._start] * len(prompts), device=device)
        return EncoderDecoderRows(model, states, mask, start, use_cache)


class CausalFormat:
    """Causal models: both sides, if the tokenizer has the marks for them, else the left side."""

    def __init__(self, tokenizer: Any, configs: Sequence[Any]) -> None:
        vocabulary = tokenizer.get_vocab()
        self.sees_right = all(mark in vocabulary for mark in FIM)
        self.name = "fim" if self.sees_right else "left"
        self._marks = [vocabulary[mark] for mark in FIM] if self.sees_right else []
        each = [CausalTokens(tokenizer, config) for config in configs]
        self._tokens = each[0]
        self._limit = min(tokens.limit for tokens in each)
        self.ends = {i for i in (tokenizer.eos_token_id,) if i is not None}

    def prompts(self, sources: Sequence[Gapped], max_tokens: int) -> list[list[int]]:
        room = _room(self._limit, max_tokens)
        # no token of a usual vocabulary spans 64 characters: this cut never shows in what is kept
        near = [_at_gap(source).near(64 * self._limit) for source in sources]
        lefts = self._tokens.ids([source.left for source in near])
        if not self.sees_right:
            return [[self._tokens.bos_id, *left[max(0, len(left) - room + 1) :]] for left in lefts]
        rights = self._tokens.ids([source.right for source in near])
        return [self._marked(left, right, room) for left, right in zip(lefts, rights, strict=True)]

    def _marked(self, left: list[int], right: list[int], room: int) -> list[int]:
        prefix, suffix, middle = self._marks
        on_left, on_right = window(len(left), len(right), room - len(self._marks))
        left = left[len(left) - on_left :]
        return [prefix, *left, suffix, *right[:on_right], middle]

    def decoding(
        self, model: Any, prompts: Sequence[list[int]], device: torch.device, use_cache: bool
    ) -> GrowingRows:
        return CausalRows.of(model, prompts, self._tokens.bos_id, device, use_cache)


def _at_gap(source: Gapped) -> Gapped:
    return source._replace(left=source.left.rstrip(" \t"))


def _room(limit: int, max_tokens: int) -> int:
    if not 1 <= max_tokens < limit // 2:
        raise UserError(
            f"max_tokens is {max_tokens}; expected 1 to {limit // 2 - 1}, half of the "
            f"{limit} tokens that the models take"
        )
    return limit - max_tokens

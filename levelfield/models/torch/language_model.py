"""A causal language model that writes: weights, tokenizer, and how texts become tokens and back."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from levelfield.core.errors import ModelError
from levelfield.io.problems import printable
from levelfield.models.causal_tokens import Bos, CausalTokens, rule
from levelfield.models.loading import Loading
from levelfield.models.resolve import Resolved, resolve_causal
from levelfield.models.torch.causal import warn_of_bos
from levelfield.models.torch.loading import load_pretrained

KEPT = 4
"""How many models a process keeps, those used last."""


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal model in evaluation mode.

    Attributes:
        model: of `transformers`, or what is called like one.
        tokenizer: its own.
        label: how signatures name it.
        tokens: reads texts; knows how they begin and the model's limit.
        ends: ids that end a text.
    """

    model: Any
    tokenizer: Any
    label: str
    tokens: CausalTokens
    ends: frozenset[int]

    @property
    def reads_bos(self) -> bool:
        """Whether BOS precedes every text."""
        return self.tokens.reads_bos

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    @property
    def bos_id(self) -> int:
        """The BOS token, or EOS where the tokenizer has none."""
        return self.tokens.bos_id

    @property
    def opening(self) -> list[int]:
        """Returns the tokens before every text or code."""
        return self.tokens.opening

    def ids(self, text: str) -> list[int]:
        """Returns the tokens of a text, without special ones."""
        return self.tokens.ids([text])[0]

    def continuation(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """Returns the text of tokens that follow others; a character cut in two is left out."""
        beginning, whole = self.text(before), self.text([*before, *ids])
        text = whole[len(beginning) :] if whole.startswith(beginning) else self.text(ids)
        return text.rstrip("\N{REPLACEMENT CHARACTER}")

    def text(self, ids: Sequence[int]) -> str:
        """Returns the text of tokens that nothing precedes, without special ones and those of soft
        prompts."""
        text: str = self.tokenizer.decode(
            self.real(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text

    def real(self, ids: Sequence[int]) -> list[int]:
        """Returns those ids that are tokens of the vocabulary; rows of soft prompts have ids beyond
        it."""
        return [id for id in ids if id < self.tokens.vocabulary_size]


@functools.lru_cache(maxsize=KEPT)
def language_model(name: str, loading: Loading = Loading()) -> LanguageModel:  # noqa: B008
    """Returns the causal model of this name, loaded once a process.

    Raises:
        ModelError: the model does not exist, or is of another kind.
    """
    return open_language_model(resolve_causal(name, loading), loading)


@functools.lru_cache(maxsize=2 * KEPT)
def begun(model: LanguageModel, bos: Bos) -> LanguageModel:
    """Returns the same model, whose texts begin as the option says; `auto` leaves it as it is."""
    if bos == "auto" or bos == model.reads_bos:
        return model
    changed = replace(model, tokens=model.tokens.beginning(bos))
    warn_of_bos(model.model, changed.tokens, model.label)
    return changed


def open_language_model(
    resolved: Resolved, loading: Loading, *, first: str | None = None
) -> LanguageModel:
    """Loads a causal model and returns it, without the cache of `language_model`.

    Args:
        first: the token that counts as BOS, if not the tokenizer's own.
    """
    model, tokenizer = load_pretrained(resolved, "causal", loading)
    id = None if first is None else int(tokenizer.convert_tokens_to_ids(first))
    return wrapped(model, tokenizer, resolved.label, id, rule(resolved, "auto"))


def wrapped(
    model: Any, tokenizer: Any, label: str, first: int | None = None, bos: Bos = "auto"
) -> LanguageModel:
    """Returns a model of `transformers` that the caller has loaded.

    Args:
        first: the token that counts as BOS, if not the tokenizer's own.
        bos: whether BOS precedes every text.
    """
    tokens = CausalTokens(tokenizer, model.config, first, bos=bos)
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ends = [*named] if isinstance(named, list) else [named]
    if not all(id is None or type(id) is int for id in ends):
        raise ModelError(
            f"model '{label}': eos_token_id in generation_config.json is {printable(str(named))}; "
            "expected a whole number, or a list of them"
        )
    ends += [tokenizer.eos_token_id, tokenizer.bos_token_id]
    return LanguageModel(
        model, tokenizer, label, tokens, frozenset(id for id in ends if id is not None)
    )

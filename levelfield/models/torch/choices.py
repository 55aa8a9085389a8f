"""P(answer | prompt) of each of a few answers, from a model on this machine."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError
from levelfield.models.causal_tokens import Bos, CausalTokens, rule
from levelfield.models.contracts import PLAIN, ChoosingModel, Gapped, Target
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.tokens import padded, unique
from levelfield.models.torch.caches import cache_of, with_cache
from levelfield.models.torch.infilling import TorchInfillingModel
from levelfield.models.torch.loading import load_pretrained

_DIGITS = tuple("0123456789")


def _control_tokens(tokenizer: Any) -> tuple[str, ...]:
    added = tokenizer.added_tokens_decoder.values()
    contents = {token.content for token in added if token.special and token.content.strip()}
    return tuple(sorted(contents | {t for t in tokenizer.all_special_tokens if t.strip()}))


class EncoderDecoderChoices:
    """Encoder-decoder models: the encoder reads the prompt, the decoder writes the number and EOS.

    log P(s | prompt) = Σ log P(token of s | …) + log P(EOS | …). The numbers of one prompt share
    its encoder pass.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = TorchInfillingModel(model, tokenizer, style=PLAIN)
        self.limit = self._model.source_limit
        self.control_tokens = _control_tokens(tokenizer)

    def length(self, prompt: str) -> int:
        """Returns the number of tokens of a prompt."""
        return len(self._model.token_ids([prompt])[0])

    def log_p(self, prompts: Sequence[str], numbers: Sequence[int]) -> Floats:
        """Returns log P(number | prompt): (prompts, numbers), in nats."""
        targets = [Target(str(number), end=True) for number in numbers]
        likelihoods = self._model.log_likelihood(
            [Gapped("", prompt, gap=False) for prompt in prompts], [targets] * len(prompts)
        )
        return np.array(
            [[log_p.sum() for log_p in prompt_log_p] for prompt_log_p in likelihoods.log_p]
        )


class CausalChoices:
    """Causal models, through their chat template where the tokenizer has one.

    log P(s | prompt) = Σ log P(token of s | …) + log Σ P(token that begins with no digit | …): the
    number and not one that goes on, so that 1 is not also 10; what else follows is free. A chat
    model is to answer with the number at once (templates that know `enable_thinking` get it as
    False). A prompt without a template begins as a text does (`causal_tokens`) and ends in a colon,
    and a blank and the number follow.

    Tokens that all prompts begin with pass through the model once; the numbers of one prompt are
    one batch after the prompt's keys and values.
    """

    def __init__(self, model: Any, tokenizer: Any, bos: Bos = "auto") -> None:
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._chats = bool(tokenizer.chat_template)
        tokens = CausalTokens(tokenizer, model.config, bos=bos)
        self._begun = tokens.begun
        self._device = next(model.parameters()).device
        self.limit = tokens.limit - _ROOM
        self.control_tokens = _control_tokens(tokenizer)
        ends = np.ones(tokens.vocabulary_size, np.bool_)
        for word, id in tokenizer.get_vocab().items():
            if word[:1] in _DIGITS and id < len(ends):
                ends[id] = False
        self._ends = torch.from_numpy(ends).to(self._device)

    def length(self, prompt: str) -> int:
        """Returns the number of tokens of a prompt."""
        return len(self._ids(prompt))

    def log_p(self, prompts: Sequence[str], numbers: Sequence[int]) -> Floats:
        """Returns log P(number | prompt): (prompts, numbers), in nats."""
        distinct, place = unique(prompts)
        prompt_ids = [self._ids(prompt) for prompt in distinct]
        answers = [self._answer_ids(number) for number in numbers]
        shared = _shared(prompt_ids)
        with torch.inference_mode():
            start = self._forward(shared, None)[1] if shared else None
            rows = [self._answers_log_p(ids[len(shared) :], start, answers) for ids in prompt_ids]
        return np.array([rows[i] for i in place])

    def _answers_log_p(self, ids: list[int], start: Any, answers: Sequence[list[int]]) -> Floats:
        """Returns log P of each answer after the tokens of `start` and `ids`."""
        logits, cache = self._forward(ids, copy.deepcopy(start))
        first = logits[0, -1].double().log_softmax(-1)
        cache.batch_repeat_interleave(len(answers))
        inputs = torch.from_numpy(padded(answers, answers[0][0])).to(self._device)
        after = self._model(input_ids=inputs, **with_cache(cache), use_cache=True).logits
        log_p = after.double().log_softmax(-1)  # (answers, tokens, vocabulary)
        log_p_of_answers = []
        for row, answer in zip(log_p, answers, strict=True):
            tokens = first[answer[0]] + sum(row[t, id] for t, id in enumerate(answer[1:]))
            end = row[len(answer) - 1][self._ends].logsumexp(-1)
            log_p_of_answers.append(float(tokens + end))
        return np.array(log_p_of_answers)

    def _forward(self, ids: list[int], cache: Any) -> tuple[torch.Tensor, Any]:
        inputs = torch.tensor([ids], device=self._device)
        out = self._model(input_ids=inputs, **with_cache(cache), use_cache=True, logits_to_keep=1)
        return out.logits, cache_of(out)

    def _ids(self, prompt: str) -> list[int]:
        if not self._chats:
            return self._begun(self._plain(prompt))
        import jinja2

        try:
            text = self._tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        except jinja2.TemplateError as error:
            raise ModelError(f"the model's chat template can't be used: {error}") from error
        return self._plain(text)

    def _answer_ids(self, number: int) -> list[int]:
        if self._chats:
            return self._plain(str(number))
        # after a colon, as in the prompt: alone, some tokenizers put a second blank before it
        colon, whole = self._plain(":"), self._plain(f": {number}")
        return whole[len(colon) :] if whole[: len(colon)] == colon else self._plain(f" {number}")

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])


def _shared(sequences: Sequence[list[int]]) -> list[int]:
    """Returns what all sequences begin with, short enough that each has a token left."""
    first, last = min(sequences), max(sequences)  # of all, these differ soonest
    end = 0
    while end < min(len(first), len(last)) - 1 and first[end] == last[end]:
        end += 1
    return first[:end]


_ROOM = 8
"""Tokens left free after a prompt for the answer."""


def load_choices(name: str, loading: Loading, *, bos: Bos = "auto") -> ChoosingModel:
    """Returns the causal or encoder-decoder model of this name.

    Args:
        bos: whether BOS precedes the prompts of a causal model without a chat template.

    Raises:
        ModelError: the model does not exist, or is of another kind.
    """
    resolved = resolve(name, loading)
    if resolved.kind not in ("causal", "encoder-decoder"):
        raise ModelError(
            f"model '{name}' does not answer questions (it is of the kind: {resolved.kind}); use a "
            "causal or an encoder-decoder model that follows instructions, such as "
            "google/flan-t5-large, or a server with base_url"
        )
    model, tokenizer = load_pretrained(resolved, resolved.kind, loading)
    if resolved.kind == "causal":
        return CausalChoices(model, tokenizer, rule(resolved, bos))
    return EncoderDecoderChoices(model, tokenizer)

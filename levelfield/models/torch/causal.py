"""P(text) from causal language models: every token given what stands before it.

The first token of a text is scored given BOS (see `causal_tokens`); no end token is scored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Floats, Ints
from levelfield.core.errors import ModelError
from levelfield.models.batching import buckets, unique
from levelfield.models.contracts import CausalLikelihood
from levelfield.models.loading import Loading
from levelfield.models.torch.causal_tokens import CausalTokens, Tokenised, resolve_causal
from levelfield.models.torch.loading import load_pretrained, placement
from levelfield.models.torch.softmax import Block, Head, token_log_p

Body = Callable[[torch.Tensor], torch.Tensor]

RECENT_TOKENS = 2**22
"""So many tokens' results are kept, so that metrics of the same samples share one pass, also where
one metric goes through all of a study's cell before the next: at 24 bytes a token, 100 MB."""

WHOLE_LOGITS = 2**28
"""So many logits a batch may have where they are all taken at once: 1 GiB in float32."""


class TorchCausalModel:
    """Causal checkpoints in PyTorch: GPT-2, BLOOM, Llama and their like.

    Equal texts are scored once and texts of like length together. The softmax over the vocabulary
    is taken at positions of real tokens only, block by block, in float32 or better.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> None:
        model.eval()
        self._tokens = CausalTokens(tokenizer, model.config)
        self._device = next(model.parameters()).device
        on_cpu = self._device.type == "cpu"
        self._batch_tokens = batch_tokens or (2048 if on_cpu else 65536)
        self._block = Block.on(self._device)
        self._body, self._head, is_whole = self._body_and_head(model)
        if is_whole:
            most = max(1, WHOLE_LOGITS // self.vocabulary_size)
            self._batch_tokens = min(self._batch_tokens, most)
        check_causal(self._body, self._some_ids(model), model)
        self._recent: dict[str, CausalLikelihood] = {}
        self._recent_tokens = 0

    @property
    def vocabulary_size(self) -> int:
        return self._tokens.vocabulary_size

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of whole texts, without special tokens."""
        return self._tokens.ids(texts)

    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]:
        """log P(token | BOS, tokens before it), for each token of each text.

        Of a text longer than the model takes the beginning is scored, and it counts as cut.
        """
        distinct, place = unique(texts)
        new = [text for text in distinct if text not in self._recent]
        found = {text: self._recent[text] for text in distinct if text in self._recent}
        for text, tokenised, log_p in self._scored(new):
            log_p.flags.writeable = False  # others will be given the same array
            found[text] = CausalLikelihood(tokenised.ids, tokenised.ends, log_p, tokenised.cut)
            self._remember(text, found[text])
        return [found[distinct[at]] for at in place]

    @property
    def limit(self) -> int:
        """How many tokens the model takes."""
        return self._tokens.limit

    @property
    def end_id(self) -> int | None:
        """The id of the end-of-text token."""
        return self._tokens.end_id

    def token_id(self, token: str) -> int | None:
        """The id of a token that is written as it stands in the vocabulary; None if none is."""
        return self._tokens.single(token)

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Where in a text each of its tokens ends, in characters, as far as the model reads it."""
        return [one.ends.tolist() for one in self._tokens.fit(texts)]

    def log_p_after(
        self, prompts: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """log P(target token | prompt, target tokens before it): (tokens,) for each target.

        Prompts are ids and read as they are, nothing is put before them; they are not empty.
        """
        log_p: list[Floats] = [np.empty(0)] * len(targets)
        some = np.array([i for i, target in enumerate(targets) if target], np.intp)
        whole = [[*prompts[i], *targets[i]] for i in some.tolist()]
        with torch.inference_mode():
            for bucket in buckets([len(ids) - 1 for ids in whole], self._batch_tokens):
                rows = some[bucket].tolist()
                ids = [np.array(whole[at], np.int64) for at in bucket.tolist()]
                given = [one[:-1] for one in ids]
                begins = [len(prompts[i]) - 1 for i in rows]
                found = self._log_p_at(given, [one[1:] for one in ids], begins)
                for i, values in zip(rows, found, strict=True):
                    log_p[i] = values
        return log_p

    @functools.cached_property
    def _unigram_bos(self) -> Floats:
        with torch.inference_mode():
            bos = torch.tensor([[self._tokens.bos_id]], device=self._device)
            logits = self._head(self._body(bos)[0, 0], slice(None)).float()
            log_p: Floats = logits.log_softmax(-1).double().cpu().numpy()
        return log_p

    def unigram_bos(self) -> Floats:
        """log p(t | BOS) of every token: (vocabulary,), from one forward of BOS, done once."""
        return self._unigram_bos

    def _remember(self, text: str, likelihood: CausalLikelihood) -> None:
        """Keeps a result, and forgets the oldest once too many tokens are held."""
        self._recent[text] = likelihood
        self._recent_tokens += 1 + len(likelihood.ids)
        while self._recent_tokens > RECENT_TOKENS:
            oldest = self._recent.pop(next(iter(self._recent)))
            self._recent_tokens -= 1 + len(oldest.ids)

    def _scored(self, texts: Sequence[str]) -> list[tuple[str, Tokenised, Floats]]:
        tokenised = self._tokens.fit(texts)
        log_p: list[Floats] = [np.empty(0)] * len(texts)
        readable = np.array([i for i, one in enumerate(tokenised) if one.ids.size], np.intp)
        lengths = [len(tokenised[i].ids) for i in readable]
        with torch.inference_mode():
            for bucket in buckets(lengths, self._batch_tokens):
                rows = readable[bucket].tolist()
                of_rows = self._log_p([tokenised[i].ids for i in rows])
                for i, values in zip(rows, of_rows, strict=True):
                    log_p[i] = values
        return list(zip(texts, tokenised, log_p, strict=True))

    def _log_p(self, ids: Sequence[Ints]) -> list[Floats]:
        """Log-probabilities of the tokens of one batch of texts, after BOS."""
        given = [np.concatenate([[self._tokens.bos_id], one[:-1]]) for one in ids]
        return self._log_p_at(given, ids, [0] * len(ids))

    def _log_p_at(
        self, given: Sequence[Ints], tokens: Sequence[Ints], begins: Sequence[int]
    ) -> list[Floats]:
        """Of one batch, the log-probabilities of what comes after what is given at each place from
        `begins` on.

        Rows are padded on the right, so no scored position ever attends to padding: the model
        needs neither a mask beside the causal one nor positions other than its own.
        """
        lengths = np.array([len(one) for one in given])
        padded = np.full((len(given), lengths.max()), self._tokens.bos_id, np.int64)
        for row, one in zip(padded, given, strict=True):
            row[: len(one)] = one
        at = np.arange(lengths.max())
        scored = (at < lengths[:, None]) & (at >= np.array(begins)[:, None])
        ids = torch.from_numpy(padded).to(self._device)
        states = self._body(ids)[torch.from_numpy(scored).to(self._device)]
        wanted = np.concatenate([one[b:] for one, b in zip(tokens, begins, strict=True)])
        log_p = token_log_p(
            self._head,
            states,
            torch.arange(len(states), device=self._device),
            torch.from_numpy(wanted).to(self._device),
            vocabulary=self.vocabulary_size,
            block=self._block,
        )
        return np.split(log_p.cpu().numpy(), np.cumsum(scored.sum(1))[:-1])

    def _some_ids(self, model: Any) -> torch.Tensor:
        """BOS and the first tokens of the vocabulary: (1, 16) at most. Padding is not among them:
        XLM hides as many tokens at the end as there are padding ones anywhere."""
        pad = getattr(model.config.get_text_config(), "pad_token_id", None)
        few = [id for id in range(min(16, self.vocabulary_size)) if id != pad]
        few = [self._tokens.bos_id, *few[:15]][: self._tokens.limit]
        return torch.tensor([few], device=self._device)

    def _body_and_head(self, model: Any) -> tuple[Body, Head, bool]:
        """The model as two steps, ids -> states, and states -> logits of a part of the vocabulary.

        Some models do more to logits than their output layer does (Gemma caps, Cohere scales
        them). Where the two steps do not give what the whole model gives, the first is the whole
        model and the second takes the part; the third thing returned says whether that is so.
        """
        layer = model.get_output_embeddings()

        def whole(ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits
            return logits

        def part(logits: torch.Tensor, of: slice) -> torch.Tensor:
            return logits[..., of].clone()  # a head's logits are its caller's to change

        def body(ids: torch.Tensor) -> torch.Tensor:
            states: torch.Tensor = model.base_model(input_ids=ids, use_cache=False)[0]
            return states

        def head(states: torch.Tensor, of: slice) -> torch.Tensor:
            bias = None if layer.bias is None else layer.bias[of]
            return torch.nn.functional.linear(states, layer.weight[of], bias)

        if isinstance(layer, torch.nn.Linear) and model.base_model is not model:
            with torch.inference_mode():
                ids = self._some_ids(model)
                states = body(ids)
                fits = states.shape[-1] == layer.in_features
                if fits and torch.equal(head(states, slice(None)), whole(ids)):
                    return body, head, False
        return whole, part, True


def check_causal(body: Body, ids: torch.Tensor, model: Any) -> None:
    """Nothing, if another last token leaves what the model makes of those before it as it was.

    A causal head says little: `transformers` puts one on BERT, XLM and XLNet, which attend to both
    sides unless their configuration makes them decoders, and then every token has seen itself.

    Args:
        body: ids -> states or logits, (1, tokens, d).
        ids: (1, tokens).

    Raises:
        ModelError: the model looks ahead.
    """
    other = ids.clone()
    other[0, -1] = ids[0, -2]
    with torch.inference_mode():
        before, after = (body(one)[0, :-1] for one in (ids, other))
    change = (before.float() - after.float()).norm(dim=-1) / before.float().norm(dim=-1)
    # in most models nothing changes at all; where tokens are grouped by experts, rounding does
    if (change > max(1e-4, 4 * torch.finfo(before.dtype).eps)).any():
        raise ModelError(
            f"{type(model).__name__} is no causal language model: what stands before a token "
            "depends on the token, so its probabilities have seen the text; take a model that "
            "reads from left to right, for example openai-community/gpt2"
        )


def load_causal(name: str, loading: Loading) -> TorchCausalModel:
    """The causal language model of this name.

    Raises:
        ModelError: there is no such model, or it is not a causal one.
    """
    model, tokenizer = load_pretrained(resolve_causal(name, loading), "causal", *placement(loading))
    return TorchCausalModel(model, tokenizer, batch_tokens=loading.batch_tokens)

"""P(text) from causal language models: every token given what stands before it.

The BOS rule: every text is preceded by the tokenizer's BOS token, or by its EOS token where there
is none (GPT-2's `<|endoftext|>` is both), exactly once, whatever the tokenizer itself would put
there. The first token of the text is scored given BOS; no end token is scored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch

from levelfield.errors import ModelError
from levelfield.models.batching import buckets, unique
from levelfield.models.loading import (
    DAMAGE,
    Device,
    DType,
    cannot_load,
    load_pretrained,
    pick_device,
    torch_dtype,
)
from levelfield.models.resolve import Resolved, resolve

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Body = Callable[[torch.Tensor], torch.Tensor]
Head = Callable[[torch.Tensor, slice], torch.Tensor]

WITHOUT_LIMIT = 2048
"""Tokens read of a text by a model whose configuration names no limit, as BLOOM's does not."""

RECENT_TOKENS = 2**18
"""So many tokens' results are kept, so that metrics of the same samples share one pass."""


class CausalLikelihood(NamedTuple):
    """What a model says of one text.

    Attributes:
        ids: (tokens,) of the vocabulary, BOS not among them; empty for a text without tokens.
        ends: (tokens,) where in the text each token ends, in characters; empty where the tokenizer
            can't say.
        log_p: (tokens,) log P(token | BOS, tokens before it), in nats.
        cut: whether the text was longer than the model takes, so that its end was not scored.
    """

    ids: Ints
    ends: Ints
    log_p: Floats
    cut: bool


class CausalModel(Protocol):
    """The seam for engines: PyTorch is one. Metrics see strings and NumPy arrays only."""

    @property
    def vocabulary_size(self) -> int: ...
    def token_ids(self, texts: Sequence[str]) -> list[list[int]]: ...
    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]: ...
    def unigram_bos(self) -> Floats: ...


class Tokenised(NamedTuple):
    """A text as a model reads it; attributes as in `CausalLikelihood`."""

    ids: Ints
    ends: Ints
    cut: bool


class CausalTokens:
    """The tokenizer of a causal model, which can be had without the weights.

    No special token is put around a text, and a special token that is written out in a text
    (`</s>`) is read as the characters that it is.

    Attributes:
        bos, bos_id: the token that precedes every text.
        vocabulary_size: how many tokens the model gives probabilities to.
        limit: how many tokens of a text are scored; what exceeds it is cut off its end.

    Raises:
        ModelError: the tokenizer has neither BOS nor EOS.
    """

    def __init__(self, tokenizer: Any, config: Any) -> None:
        bos_id = tokenizer.bos_token_id
        if bos_id is None:
            bos_id = tokenizer.eos_token_id
        if bos_id is None:
            raise ModelError(
                "the model's tokenizer has neither a BOS nor an EOS token, so the first token of a "
                "text has nothing to be scored on; set one in tokenizer_config.json"
            )
        self.bos_id = int(bos_id)
        self.bos: str = tokenizer.convert_ids_to_tokens(self.bos_id)
        config = config.get_text_config()
        self.vocabulary_size = int(config.vocab_size)
        limits = (getattr(config, n, None) for n in ("max_position_embeddings", "seq_length"))
        self.limit = next((int(limit) for limit in limits if limit), WITHOUT_LIMIT)
        # `transformers` warns of texts longer than a model takes; they are cut and counted here
        tokenizer.model_max_length = int(1e30)
        self._tokenizer = tokenizer

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Vocabulary ids of whole texts."""
        return [list(ids) for ids in self._encode(texts)["input_ids"]] if texts else []

    def fit(self, texts: Sequence[str]) -> list[Tokenised]:
        """Texts cut to what the model takes."""
        if not texts:
            return []
        # no token of a usual vocabulary spans 64 characters: this cut never shows in what is kept
        near = [text[: 64 * self.limit] for text in texts]
        encoded = self._encode(near, return_offsets_mapping=self._tokenizer.is_fast)
        spans = encoded.get("offset_mapping") or [[]] * len(texts)
        return [
            Tokenised(
                np.array(ids[: self.limit], np.int64),
                np.array([end for _, end in of_text[: self.limit]], np.int64),
                len(ids) > self.limit or len(beginning) < len(text),
            )
            for ids, of_text, beginning, text in zip(
                encoded["input_ids"], spans, near, texts, strict=True
            )
        ]

    def _encode(self, texts: Sequence[str], **options: Any) -> Any:
        return self._tokenizer(
            list(texts), add_special_tokens=False, split_special_tokens=True, **options
        )


@functools.lru_cache(maxsize=4)
def load_causal_tokens(name: str, *, allow_pickle: bool = False) -> CausalTokens:
    """The tokenizer of the causal model of this name, without its weights in memory.

    Raises:
        ModelError: there is no such model, or it is not a causal one.
    """
    import transformers

    resolved = _resolve(name, allow_pickle)
    try:
        options = {"local_files_only": True, "trust_remote_code": False}
        tokenizer = transformers.AutoTokenizer.from_pretrained(resolved.path, **options)
        config = transformers.AutoConfig.from_pretrained(resolved.path, **options)
    except DAMAGE as error:
        raise cannot_load(resolved, error) from error
    return CausalTokens(tokenizer, config)


@functools.lru_cache(maxsize=2)
def load_causal(
    name: str,
    *,
    device: Device = "auto",
    dtype: DType = "float32",
    allow_pickle: bool = False,
    batch_tokens: int | None = None,
) -> TorchCausalModel:
    """The causal language model of this name, loaded once a process.

    Raises:
        ModelError: there is no such model, or it is not a causal one.
    """
    resolved = _resolve(name, allow_pickle)
    return TorchCausalModel(
        resolved, device=pick_device(device), dtype=dtype, batch_tokens=batch_tokens
    )


def _resolve(name: str, allow_pickle: bool) -> Resolved:
    resolved = resolve(name, allow_pickle=allow_pickle)
    if resolved.kind != "causal":
        raise ModelError(
            f"model '{name}' is a {resolved.kind} model; fluency needs a causal language model, "
            "for example openai-community/gpt2"
        )
    return resolved


class TorchCausalModel:
    """Causal checkpoints in PyTorch: GPT-2, BLOOM, Llama and their like.

    Equal texts are scored once and texts of like length together. The softmax over the vocabulary
    is taken at positions of real tokens only, block by block, in float32 or better.
    """

    def __init__(
        self,
        resolved: Resolved,
        *,
        device: torch.device,
        dtype: DType = "float32",
        batch_tokens: int | None = None,
    ) -> None:
        model, tokenizer = load_pretrained(resolved, "causal", device, torch_dtype(dtype))
        self._bind(model, tokenizer, batch_tokens)

    @classmethod
    def of(cls, model: Any, tokenizer: Any, *, batch_tokens: int | None = None) -> Self:
        """Around a model and a tokenizer that are there already."""
        made = cls.__new__(cls)
        made._bind(model.eval(), tokenizer, batch_tokens)
        return made

    def _bind(self, model: Any, tokenizer: Any, batch_tokens: int | None) -> None:
        self._tokens = CausalTokens(tokenizer, model.config)
        self._device = next(model.parameters()).device
        on_cpu = self._device.type == "cpu"
        self._batch_tokens = batch_tokens or (2048 if on_cpu else 65536)
        # logits are taken of so many positions and tokens of the vocabulary at a time: on a CPU so
        # few that they stay in its caches
        self._block = (1024, 2048) if on_cpu else (2048, 65536)
        self._body, self._head = self._body_and_head(model)
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
        """Log-probabilities of the tokens of one batch.

        Texts are padded on the right, so no scored position ever attends to padding: the model
        needs neither a mask beside the causal one nor positions other than its own.
        """
        lengths = np.array([len(one) for one in ids])
        given = np.full((len(ids), lengths.max()), self._tokens.bos_id, np.int64)
        for row, one in zip(given, ids, strict=True):
            row[1 : len(one)] = one[:-1]
        real = torch.from_numpy(np.arange(lengths.max()) < lengths[:, None]).to(self._device)
        states = self._body(torch.from_numpy(given).to(self._device))[real]
        tokens = torch.from_numpy(np.concatenate(ids)).to(self._device)
        rows, _ = self._block
        log_p = [
            self._token_log_p(states[at : at + rows], tokens[at : at + rows])
            for at in range(0, len(tokens), rows)
        ]
        return np.split(torch.cat(log_p).cpu().numpy(), np.cumsum(lengths)[:-1])

    def _token_log_p(self, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """log-softmax over the vocabulary after `states`: (n, d), of `tokens`: (n,); float64, (n,).

        The vocabulary goes by in blocks. The norm of the blocks before is what the exponentials of
        a block are shifted by, so that no block but the first needs a pass for its largest logit:
        they overflow only where a logit exceeds all of that by 88, and then that pass is made.
        """
        _, width = self._block
        of_tokens = torch.empty(len(tokens), dtype=torch.float64, device=self._device)
        norm = torch.full_like(of_tokens, -torch.inf)
        for begin in range(0, self.vocabulary_size, width):
            logits = self._head(states, slice(begin, begin + width)).float()
            at = tokens - begin
            here = (at >= 0) & (at < logits.shape[-1])
            of_tokens[here] = logits[here, at[here]].double()
            if not begin:
                norm = logits.logsumexp(-1).double()
                continue
            shift = norm.float()
            more = logits.sub_(shift[:, None]).exp_().sum(-1).double()
            grown = (norm - shift).exp_().add_(more).log_().add_(shift)
            if not grown.isfinite().all():
                logits = self._head(states, slice(begin, begin + width)).float()
                grown = torch.logaddexp(norm, logits.logsumexp(-1).double())
            norm = grown
        return of_tokens - norm

    def _body_and_head(self, model: Any) -> tuple[Body, Head]:
        """The model as two steps, ids -> states, and states -> logits of a part of the vocabulary.

        Some models do more to logits than their output layer does (Gemma caps, Cohere scales
        them). Where the two steps do not give what the whole model gives, the first is the whole
        model and the second takes the part.
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
            some = [self._tokens.bos_id, *range(min(15, self.vocabulary_size))]
            with torch.inference_mode():
                ids = torch.tensor([some], device=self._device)
                states = body(ids)
                fits = states.shape[-1] == layer.in_features
                if fits and torch.equal(head(states, slice(None)), whole(ids)):
                    return body, head
        return whole, part

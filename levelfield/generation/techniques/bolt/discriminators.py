"""What reads straight-through texts for their labels, with gradients.

A classifier whose table of embeddings has a row for each token of the base, so that gradients come
back to the tokens of a text (Liu et al. 2023, "BOLT", section 4.1).
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from levelfield.core.errors import ModelError
from levelfield.generation.guides import base_of, check_own_model
from levelfield.generation.open_rows import ReadPrompts, float32_or_wider
from levelfield.generation.techniques._class_lm.network import ClassLM, class_lm
from levelfield.generation.techniques._future.network import FutureModel, future_model
from levelfield.generation.techniques._head.network import HeadModel, head_model
from levelfield.generation.techniques.bolt.rollout import Rollout
from levelfield.models.files import check_finite
from levelfield.models.guides import Guide, GuideKind
from levelfield.models.loading import AS_USUAL, Loading, quiet, reading
from levelfield.models.resolve import OFFLINE_LM, resolve
from levelfield.models.tokens import token_mask
from levelfield.models.torch.loading import fuse_activations, placement

KEPT = 2
"""How many of these a process keeps, those used last."""


@dataclass(frozen=True, eq=False)
class EncoderModel:
    """A guide of kind `encoder` with its weights.

    Attributes:
        guide: what was learnt.
        network: a classifier of `transformers`.
        limit: the most tokens of a text.
    """

    guide: Guide
    network: Any
    limit: int

    @property
    def table(self) -> torch.Tensor:
        """What it reads for each token of the base: (vocabulary, d)."""
        weight: torch.Tensor = self.network.get_input_embeddings().weight
        return weight

    def logits(self, texts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Of the labels: (texts, labels).

        Args:
            texts: (tokens, d) each, rows of the table in place of tokens, without special ones.
        """
        vectors = pad_sequence(list(texts), batch_first=True)
        mask = torch.from_numpy(token_mask(texts)).to(vectors.device)
        logits: torch.Tensor = self.network(inputs_embeds=vectors, attention_mask=mask).logits
        return logits


@functools.lru_cache(maxsize=KEPT)
def encoder_model(
    guide: Guide, model: str = OFFLINE_LM, loading: Loading = AS_USUAL
) -> EncoderModel:
    """Returns the encoder of a guide beside its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind, its files are damaged, or the base has another
            vocabulary.
    """
    import transformers

    base = base_of(guide, "encoder", model, loading)
    if base.tokens.digest != guide.settings.get("vocabulary"):
        raise ModelError(
            f"guide '{guide.name}' has a different vocabulary from the base {base.label}; use a "
            "base with the tokenizer that it was made for"
        )
    resolved = resolve(str(guide.path / guide.base))
    check_own_model(guide, resolved)
    quiet()
    device, dtype = placement(loading)
    with reading(guide.name):
        network = transformers.AutoModelForSequenceClassification.from_pretrained(
            resolved.path, local_files_only=True, trust_remote_code=False, dtype=dtype
        )
    check_finite(resolved, network.named_parameters())
    fuse_activations(network)
    config = network.config
    limit = int(config.max_position_embeddings) - int(config.pad_token_id) - 1
    return EncoderModel(guide, network.requires_grad_(False).eval().to(device), limit)


class LabelReader(abc.ABC):
    """A classifier of whole texts, the prompt included, in the middle of a batch.

    Attributes:
        once: rows that it sends through models for a prompt.
        each: and for every reading of a text.
        reads_states: whether it needs the states of the base.

    Args:
        model: a guide with its weights.
        prompts: as the base reads them.
    """

    once, each, reads_states = 0, 1, False

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]] = ()) -> None:  # noqa: ARG002
        self._model = model

    @abc.abstractmethod
    def logits(self, rollout: Rollout) -> torch.Tensor:
        """Of the labels: (rows, labels)."""

    def keep(self, rows: torch.Tensor) -> None:  # noqa: B027  (readers without a state)
        """Goes on with these rows only."""


class FutureReader(LabelReader):
    """A future discriminator after the last token of a text, where nothing is left to come."""

    _model: FutureModel

    def logits(self, rollout: Rollout) -> torch.Tensor:
        prompts, network = rollout.prompts, self._model.network
        before = F.embedding(prompts.ids, network.embeddings)
        vectors = torch.cat([before, rollout.vectors.to(before.dtype)], dim=1)
        rows, tokens = vectors.shape[:2]
        real = prompts.mask.new_ones(rows, tokens)
        real[:, : prompts.mask.shape[1]] = prompts.mask
        causal = torch.ones(tokens, tokens, dtype=torch.bool, device=real.device).tril()
        # padding sees itself: attention to nothing is undefined
        mask = causal & (real[:, None] > 0) | torch.eye(tokens, device=real.device).bool()
        places = (real.cumsum(-1) - 1).clamp(min=0)
        return network.read_vectors(vectors, places, mask)[0][:, -1]


class HeadReader(LabelReader):
    """A head on the mean of the base's states, all of which but the last token's are there."""

    _model: HeadModel
    reads_states = True

    def logits(self, rollout: Rollout) -> torch.Tensor:
        assert rollout.states is not None
        prompts, states = rollout.prompts, float32_or_wider(rollout.states)
        tokens = prompts.mask.sum(-1) - prompts.begins + states.shape[1]
        return self._model((prompts.states + states.sum(1)) / tokens[:, None])


class EncoderReader(LabelReader):
    """An encoder that reads prompt and continuation as one text, without special tokens."""

    _model: EncoderModel

    def logits(self, rollout: Rollout) -> torch.Tensor:
        table, prompts = self._model.table, rollout.prompts
        written = torch.stack([token.vectors(table) for token in rollout.chosen], dim=1)
        texts = [
            torch.cat([table[ids[mask.bool()][begins:]], row])  # BOS is none of its tokens
            for ids, mask, begins, row in zip(
                prompts.ids, prompts.mask, prompts.begins, written, strict=True
            )
        ]
        return self._model.logits(texts)


class ClassReader(LabelReader):
    """Bayes' rule over the labels of a class-conditional language model:
    s_c = (α / T) log P(x | c) + b_c over the T tokens of the text, the prompt's among them.
    """

    def __init__(self, model: ClassLM, prompts: Sequence[Sequence[int]]) -> None:
        codes = [model.codes[label] for label in model.labels]
        lm = model.lm
        texts = [p[int(p[0] == lm.bos_id) :] for p in prompts]
        begun = [[*lm.opening, *code, *text] for code in codes for text in texts]
        skip = [len(lm.opening) + len(code) for code in codes for _ in prompts]
        self._read = ReadPrompts(lm.model, begun, lm.bos_id, lm.device, skip=skip)
        self._scale = model.scale
        self._bias = torch.tensor([model.bias[label] for label in model.labels], device=lm.device)
        self._begun = torch.tensor([len(text) for text in texts], device=lm.device)
        self.once = self.each = len(codes)

    def logits(self, rollout: Rollout) -> torch.Tensor:
        labels, vectors = len(self._bias), rollout.vectors
        after = self._read.logits[:, None]
        if vectors.shape[1] > 1:
            preceding = vectors[:, :-1].repeat(labels, 1, 1)
            after = torch.cat([after, self._read.continuation().read(preceding).logits], dim=1)
        after = float32_or_wider(after)
        written = [
            torch.stack(
                [o.log_likelihood(z) for o, z in zip(rollout.chosen, block.unbind(1), strict=True)]
            ).sum(0)
            for block in after.chunk(labels)
        ]
        before = torch.stack(self._read.log_likelihood.to(after.dtype).chunk(labels), dim=1)
        length = (self._begun + vectors.shape[1])[:, None]
        return self._scale / length * (before + torch.stack(written, dim=1)) + self._bias

    def keep(self, rows: torch.Tensor) -> None:
        blocks = torch.arange(len(self._bias), device=rows.device)[:, None] * len(self._begun)
        self._read.keep((blocks + rows).flatten())
        self._begun = self._begun[rows]


READERS: Mapping[GuideKind, tuple[Callable[..., Any], type[LabelReader]]] = {
    "future": (future_model, FutureReader),
    "class-lm": (class_lm, ClassReader),
    "head": (head_model, HeadReader),
    "encoder": (encoder_model, EncoderReader),
}
"""Kind of a guide -> what loads it, and what reads texts with it."""

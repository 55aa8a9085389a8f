"""Editors: encoder-decoders with a head that says what becomes of each token (He 2021)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import regex
import safetensors
import safetensors.torch
import torch

from levelfield.core.arrays import Bools
from levelfield.core.errors import ModelError, UserError
from levelfield.models.files import check_finite
from levelfield.models.infilling import positions
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.torch.loading import batch_of, load_pretrained

_MASKS = ("<extra_id_0>", "<mask_1>")
"""What marks a gap where the tokenizer names no mask of its own."""
_BLANKS = ("▁", "Ġ", " ")
"""What the pieces of vocabularies begin with where a word begins."""
_GOES_ON = regex.compile(r"[\p{L}\p{N}\p{M}\p{Pc}\p{C}\N{REPLACEMENT CHARACTER}'’‐‑-]")
"""What the first character of a piece is if the piece belongs to the word before it."""
_PLAIN = regex.compile(
    r"\s*(?:[\p{L}\p{M}\p{N}\p{C}\N{REPLACEMENT CHARACTER}]+|['’]\p{L}+|[-.,:;?!])?\s*"
)
"""A piece that needs nothing to go with it: letters and digits, 's and the like, or one mark."""
_ANCHOR = "."
"""A text after which the pieces of another are decoded."""


class EditorTokens:
    """The tokenizer of an encoder-decoder, as an editor uses it.

    Attributes:
        begin, end: the special tokens before and after a text.
        mask: the token of a gap.
        pad: fills up the rows of a batch.
        decoder_start: what the decoder reads first.
        vocabulary_size: how many tokens the decoder gives probabilities to.

    Raises:
        ModelError: the tokenizer has no token for gaps, or none that ends a text.
    """

    def __init__(self, tokenizer: Any, config: Any) -> None:
        self._tokenizer = tokenizer
        inner = tokenizer("a", add_special_tokens=False)["input_ids"]
        whole = tokenizer("a")["input_ids"]
        begin = next(i for i in range(len(whole)) if whole[i : i + len(inner)] == inner)
        self.begin: tuple[int, ...] = tuple(whole[:begin])
        self.end: tuple[int, ...] = tuple(whole[begin + len(inner) :])
        vocabulary = tokenizer.get_vocab()
        marks = [m for m in (tokenizer.mask_token, *_MASKS) if m and m in vocabulary]
        if not marks or not self.end:
            raise ModelError(
                f"the tokenizer has no {'token for gaps' if self.end else 'end-of-text token'}, "
                "which an editor needs"
            )
        self.mask: int = vocabulary[marks[0]]
        self.pad: int = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.decoder_start: int = config.decoder_start_token_id
        self.vocabulary_size: int = config.vocab_size

    def ids(self, text: str) -> list[int]:
        """Returns the tokens of words within a text, without special ones."""
        return self.all_ids([text])[0]

    def all_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """`ids` of several texts."""
        if not texts:
            return []
        within = [f" {text.strip()}" for text in texts]
        encoded = self._tokenizer(within, add_special_tokens=False, split_special_tokens=True)
        ids: list[list[int]] = encoded["input_ids"]
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """What tokens add to a text that they follow, a blank before their first word included; a
        character cut in two is left out."""
        text: str = self._decode([*self._anchor, *ids])
        return text.removeprefix(self._decode(self._anchor)).replace(
            "\N{REPLACEMENT CHARACTER}", ""
        )

    @functools.cached_property
    def goes_on(self) -> Bools:
        """(vocabulary,) which tokens belong to the word before them: letters, digits, parts of a
        character, apostrophes and hyphens without a blank before them."""
        goes_on = np.zeros(self.vocabulary_size, bool)
        pieces = self._tokenizer.convert_ids_to_tokens(list(range(self._count)))
        for id, piece in enumerate(pieces):
            if id in self._special or piece is None or piece.startswith(_BLANKS):
                continue
            written = self._decode([*self._anchor, id]).removeprefix(self._decode(self._anchor))
            goes_on[id] = not written or _GOES_ON.match(written) is not None
        return goes_on

    @functools.cached_property
    def never(self) -> Bools:
        """(vocabulary,) which tokens no gap is filled with: special ones, line breaks, and those
        that the tokenizer does not know."""
        never = np.ones(self.vocabulary_size, bool)
        for id in range(self._count):
            never[id] = id in self._special or "\n" in self._decode([id])
        return never

    @functools.cached_property
    def stops(self) -> Bools:
        """(vocabulary,) the pieces that hardly any text closes or needs: brackets, quotes,
        ellipses, dashes, symbols, and several marks in one piece."""
        stops = np.zeros(self.vocabulary_size, bool)
        for id in range(self._count):
            stops[id] = id not in self._special and not _PLAIN.fullmatch(self._decode([id]))
        return stops

    @functools.cached_property
    def _count(self) -> int:
        return min(self.vocabulary_size, len(self._tokenizer))

    @functools.cached_property
    def _special(self) -> frozenset[int]:
        added = self._tokenizer.added_tokens_decoder.items()
        return frozenset(self._tokenizer.all_special_ids) | {id for id, t in added if t.special}

    @functools.cached_property
    def _anchor(self) -> list[int]:
        return self.ids(_ANCHOR)

    def _decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


HEAD = "editing_head."
"""What the names of the head's weights begin with, in the file of the encoder-decoder's."""
WEIGHTS = "model.safetensors"
KEPT = 2
"""How many editors a process keeps, those used last."""


class Action(IntEnum):
    """What becomes of a token; `INSERT` puts another one before it."""

    COPY = 0
    REPLACE = 1
    INSERT = 2


class EditingHead(torch.nn.Module):
    """States of the encoder (…, d) → logits of the actions (…, 3): W₂ tanh(W₁ h)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = torch.nn.Linear(width, width)
        self.out_proj = torch.nn.Linear(width, len(Action))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.out_proj(torch.tanh(self.dense(states)))
        return logits


class EditorNetwork(torch.nn.Module):
    """An encoder-decoder of `transformers` with an editing head."""

    def __init__(self, body: Any, head: EditingHead) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def encode(self, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask (rows, tokens) → states (rows, tokens, d), actions (rows, tokens, 3)."""
        states = self.body.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return states, self.head(states)

    def decode(
        self, states: torch.Tensor, mask: torch.Tensor, inputs: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        """Logits (places, vocabulary) of the tokens after some of those that are read.

        Args:
            states, mask: of the encoder.
            inputs: (rows, decoder tokens), padded on the right.
            places: (rows, decoder tokens) which places; elsewhere no softmax is paid for.
        """
        from transformers.modeling_outputs import BaseModelOutput

        outputs = self.body.get_output_embeddings()
        hook = outputs.register_forward_pre_hook(lambda _, states: (states[0][places],))
        try:
            logits: torch.Tensor = self.body(
                encoder_outputs=BaseModelOutput(last_hidden_state=states),
                attention_mask=mask,
                decoder_input_ids=inputs,
                use_cache=False,
            ).logits
        finally:
            hook.remove()
        return logits


@dataclass(frozen=True, eq=False)
class Editor:
    """An editor in evaluation mode.

    Attributes:
        network: encoder, decoder and head.
        tokens: of its tokenizer.
        limit: tokens that the encoder and the decoder read.
        label: how signatures name it.
    """

    network: EditorNetwork
    tokens: EditorTokens
    limit: int
    label: str

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.network.head.dense.weight.device
        return device

    def padded(self, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids and mask (rows, tokens) of texts, padded on the right."""
        ids, mask = batch_of(rows, self.tokens.pad, self.device).values()
        return ids, mask


def resolve_editor(name: str, loading: Loading) -> Resolved:
    """Returns the files of an editor; no weights are loaded.

    Raises:
        ModelError: there is no such model, or it has no editing head.
    """
    resolved = resolve(name, loading)
    how = "make one with `levelfield train editor FILE --out FOLDER`; offline/editor is one"
    if resolved.kind != "encoder-decoder":
        raise ModelError(f"model '{name}' is a {resolved.kind} model; expected an editor: {how}")
    if not _has_head(resolved.path / WEIGHTS):
        raise ModelError(f"model '{name}' has no editing head and is not an editor: {how}")
    return resolved


@functools.lru_cache(maxsize=KEPT)
def editor(name: str, loading: Loading = AS_USUAL) -> Editor:
    """Returns the editor of this name, loaded once a process.

    Raises:
        ModelError: there is no such model, or it is not an editor.
    """
    resolved = resolve_editor(name, loading)
    body, tokenizer = load_pretrained(resolved, "encoder-decoder", loading)
    head = EditingHead(body.config.d_model)
    with safetensors.safe_open(resolved.path / WEIGHTS, "pt") as file:
        try:
            tensors = {key: file.get_tensor(f"{HEAD}{key}") for key in head.state_dict()}
            head.load_state_dict(tensors)
        except (safetensors.SafetensorError, RuntimeError) as error:
            raise ModelError(f"model '{name}': its editing head is damaged") from error
    check_finite(resolved, head.named_parameters())
    network = EditorNetwork(body, head.to(body.device, body.dtype)).eval()
    tokens = EditorTokens(tokenizer, body.config)
    return Editor(network, tokens, positions(body.config), resolved.label)


def add_head(head: EditingHead, folder: Path) -> None:
    """Adds a head to the file of an encoder-decoder's weights, in their precision.

    Raises:
        UserError: the weights are in several files, as those of the largest models are.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        raise UserError(f"{folder}: expected the weights in one file, {WEIGHTS}")
    tensors = safetensors.torch.load_file(path)
    dtype = next(iter(tensors.values())).dtype
    for name, tensor in head.state_dict().items():
        tensors[f"{HEAD}{name}"] = tensor.detach().cpu().to(dtype).contiguous()
    path.write_bytes(safetensors.torch.save(tensors, {"format": "pt"}))


def _has_head(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with safetensors.safe_open(path, "pt") as file:
            return any(key.startswith(HEAD) for key in file.keys())  # noqa: SIM118  (no mapping)
    except (safetensors.SafetensorError, OSError):
        return False

"""Future discriminators: P(label | x_1 … x_t), what a text will be when it is complete.

Yang and Klein 2021, "FUDGE: Controlled Text Generation With Future Discriminators", section 3. A
causal transformer of two layers or so reads the input embeddings of a base model and predicts the
label of the whole text at every token of it.

Yang and Klein 2021, "FUDGE: Controlled Text Generation With Future Discriminators", section 3.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from levelfield.generation.guides import KEPT, weights_on_base
from levelfield.models.guides import Guide
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.models.tokens import padded, token_mask


@dataclass(frozen=True)
class FutureShape:
    """The size of a discriminator.

    Attributes:
        width: d of its states; a multiple of twice the heads.
        layers: of attention and feed-forward, 4 d wide inside.
        dropout: in training: of embeddings, and of what a layer adds.
    """

    width: int = 128
    layers: int = 2
    heads: int = 4
    dropout: float = 0.2


class KeysValues(NamedTuple):
    """What a layer has read: (rows, heads, tokens, width / heads) each."""

    keys: torch.Tensor
    values: torch.Tensor


class FutureDiscriminator(nn.Module):
    """A causal transformer with a head for the labels at every token.

    The embeddings stay the base's: they are read, neither learnt nor saved.

    Args:
        embeddings: the base's, (vocabulary, width of the base).
        labels: how many there are.
    """

    embeddings: torch.Tensor

    def __init__(self, embeddings: torch.Tensor, labels: int, shape: FutureShape) -> None:
        super().__init__()
        self.register_buffer("embeddings", embeddings.detach(), persistent=False)
        wide = embeddings.shape[1]
        self.enter = nn.Sequential(
            nn.LayerNorm(wide), nn.Dropout(shape.dropout), nn.Linear(wide, shape.width)
        )
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.layers))
        self.norm, self.head = nn.LayerNorm(shape.width), nn.Linear(shape.width, labels)

    def forward(
        self,
        ids: torch.Tensor,
        places: torch.Tensor,
        mask: torch.Tensor,
        past: Sequence[KeysValues] = (),
    ) -> tuple[torch.Tensor, list[KeysValues]]:
        """Logits of the labels after every token, (rows, tokens, labels), and what the layers have
        read so far.

        Args:
            ids: (rows, tokens).
            places: of the tokens in their texts, counted from 0: (rows, tokens).
            mask: which of all tokens each of these sees, (rows or 1, tokens, past + tokens), bool.
            past: of each layer, for tokens before these.
        """
        return self.read_vectors(F.embedding(ids, self.embeddings), places, mask, past)

    def read_vectors(
        self,
        vectors: torch.Tensor,
        places: torch.Tensor,
        mask: torch.Tensor,
        past: Sequence[KeysValues] = (),
    ) -> tuple[torch.Tensor, list[KeysValues]]:
        """As `forward`, of embeddings in place of tokens: (rows, tokens, width of the base)."""
        x = self.enter(vectors.to(self.head.weight.dtype))
        read = []
        for i, layer in enumerate(self.layers):
            x, keys_values = layer(x, places, mask[:, None], past[i] if past else None)
            read.append(keys_values)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits, read

    def whole(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits after every token of texts, padded on the right: (rows, tokens, labels)."""
        tokens = ids.shape[1]
        places = torch.arange(tokens, device=ids.device).expand(len(ids), tokens)
        mask = torch.ones(1, tokens, tokens, dtype=torch.bool, device=ids.device).tril()
        logits: torch.Tensor = self(ids, places, mask)[0]
        return logits


class _Layer(nn.Module):
    """Attention with rotary positions, then a feed-forward network, each after a norm."""

    def __init__(self, shape: FutureShape) -> None:
        super().__init__()
        d = shape.width
        self.heads = shape.heads
        self.norm, self.norm_inner = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.inner, self.outer = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, mask: torch.Tensor, past: KeysValues | None
    ) -> tuple[torch.Tensor, KeysValues]:
        rows, tokens, d = x.shape
        qkv = self.attention(self.norm(x)).view(rows, tokens, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = rotated(q, places), rotated(k, places)
        if past is not None:
            k, v = torch.cat([past.keys, k], dim=2), torch.cat([past.values, v], dim=2)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.dropout(self.out(seen.transpose(1, 2).reshape(rows, tokens, d)))
        x = x + self.dropout(self.outer(F.gelu(self.inner(self.norm_inner(x)))))
        return x, KeysValues(k, v)


def rotated(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rotary positions (Su et al. 2021, "RoFormer", section 3.4.2): x (rows, heads, tokens, even),
    places (rows, tokens)."""
    half = x.shape[-1] // 2
    rates = 10_000.0 ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
    angles = places[:, None, :, None].to(x.dtype) * rates
    first, second = x[..., :half], x[..., half:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def text_rows(texts: Sequence[Sequence[int]], bos_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """BOS and the tokens of texts, padded on the right, and which of them are not padding: (rows,
    tokens) each."""
    rows = [[bos_id, *text] for text in texts]
    return torch.from_numpy(padded(rows, bos_id)), torch.from_numpy(token_mask(rows)).bool()


CHUNK = 512
"""This many candidates a row are read at once."""


@dataclass(frozen=True, eq=False)
class FutureModel:
    """A guide of kind `future` with its weights.

    Attributes:
        guide: what was learnt.
        network: P(label | text so far), on the base's embeddings.
        bos_id: the token that precedes every text.
    """

    guide: Guide
    network: FutureDiscriminator
    bos_id: int

    def rows(self) -> FutureRows:
        """Returns a state for one batch of texts."""
        return FutureRows(self.network, self.bos_id)


@functools.lru_cache(maxsize=KEPT)
def future_model(guide: Guide, model: str = OFFLINE_LM, loading: Loading = AS_USUAL) -> FutureModel:
    """Returns the discriminator of a guide on its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    with weights_on_base(guide, "future", model, loading) as (base, tensors):
        shape = FutureShape(**guide.settings["shape"])
        table = base.model.get_input_embeddings().weight
        network = FutureDiscriminator(table, len(guide.labels), shape)
        network.load_state_dict(tensors)
    network.requires_grad_(False).eval().to(base.device)
    return FutureModel(guide, network, base.bos_id)


class FutureRows:
    """A discriminator in the middle of a batch of texts; a text is read once.

    Candidates for the next token are one sequence, in which each sees the text and itself and all
    have the same position.

    Args:
        bos_id: comes before every text.
    """

    def __init__(self, model: FutureDiscriminator, bos_id: int) -> None:
        self._model, self._bos_id = model, bos_id
        self.passes = 0

    def start(self, texts: Sequence[Sequence[int]]) -> None:
        """Begins new texts, given without BOS."""
        ids, real = text_rows(texts, self._bos_id)
        device = self._model.embeddings.device
        self._ids, self._real = ids.to(device), real.to(device)
        self._past: list[KeysValues] = []

    def read(self, tokens: torch.Tensor) -> None:
        """One more token a text: (rows,)."""
        self._ids = torch.cat([self._ids, tokens[:, None]], dim=1)
        self._real = torch.cat([self._real, self._real.new_ones(len(tokens), 1)], dim=1)

    def keep(self, rows: torch.Tensor) -> None:
        """Goes on with these texts only, in this order."""
        self._ids, self._real = self._ids[rows], self._real[rows]
        self._past = [KeysValues(k[rows], v[rows]) for k, v in self._past]

    def scores(self, candidates: torch.Tensor) -> torch.Tensor:
        """log P(label | text, candidate): candidates (rows, n) → (rows, n, labels)."""
        chunks = torch.split(candidates, CHUNK, dim=1)
        logits = [self._pass(chunk)[:, -chunk.shape[1] :] for chunk in chunks]
        return torch.cat(logits, dim=1).log_softmax(-1)

    def log_p(self) -> torch.Tensor:
        """log P(label | text): (rows, labels); asked for once after `start` and each `read`."""
        logits = self._pass(self._ids[:, :0])
        last = self._real.cumsum(-1).argmax(-1) - (self._ids.shape[1] - logits.shape[1])
        return logits[torch.arange(len(last)), last].log_softmax(-1)

    def _pass(self, candidates: torch.Tensor) -> torch.Tensor:
        """Reads what is new of the texts, and candidates after them: (rows, new tokens and
        candidates, labels)."""
        rows, n = candidates.shape
        seen = self._past[0].keys.shape[2] if self._past else 0
        text = self._ids.shape[1]
        new = text - seen
        places = self._real.cumsum(-1)
        mask = torch.zeros(rows, new + n, text + n, dtype=torch.bool, device=candidates.device)
        mask[:, :, :text] = self._real[:, None, :]
        mask[:, :new, seen:text] &= torch.ones_like(mask[0, :new, :new]).tril()
        mask[:, new:, text:] = torch.eye(n, dtype=torch.bool, device=candidates.device)
        logits, read = self._model.forward(
            torch.cat([self._ids[:, seen:], candidates], dim=1),
            torch.cat([places[:, seen:] - 1, places[:, -1:].expand(rows, n)], dim=1),
            mask,
            self._past,
        )
        self._past = [KeysValues(k[:, :, :text], v[:, :, :text]) for k, v in read]
        self.passes += 1
        return logits

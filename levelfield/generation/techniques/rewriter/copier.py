"""An encoder-decoder that begins as a copier, to learn from few pairs.

A rewrite is mostly its source. A small model with random weights needs many thousands of sentences
before it copies at all; one whose first weights copy needs to learn only what changes.
"""

from __future__ import annotations

from typing import Any

import torch

from levelfield.core.errors import ModelError
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve
from levelfield.models.torch.loading import load_pretrained, pick_device
from levelfield.train.infiller import Size
from levelfield.train.infiller.infilling import new_model
from levelfield.train.loop import seeded

VOCABULARY = "offline/infill-expert"
"""Whose tokenizer and embeddings a copier has."""
TRACE = 32
"""Width of the trace of an earlier token in a state, after the token itself."""
HEAD = 2 * TRACE
LAYERS = 2
SMALL = 0.05
"""What random weights that write into the states are multiplied by."""
PREVIOUS, SECOND = 1, 2
"""The buckets of T5's relative positions for the token before and the one before that."""
FAR = 25.0
"""The bias of a position that a head looks at alone."""
MATCH = 0.6, 0.3
"""How much a match of the last token, and of the one before it, counts in cross-attention."""
COPY = 3.0
"""How large the copied token is in a decoder's state, the last token being 1."""


def new_copier(seed: int, loading: Loading = AS_USUAL) -> tuple[Any, Any]:
    """Returns a small T5 that copies its source, and its tokenizer.

    In the first layer of the encoder two heads look at the token before and the one before that,
    and leave a trace of each in the state; a head of the decoder does so for the token before the
    last. Cross-attention of the first layer finds the place in the source that follows the last
    two tokens written, and adds the token there to the state, whose nearest embedding is that
    token. A place is ambiguous only where two tokens in a row occur twice in the source. All other
    weights are small and random.

    Args:
        seed: of the random weights and projections.
    """
    device = pick_device(loading.device)
    resolved = resolve(VOCABULARY)
    source, tokenizer = load_pretrained(resolved, "encoder-decoder", Loading(device="cpu"))
    embeddings = source.get_input_embeddings().weight.detach()
    width = embeddings.shape[1] + 2 * TRACE
    if width % HEAD:
        raise ModelError(f"embeddings of {width - HEAD}: expected a multiple of {HEAD}")
    size = Size(width, LAYERS, 2 * width, HEAD)
    model = new_model("t5", size, len(embeddings), seed, positions=512)
    with torch.no_grad(), seeded(seed + 1):
        _wire(model, embeddings, tokenizer)
    return model.eval().to(device), tokenizer


def _wire(model: Any, embeddings: torch.Tensor, tokenizer: Any) -> None:
    d = embeddings.shape[1]
    last, second = slice(d, d + TRACE), slice(d + TRACE, d + 2 * TRACE)  # of a state
    table = model.shared.weight
    table.zero_()
    table[:, :d] = _apart(embeddings)
    # the decoder begins where the code of the style ends: `formal: |hi there`
    colon = tokenizer("formal: a", add_special_tokens=False)["input_ids"]
    after_colon = next(i for i in colon if tokenizer.decode([i]).strip().endswith(":"))
    table[model.config.decoder_start_token_id] = table[after_colon]
    for name, weight in model.named_parameters():
        if name.endswith(("Attention.o.weight", "wo.weight")):
            weight.mul_(SMALL)
    reads = torch.randn(2, TRACE, d) * d**-0.5  # as long as a token's embedding, in the mean
    encoder = model.encoder.block[0].layer[0].SelfAttention
    _look(encoder, 0, PREVIOUS, reads[0], last)
    _look(encoder, 1, SECOND, reads[1], second)
    _look(model.decoder.block[0].layer[0].SelfAttention, 0, PREVIOUS, reads[1], second)
    cross = model.decoder.block[0].layer[1].EncDecAttention
    cross.k.weight.zero_()
    cross.q.weight.zero_()
    for begin in range(0, table.shape[1], HEAD):
        last_trace, second_trace = (slice(first, first + TRACE) for first in (begin, begin + TRACE))
        cross.k.weight[last_trace, last] = cross.k.weight[second_trace, second] = torch.eye(TRACE)
        cross.q.weight[last_trace, :d] = MATCH[0] * reads[0]
        cross.q.weight[second_trace, second] = MATCH[1] * torch.eye(TRACE)
    tokens = torch.zeros_like(cross.v.weight)
    tokens[:d, :d] = torch.eye(d)
    cross.v.weight.copy_(tokens)
    cross.o.weight.copy_(COPY * torch.eye(len(tokens)))


def _look(attention: Any, head: int, bucket: int, reads: torch.Tensor, writes: slice) -> None:
    """A head that looks at one relative position, and leaves a trace of its token in a state.

    Args:
        reads: (trace, token), a projection of embeddings.
        writes: where the trace is in a state.
    """
    begin, d = head * HEAD, reads.shape[1]
    rows = slice(begin, begin + HEAD)
    attention.q.weight[rows] = 0
    attention.relative_attention_bias.weight[:, head] = 0
    attention.relative_attention_bias.weight[bucket, head] = FAR
    attention.v.weight[rows] = 0
    attention.v.weight[begin : begin + TRACE, :d] = reads
    attention.o.weight[:, rows] = 0
    attention.o.weight[writes, begin : begin + TRACE] = torch.eye(TRACE)


def _apart(embeddings: torch.Tensor) -> torch.Tensor:
    """Embeddings of length √d that no direction is common to, and none that are alike."""
    centred = embeddings - embeddings.mean(0)
    spread = centred / centred.std(0)
    noise = torch.randn_like(spread)
    mixed = spread / spread.norm(dim=1, keepdim=True) + noise / noise.norm(dim=1, keepdim=True)
    apart: torch.Tensor = mixed / mixed.norm(dim=1, keepdim=True) * embeddings.shape[1] ** 0.5
    return apart

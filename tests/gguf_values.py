"""Weights of a Llama in a GGUF file, value by value from the definitions of their codings."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
from safetensors import safe_open

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
}


def differences(file: Path, copy: Path, *, heads: int, key_heads: int) -> list[str]:
    """The weights in a safetensors file that are not, bit for bit, those of the GGUF file: not by
    the definition of its codings, or not by the package `gguf`."""
    content = file.read_bytes()
    wrong = []
    with safe_open(copy, framework="numpy") as weights:
        left = set(weights.keys())
        for tensor in gguf.GGUFReader(file).tensors:
            name = _name(tensor.name)
            left.remove(name)
            shape = tensor.shape.tolist()[::-1]
            raw = content[tensor.data_offset :][: tensor.n_bytes]
            defined = DEFINITIONS[tensor.tensor_type.name](raw).reshape(shape)
            read = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            of_rows = {"attn_q": heads, "attn_k": key_heads}.get(tensor.name.split(".")[-2])
            values = weights.get_tensor(name)
            wrong += [
                f"{name}: {by}"
                for by, expected in (("definition", defined), ("package", read))
                if values.dtype != np.float32
                or values.shape != expected.shape
                or values.tobytes() != _turned(expected, of_rows).tobytes()
            ]
    return [*wrong, *left]


def _f32(raw: bytes) -> np.ndarray:
    return np.frombuffer(raw, "<f4")


def _q4_1(raw: bytes) -> np.ndarray:
    """A block has 32 values: a scale, a least value and 16 bytes; byte j has value j in its low
    four bits and value 16 + j in its high ones."""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 20)
    scale, least = blocks[:, :4].copy().view("<f2").astype(np.float32).T
    values = np.empty((len(blocks), 32), np.float32)
    for j in range(16):
        values[:, j] = scale * (blocks[:, 4 + j] % 16) + least
        values[:, 16 + j] = scale * (blocks[:, 4 + j] // 16) + least
    return values


def _q8_0(raw: bytes) -> np.ndarray:
    """A block has 32 values: a scale and 32 bytes with a sign."""
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, 34)
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)[:, 0]
    values = np.empty((len(blocks), 32), np.float32)
    for j in range(32):
        values[:, j] = scale * blocks[:, 2 + j].view(np.int8)
    return values


DEFINITIONS = {"F32": _f32, "Q4_1": _q4_1, "Q8_0": _q8_0}


def _turned(values: np.ndarray, heads: int | None) -> np.ndarray:
    """Row 2i + j of a head in the file, the j-th of pair i, is row i + j · pairs of the copy."""
    if heads is None:
        return values
    size = len(values) // heads
    turned = np.empty_like(values)
    for head in range(heads):
        for pair in range(size // 2):
            for j in range(2):
                row = size * head + pair + size // 2 * j
                turned[row] = values[size * head + 2 * pair + j]
    return turned


def _name(name: str) -> str:
    if not name.startswith("blk."):
        return {
            "token_embd.weight": "model.embed_tokens.weight",
            "output_norm.weight": "model.norm.weight",
        }[name]
    _, block, part, _ = name.split(".")
    return f"model.layers.{block}.{NAMES[part]}.weight"

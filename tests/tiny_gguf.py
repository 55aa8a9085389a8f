"""A random small Llama or Qwen2 in a GGUF file, written by the package `gguf`."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WIDTH, INNER, HEADS, KEY_HEADS, LAYERS = 64, 96, 4, 2, 2
CHAT = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


def tokens() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel

    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return [*control, *sorted(ByteLevel.alphabet()), "th", "the", "Ġthe"]


def write(
    path: Path,
    *,
    pre: str = "smollm",
    architecture: str = "llama",
    seed: int = 0,
    without: str = "",
) -> Path:
    vocabulary = tokens()
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(vocabulary)
    writer.add_token_types([3, 3, 3, *[1] * (len(vocabulary) - 3)])
    writer.add_token_merges(["t h", "th e", "Ġ the"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHAT)
    keys = WIDTH // HEADS * KEY_HEADS
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (keys, WIDTH),
        "attn_v": (keys, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (INNER, WIDTH),
        "ffn_up": (INNER, WIDTH),
        "ffn_down": (WIDTH, INNER),
    }
    biases = ("attn_q", "attn_k", "attn_v") if architecture == "qwen2" else ()
    rng = np.random.default_rng(seed)

    def add(name: str, shape: tuple[int, ...], coding: gguf.GGMLQuantizationType) -> None:
        values = rng.normal(0, 0.1, shape).astype(np.float32)
        if name == without:
            return
        writer.add_tensor(name, gguf.quants.quantize(values, coding), raw_dtype=coding)

    plain, small, whole = (gguf.GGMLQuantizationType[name] for name in ("F32", "Q4_1", "Q8_0"))
    add("token_embd.weight", (len(vocabulary), WIDTH), whole)
    for block in range(LAYERS):
        for name, shape in shapes.items():
            add(f"blk.{block}.{name}.weight", shape, small)
        for name in biases:
            add(f"blk.{block}.{name}.bias", shapes[name][:1], plain)
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{block}.{name}.weight", (WIDTH,), plain)
    add("output_norm.weight", (WIDTH,), plain)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path

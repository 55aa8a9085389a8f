"""A Llama in a GGUF file as `transformers` knows it: configuration, tokenizer, weights.

The package `gguf` reads the file: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from levelfield.core.arrays import Singles

if TYPE_CHECKING:
    from gguf import GGUFReader, ReaderTensor

START = "<|endoftext|>"
"""What precedes a text: pre-training put it between texts. The file names the token that begins a
turn of a chat."""

_CONTROL = 3
_PRE_TOKENIZER = "smollm"
_NAMES: Mapping[str, str] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _metadata(file: GGUFReader) -> dict[str, Any]:
    return {name: field.contents() for name, field in file.fields.items()}


def configuration(file: GGUFReader) -> dict[str, Any]:
    """Returns what `config.json` says.

    Raises:
        ValueError: the file holds another architecture.
    """
    data = _metadata(file)
    if data["general.architecture"] != "llama":
        raise ValueError(f"it holds a {data['general.architecture']} model, not a Llama")
    width, heads = data["llama.embedding_length"], data["llama.attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "float32",
        "vocab_size": len(data["tokenizer.ggml.tokens"]),
        "hidden_size": width,
        "intermediate_size": data["llama.feed_forward_length"],
        "num_hidden_layers": data["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": data["llama.attention.head_count_kv"],
        "head_dim": width // heads,
        "hidden_act": "silu",
        "max_position_embeddings": data["llama.context_length"],
        "rms_norm_eps": data["llama.attention.layer_norm_rms_epsilon"],
        "rope_parameters": {"rope_type": "default", "rope_theta": data["llama.rope.freq_base"]},
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in file.tensors),
        "bos_token_id": data["tokenizer.ggml.tokens"].index(START),
        "eos_token_id": data["tokenizer.ggml.eos_token_id"],
        "pad_token_id": data["tokenizer.ggml.padding_token_id"],
    }


def tokenizer(file: GGUFReader) -> dict[str, Any]:
    """Returns what `tokenizer.json` says: byte-level BPE in which each digit is a token.

    Raises:
        ValueError: the file holds another kind of tokenizer.
    """
    data = _metadata(file)
    if data["tokenizer.ggml.pre"] != _PRE_TOKENIZER:
        raise ValueError(
            f"it splits texts by the rule {data['tokenizer.ggml.pre']!r}; expected "
            f"{_PRE_TOKENIZER!r}"
        )
    tokens: list[str] = data["tokenizer.ggml.tokens"]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": id, "content": token, **plain, "special": True}
            for id, (token, type) in enumerate(
                zip(tokens, data["tokenizer.ggml.token_type"], strict=True)
            )
            if type == _CONTROL
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "vocab": {token: id for id, token in enumerate(tokens)},
            "merges": [merge.split(" ") for merge in data["tokenizer.ggml.merges"]],
        },
    }


def tokenizer_configuration(file: GGUFReader) -> dict[str, Any]:
    """Returns what `tokenizer_config.json` says, the chat template among it."""
    data = _metadata(file)
    tokens: list[str] = data["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": START,
        "eos_token": tokens[data["tokenizer.ggml.eos_token_id"]],
        "pad_token": tokens[data["tokenizer.ggml.padding_token_id"]],
        "unk_token": tokens[data["tokenizer.ggml.unknown_token_id"]],
        "model_max_length": data["llama.context_length"],
        "clean_up_tokenization_spaces": False,
        "chat_template": data["tokenizer.chat_template"],
    }


def tensors(file: GGUFReader) -> dict[str, ReaderTensor]:
    """Returns the weights by their names in `transformers`, in the order of the file.

    Raises:
        ValueError: the file has a weight that a Llama has not.
    """
    return {_name(tensor.name): tensor for tensor in file.tensors}


def _name(name: str) -> str:
    *block, part, kind = name.split(".")
    if part not in _NAMES or kind != "weight":
        raise ValueError(f"a Llama has no weights {name}")
    prefix = f"model.layers.{block[1]}." if block else ""
    return f"{prefix}{_NAMES[part]}.weight"


def weights(file: GGUFReader, tensor: ReaderTensor) -> Singles:
    """Returns the values of a tensor, exactly as its coding defines them, in the order that
    `transformers` expects.

    Rotary positions turn pairs of rows of queries and keys. The file has the rows of a pair side by
    side; `transformers` has first all the first ones of a head and then all the second ones.
    """
    from gguf.quants import dequantize

    values: Singles = dequantize(tensor.data, tensor.tensor_type)
    heads = {"attn_q": "head_count", "attn_k": "head_count_kv"}.get(tensor.name.split(".")[-2])
    if heads is None:
        return values
    rows, columns = values.shape
    count = file.fields[f"llama.attention.{heads}"].contents()
    pairs = values.reshape(count, rows // count // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)

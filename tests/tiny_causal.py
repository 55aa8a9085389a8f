"""Random small models of many types, in folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

import tiny

VOCABULARY = 400
_SIZE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
_GPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_positions": 64,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "initializer_range": 0.3,
}
_LINEAR: dict[str, Any] = {"rope_type": "linear", "rope_theta": 500000.0, "factor": 4.0}
_LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CAUSAL: dict[str, tuple[str, dict[str, Any]]] = {
    "bloom": ("BloomConfig", {"hidden_size": 16, "n_layer": 2, "n_head": 2}),
    "codegen": ("CodeGenConfig", {**_GPT, "rotary_dim": 4}),
    "falcon": ("FalconConfig", {**_SIZE}),
    "gemma": ("GemmaConfig", {**_SIZE, "head_dim": 8}),
    "gemma2": ("Gemma2Config", {**_SIZE, "head_dim": 8, "pad_token_id": 0}),
    "gpt2": ("GPT2Config", _GPT),
    "gpt2 of another epsilon": ("GPT2Config", {**_GPT, "layer_norm_epsilon": 0.1}),
    "gpt_bigcode": ("GPTBigCodeConfig", _GPT),
    "gptj": ("GPTJConfig", {**_GPT, "rotary_dim": 4}),
    "llama": ("LlamaConfig", _SIZE),
    "llama of longer texts": ("LlamaConfig", {**_SIZE, "rope_parameters": _LINEAR}),
    "llama 3": ("LlamaConfig", {**_SIZE, "rope_parameters": _LLAMA3}),
    "llama with tied weights": ("LlamaConfig", {**_SIZE, "tie_word_embeddings": True}),
    "mistral": ("MistralConfig", {**_SIZE, "sliding_window": None}),
    "mistral with windows": ("MistralConfig", {**_SIZE, "sliding_window": 8}),
    "opt": ("OPTConfig", {**_SIZE, "ffn_dim": 32, "word_embed_proj_dim": 16, "init_std": 0.3}),
    "qwen2": ("Qwen2Config", _SIZE),
    "qwen3": ("Qwen3Config", {**_SIZE, "head_dim": 8}),
}
"""What a test calls a model -> its configuration."""


def save_causal(folder: Path, configuration: str, options: dict[str, Any]) -> Path:
    """A random model of a configuration, with GPT-2's kind of tokenizer."""
    torch.manual_seed(0)
    config = getattr(transformers, configuration)(
        **{"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, **options}
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # gains and biases that say nothing would hide a mistake
                parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tiny.causal_tokenizer("gpt2", VOCABULARY).save_pretrained(folder)
    return folder


def save_t5(folder: Path, *, tied: bool) -> Path:
    """T5 v1.0, whose decoder's outputs are scaled, or v1.1, where they are not."""
    torch.manual_seed(0)
    words = tiny.tokenizer("t5")
    config = transformers.T5Config(
        vocab_size=len(words),
        d_model=16,
        d_kv=8,
        d_ff=32,
        num_layers=2,
        num_heads=2,
        n_positions=64,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        initializer_factor=1.0,
        feed_forward_proj="relu" if tied else "gated-gelu",
        tie_word_embeddings=tied,
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder

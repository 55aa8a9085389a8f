"""Causal models in GGUF files, which `transformers` reads: configuration, tokenizer, weights.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelfield.core.errors import ModelError, with_extra
from levelfield.models.loading import quiet, reading

if TYPE_CHECKING:
    from gguf import GGUFReader

TEXTS = ("config.json", "tokenizer.json", "tokenizer_config.json")
WEIGHTS = "model.safetensors"

START = "<|endoftext|>"
"""What precedes a text of SmolLM2: pre-training put it between texts. Its file names the token that
begins a turn of a chat."""
_SMOLLM = "smollm"
_DIGIT_RULES = frozenset({_SMOLLM, "starcoder", "refact", "command-r"})
"""Rules by which each digit is a word, and all else is split as GPT-2 does it."""
_GPT2_RULES = frozenset({"gpt-2", "phi-2"})


def open_gguf(gguf: Path) -> GGUFReader:
    """Returns the file with its metadata read, and its tensors yet to be.

    Raises:
        ModelError: the package that reads it is not installed, or the file is damaged.
    """
    try:
        from gguf import GGUFReader
    except ImportError as error:
        raise ModelError(
            f"the package gguf, which reads {gguf.name}, is not installed: {with_extra('offline')}"
        ) from error
    with reading(gguf.name):
        return GGUFReader(gguf)


def write_texts(gguf: Path, folder: Path) -> None:
    """Writes the configuration and the tokenizer of a file.

    Raises:
        ModelError: it is damaged, it is not a causal language model that `transformers` knows, or
            the rule by which it splits texts into words is unknown.
    """
    file = open_gguf(gguf)
    with reading(gguf.name):
        import transformers
        from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

        quiet()
        config = transformers.AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name)
        classes: Any = transformers.AutoModelForCausalLM._model_mapping
        if type(config) not in classes:
            raise ValueError(f"it holds a {config.model_type}; expected a causal language model")
        config.architectures, config.dtype = [classes[type(config)].__name__], "float32"
        kind = transformers.PreTrainedTokenizerFast
        read = kind.from_pretrained(gguf.parent, gguf_file=gguf.name)
        backend = read.backend_tokenizer
        rule = _metadata(file, "tokenizer.ggml.pre")
        if rule in _DIGIT_RULES:
            digits = Digits(individual_digits=True)
            backend.pre_tokenizer = Sequence([digits, ByteLevel(add_prefix_space=False)])
        elif (
            _metadata(file, "tokenizer.ggml.model") == "gpt2"
            and rule not in _GPT2_RULES
            and "Split(" not in repr(backend.pre_tokenizer)  # what `transformers` does with a rule
        ):
            raise ValueError(
                f"it splits texts by the rule {rule!r}, which this version of transformers does "
                "not know"
            )
        special = {**read.special_tokens_map, **({"bos_token": START} if rule == _SMOLLM else {})}
        tokenizer = kind(
            tokenizer_object=backend,
            model_max_length=config.max_position_embeddings,
            clean_up_tokenization_spaces=False,
            chat_template=read.chat_template,
            **special,
        )
        config.bos_token_id = tokenizer.bos_token_id
        config.save_pretrained(folder)
        tokenizer.save_pretrained(folder, save_jinja_files=False)


def write_weights(gguf: Path, folder: Path, *, texts: Path) -> None:
    """Writes the weights of a file in float32, exactly as its codings define them.

    Args:
        texts: the folder with what `write_texts` has written.

    Raises:
        ModelError: it is damaged, or lacks weights.
    """
    # its progress bars can't be switched off
    with reading(gguf.name), contextlib.redirect_stderr(io.StringIO()):
        import torch
        import transformers

        quiet()
        # without this, they may stay in their codings, which can't be written
        dense = getattr(transformers, "GgufConfig", None)
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            config=transformers.AutoConfig.from_pretrained(texts),
            dtype=torch.float32,
            output_loading_info=True,
            **({"quantization_config": dense(dequantize=True)} if dense else {}),
        )
        if lacking := sorted({*report["missing_keys"], *map(str, report["mismatched_keys"])}):
            raise ValueError(f"it lacks the weights {lacking[0]}")
        model.save_pretrained(folder, max_shard_size="1000TB")


def bytes_of_weights(gguf: Path) -> int:
    """Returns how many bytes the weights take in float32."""
    return sum(4 * int(tensor.n_elements) for tensor in open_gguf(gguf).tensors)


def _metadata(file: GGUFReader, name: str) -> Any:
    field = file.fields.get(name)
    return field.contents() if field else None

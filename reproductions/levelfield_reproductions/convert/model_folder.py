"""Folders of converted models: weights, configuration and tokenizer; and GPT-2 in one."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from levelfield.core.errors import ModelError
from levelfield.models.files import load_tokenizer
from levelfield.models.loading import Loading, quiet, reading
from levelfield.models.resolve import Resolved, resolve, resolve_causal
from levelfield_reproductions.convert.reading import (
    PublishedFiles,
    Tensors,
    shapes_of,
)

_SHAPE = (
    *("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"),
    *("activation_function", "layer_norm_epsilon", "bos_token_id", "eos_token_id"),
)
"""Keys of a configuration that decide what a model computes; the rest is for training."""

MASKS = r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)"
"""Causal masks, which old checkpoints have among their weights."""


def configuration(cls: Any, settings: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Returns a configuration with those of the authors' settings that decide what is computed."""
    with reading("config.json"):
        return cls(**{name: settings[name] for name in names if name in settings})


def parameter_shapes(model: Any, config: Any) -> dict[str, Sequence[int]]:
    """Returns the shapes of the tensors of a model by name; none of them is allocated."""
    with reading("config.json"), torch.device("meta"):
        return shapes_of(model(config))


def write_model(
    folder: Path,
    model: type,
    config: Any,
    weights: Mapping[str, torch.Tensor],
    *,
    dtype: torch.dtype | None = None,
) -> None:
    """Writes the configuration and the weights of a model; makes the folder."""
    from safetensors.torch import save_file

    config.architectures = [model.__name__]
    if dtype is not None:
        config.dtype = dtype
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    copies = {name: tensor.contiguous().clone() for name, tensor in weights.items()}
    save_file(copies, folder / "model.safetensors", metadata={"format": "pt"})


def write_gpt2(
    source: PublishedFiles, tensors: Tensors, folder: Path, tokenizer: str = ""
) -> Resolved:
    """Writes the folder of a GPT-2 with a language-modelling head.

    Args:
        source: the authors' folder, with `config.json` and, unless a tokenizer is named, the files
            of the tokenizer.
        tensors: its weights; all that are left must be GPT-2's.
        folder: is made.
        tokenizer: the model whose tokenizer is taken; empty for the folder's own.

    Raises:
        ModelError: a file or tensor is missing, has another shape, or is unknown.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    quiet()
    config = configuration(GPT2Config, source.settings_of("gpt2"), _SHAPE)
    shapes = parameter_shapes(GPT2LMHeadModel, config)
    del shapes["lm_head.weight"]
    tensors.drop(MASKS)
    prefix = "" if "transformer.wte.weight" in tensors else "transformer."
    if prefix and "wte.weight" in tensors:  # of the body alone
        bare = {name.removeprefix(prefix): shape for name, shape in shapes.items()}
        weights = {prefix + name: tensor for name, tensor in tensors.take_all(bare).items()}
    else:
        weights = tensors.take_all(shapes)
    embeddings = weights["transformer.wte.weight"]
    if "lm_head.weight" in tensors:
        head = tensors.take("lm_head.weight", *embeddings.shape)
        if not torch.equal(head, embeddings):
            config.tie_word_embeddings = False
            weights["lm_head.weight"] = head
    tensors.finish()
    write_model(folder, GPT2LMHeadModel, config, weights, dtype=embeddings.dtype)
    write_tokenizer(source.path, folder, tokenizer)
    return resolve_causal(str(folder), Loading())


_TOKENIZER = (
    *("vocab.json", "merges.txt", "tokenizer.json"),
    *("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
)


def write_tokenizer(source: Path, folder: Path, name: str) -> None:
    """Puts a tokenizer into the folder of a model.

    Args:
        source: the authors' folder.
        folder: of the model; has its `config.json`.
        name: the model whose tokenizer is taken; empty for the authors' own.

    Raises:
        ModelError: the authors' folder has none and no model is named, or it is damaged.
    """
    import transformers

    if name:
        tokenizer: Any = load_tokenizer(resolve(name))
    else:
        files = [source / file for file in _TOKENIZER if (source / file).is_file()]
        if not files:
            raise ModelError(
                f"{source.name} has no tokenizer (vocab.json and merges.txt); name the model that "
                "it was fine-tuned from with -o tokenizer=NAME"
            )
        for file in files:
            shutil.copy(file, folder)
        with reading(source.name):
            tokenizer = transformers.AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
    tokenizer.save_pretrained(folder)

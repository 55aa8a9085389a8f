"""GPT-2 models that authors fine-tuned, as model folders of ours."""

from __future__ import annotations

from pathlib import Path

import torch

from levelfield.models.files import quiet
from levelfield.models.loading import Loading, reading
from levelfield.models.resolve import Resolved, resolve_causal
from levelfield_reproductions.convert.reading import (
    PublishedFiles,
    Tensors,
    save_weights,
    shapes_of,
)
from levelfield_reproductions.convert.tokenizer import write_tokenizer

_SHAPE = (
    *("vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner"),
    *("activation_function", "layer_norm_epsilon", "bos_token_id", "eos_token_id"),
)
"""What of a configuration decides what a model computes; the rest is of the authors' programs."""

MASKS = r"(transformer\.)?h\.\d+\.attn\.(bias|masked_bias)"
"""Causal masks, which old checkpoints have among their weights."""


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
    about = source.settings_of("gpt2")
    with reading("config.json"):
        config = GPT2Config(**{name: about[name] for name in _SHAPE if name in about})
        with torch.device("meta"):
            shapes = shapes_of(GPT2LMHeadModel(config))
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
    config.architectures = ["GPT2LMHeadModel"]
    config.dtype = embeddings.dtype
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    save_weights(weights, folder / "model.safetensors")
    write_tokenizer(source.path, folder, tokenizer)
    return resolve_causal(str(folder), Loading())

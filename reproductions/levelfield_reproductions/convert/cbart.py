"""CBART: a BART with a head on its encoder.

Layout: a folder as `save_pretrained` of transformers 3 wrote it, with `config.json`,
`pytorch_model.bin` and maybe a tokenizer. The names of the tensors are BART's, those of the head
begin with `classification_head.`, and `label_weights` is a buffer of the training. Only the head of
three labels is read, which inserts one token at a place; the authors also have one that says how
many, and one that regresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from levelfield.core.errors import ModelError
from levelfield.core.options import Options, option
from levelfield.generation.techniques.cbart.network import HEAD, Action, EditingHead
from levelfield.models.loading import quiet
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.model_folder import (
    configuration,
    parameter_shapes,
    write_model,
    write_tokenizer,
)
from levelfield_reproductions.convert.reading import PublishedFiles, Tensors, shapes_of

_SHAPE = (
    *("vocab_size", "d_model", "max_position_embeddings"),
    *("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim"),
    *("decoder_layers", "decoder_attention_heads", "decoder_ffn_dim"),
    *("activation_function", "scale_embedding"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
)
"""Keys of a configuration that decide what a model computes; the rest is for training."""
_OTHERS = ("normalize_before", "add_final_layer_norm", "static_position_embeddings")
"""What makes mBART and others of a configuration of transformers 3."""
_TIED = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
_SHARED = "model.shared.weight"
_AUTHORS_HEAD = "classification_head."


@dataclass(frozen=True, kw_only=True)
class CBARTOptions(Options):
    """How a model is converted."""

    tokenizer: str = option(
        "",
        "Model whose tokenizer is used if the folder has none: facebook/bart-base, or a folder.",
        blank=True,
        otherwise="the folder's own",
    )


def _convert(source: PublishedFiles, out: Path, options: CBARTOptions) -> Converted:
    from transformers import BartForConditionalGeneration

    quiet()
    config = _config(source)
    tensors = source.tensors()
    tensors.drop("label_weights")
    weights = {**_body(tensors, config), **_head(tensors, config.d_model)}
    tensors.finish()
    write_model(out, BartForConditionalGeneration, config, weights, dtype=weights[_SHARED].dtype)
    write_tokenizer(source.path, out, options.tokenizer)
    layers = f"{config.encoder_layers} + {config.decoder_layers} layers of {config.d_model}"
    return Converted(
        "inserts and replaces words around keywords, for CBART",
        "give it to cbart as --model {out}",
        {"Model": f"BART, {layers}"},
    )


def _config(source: PublishedFiles) -> Any:
    """Returns BART's configuration without keys of the authors' programs."""
    from transformers import BartConfig

    about = source.settings_of("bart")
    if foreign := [name for name in _OTHERS if about.get(name)]:
        raise ModelError(f"config.json has {foreign[0]}, which BART does not have")
    settings = {name: value for name, value in about.items() if value is not None}
    config = configuration(BartConfig, settings, _SHAPE)
    # transformers 3 begins the decoder with the end of the text
    if config.decoder_start_token_id is None:
        config.decoder_start_token_id = config.eos_token_id
    config.forced_eos_token_id = None
    return config


def _body(tensors: Tensors, config: Any) -> dict[str, torch.Tensor]:
    from transformers import BartForConditionalGeneration

    shapes = parameter_shapes(BartForConditionalGeneration, config)
    for name in _TIED:
        shapes.pop(name, None)
    weights = tensors.take_all(shapes)
    for name in _TIED:
        if name in tensors and not torch.equal(
            tensors.take(name, *weights[_SHARED].shape), weights[_SHARED]
        ):
            raise ModelError(f"{name} differs from {_SHARED}; expected one table of embeddings")
    return weights


def _head(tensors: Tensors, width: int) -> dict[str, torch.Tensor]:
    labels = f"{_AUTHORS_HEAD}out_proj.bias"
    if labels in tensors and (count := tensors.peek(labels).numel()) != len(Action):
        raise ModelError(
            f"the head has {count} labels; expected {len(Action)}: copy, replace and insert"
        )
    weights = tensors.take_all(shapes_of(EditingHead(width)), _AUTHORS_HEAD)
    return {f"{HEAD}{name}": tensor for name, tensor in weights.items()}


CONVERTER = Converter(CBARTOptions, _convert)

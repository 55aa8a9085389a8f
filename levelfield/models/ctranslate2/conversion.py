"""Checkpoints of `transformers` in CTranslate2's format.

The vocabulary of a copy is ids written out ("0", "1", …). CTranslate2 takes tokens as strings and
finds their ids by them; ids are what we have, and no two are written alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from levelfield.core.arrays import Singles
from levelfield.core.errors import ModelError, first_line
from levelfield.core.machine import model_threads
from levelfield.models.causal import has_windows
from levelfield.models.files import load_config, load_tokenizer
from levelfield.models.loading import Loading, reading
from levelfield.models.resolve import Kind, Resolved

CONVERTERS: Mapping[str, Mapping[str, str]] = {
    "encoder-decoder": {
        "bart": "BartLoader",
        "pegasus": "PegasusLoader",
        "t5": "T5Loader",
    },
    "causal": {
        "bloom": "BloomLoader",
        "codegen": "CodeGenLoader",
        "falcon": "FalconLoader",
        "gemma": "GemmaLoader",
        "gpt2": "GPT2Loader",
        "gpt_bigcode": "GPTBigCodeMHALoader",
        "gptj": "GPTJLoader",
        "llama": "LlamaLoader",
        "mistral": "MistralLoader",
        "opt": "OPTLoader",
        "qwen2": "Qwen2Loader",
        "qwen3": "Qwen3Loader",
    },
}
"""Model types whose conversions agree with PyTorch, which the tests hold, and CTranslate2's class
that converts each."""

VERSION = 1
"""Counts up when a conversion would have other bytes."""

WEIGHTS: Mapping[str, str] = {"float32": "float32", "int8": "int8_float32"}
"""Our names of precisions -> CTranslate2's, of stored weights and of what it computes with them."""

_ARCHITECTURE: Mapping[str, Mapping[str, bool]] = {
    "bart": {"normalize_before": False, "normalize_embedding": True},
    "pegasus": {"normalize_before": True, "normalize_embedding": False},
}
"""What the converter reads of a configuration although the model type decides it: `transformers`
ignores the entries, and not every checkpoint has them."""

_ROPE = (None, "default", "linear")
"""Kinds of rotary positions that are the same on both sides. `llama3`, of Llama 3.1 and later, is
converted without an error into other ones."""


def check_convertible(resolved: Resolved, kind: Kind) -> None:
    """Checks that CTranslate2 computes what the model of this name does.

    Raises:
        ModelError: it is of another kind, or CTranslate2 lacks something that it has.
    """
    if resolved.kind != kind:
        raise ModelError(f"model '{resolved.name}' is a {resolved.kind} model, not {kind}")
    types = CONVERTERS[kind]
    lacks = ""
    if resolved.exit:
        lacks = "an early exit"
    elif resolved.model_type not in types:
        lacks = f"of the type {resolved.model_type}"
    else:
        config = load_config(resolved)
        with reading(resolved.name):
            rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type")
        if has_windows(config):
            lacks = "one whose layers attend to the last tokens only"
        elif rope not in _ROPE:
            lacks = f"one with rotary positions of the kind {rope}"
    if lacks:
        raise ModelError(
            f"engine 'ctranslate2' can't compute model '{resolved.name}': it is {lacks}; take "
            f"--engine torch, or a model of one of these types: {', '.join(types)}"
        )


def convert(resolved: Resolved, dtype: str, into: Path) -> None:
    """Writes a model in CTranslate2's format into a folder.

    Args:
        resolved: a model that `check_convertible` lets pass.
        dtype: `float32` or `int8`, of the weights.
        into: an empty folder.

    Raises:
        ModelError: the model's files are damaged, or can't be converted.
    """
    from levelfield.models.torch.loading import load_pretrained

    model, _ = load_pretrained(resolved, resolved.kind, Loading(device="cpu"))
    with reading(resolved.name):
        spec = specification(model, load_tokenizer(resolved))
        spec.validate()
        spec.optimize(quantization=WEIGHTS[dtype])
        spec.save(str(into))


def specification(model: Any, tokenizer: Any) -> Any:
    """Returns a model of `transformers` as CTranslate2's specification, with ids as its
    vocabulary."""
    import torch
    from ctranslate2.converters import transformers as converters
    from ctranslate2.specs.model_spec import OPTIONAL

    config = model.config
    encodes = bool(config.is_encoder_decoder)
    kind = "encoder-decoder" if encodes else "causal"
    loader = getattr(converters, CONVERTERS[kind][config.model_type])()
    for name, value in _ARCHITECTURE.get(config.model_type, {}).items():
        setattr(config, name, value)
    epsilon = getattr(config, "layer_norm_epsilon", None)
    scales = config.d_model**-0.5 if getattr(config, "scale_decoder_outputs", False) else OPTIONAL
    with torch.no_grad():
        spec = loader.get_model_spec(model)  # takes the model apart
        loader.set_config(spec.config, model, tokenizer)
    # the converter scales where embeddings are tied, which `transformers` 5 says of every T5
    if config.model_type == "t5":
        spec.decoder.scale_outputs = scales
    if epsilon is not None:
        spec.config.layer_norm_epsilon = epsilon
    ids = [str(id) for id in range(config.vocab_size)]
    spec.config.unk_token = ids[tokenizer.unk_token_id or 0]
    spec.config.bos_token = ids[tokenizer.bos_token_id or 0]
    spec.config.eos_token = ids[tokenizer.eos_token_id or 0]
    if encodes:
        spec.config.decoder_start_token = ids[config.decoder_start_token_id]
        spec.register_source_vocabulary(ids)
        spec.register_target_vocabulary(ids)
    else:
        spec.register_vocabulary(ids)
    return spec


def check_device(loading: Loading) -> tuple[str, int]:
    """Returns CTranslate2's name of the device, and its number.

    Raises:
        ModelError: CTranslate2 has no such device, or not this precision there.
    """
    import ctranslate2

    name, _, index = loading.device.partition(":")
    if name == "auto":
        name = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
    if name not in ("cpu", "cuda"):
        raise ModelError(f"engine 'ctranslate2' can't use device '{name}'; it has cpu and cuda")
    number = int(index or 0)
    if name == "cuda" and number >= ctranslate2.get_cuda_device_count():
        raise ModelError(f"device '{loading.device}' can't be used here; `--device cpu` always can")
    if WEIGHTS[loading.dtype] not in ctranslate2.get_supported_compute_types(name, number):
        raise ModelError(f"engine 'ctranslate2' has no {loading.dtype} on device '{name}'")
    return name, number


def open_converted(kind: Literal["Translator", "Generator"], folder: Path, loading: Loading) -> Any:
    """Returns CTranslate2's object of a converted model.

    Raises:
        ModelError: as `check_device`; or the folder holds no such model.
    """
    import ctranslate2

    device, index = check_device(loading)

    try:
        return getattr(ctranslate2, kind)(
            str(folder),
            device=device,
            device_index=index,
            compute_type=WEIGHTS[loading.dtype],
            inter_threads=1,
            intra_threads=model_threads(),
        )
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"engine 'ctranslate2' can't open what it converted: {first_line(error)}; remove it "
            "with `levelfield cache clear --models`"
        ) from error


def array(view: Any) -> Singles:
    """Returns CTranslate2's view of an array, on whatever device, as an array of NumPy."""
    from ctranslate2 import Device

    values: Singles = np.asarray(view if view.device == "cpu" else view.to_device(Device.cpu))
    return values

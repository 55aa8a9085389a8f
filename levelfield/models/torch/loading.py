"""Weights into memory: which device, which precision, no pickles, no code from a hub."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from levelfield.core.errors import ModelError
from levelfield.core.machine import usable_processors
from levelfield.models.files import (
    check_depth,
    check_finite,
    load_config,
    load_tokenizer,
    whole_folder,
)
from levelfield.models.loading import Loading, Precision, reading
from levelfield.models.resolve import OURS, Kind, Resolved
from levelfield.models.tokens import Row, Tokens, padded, token_mask
from levelfield.models.torch.early_exit import first_layers, leave_early
from levelfield.models.torch.lora import merge_lora


def pick_device(name: str) -> torch.device:
    """Returns the device of this name; `auto` is a GPU where there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    _bound_threads()
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    # PyTorch has one of these for each way a device can be absent: no such name, no driver, not
    # compiled in, no kernels for it
    except (RuntimeError, AssertionError, ValueError, NotImplementedError) as error:
        raise ModelError(
            f"device '{name}' can't be used here; `--device cpu` always can"
        ) from error
    return device


@functools.cache
def _bound_threads() -> None:
    """Lets PyTorch have no more threads than there are processors for them.

    PyTorch starts one for each processor of the machine, and in a container that may use few of
    them the threads wait for each other, busily.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), usable_processors()))


def placement(loading: Loading) -> tuple[torch.device, torch.dtype]:
    """Returns where a model goes, and the type of its weights.

    Raises:
        ModelError: the device does not exist.
    """
    return pick_device(loading.device), _TYPES[loading.dtype]


_TYPES: Mapping[Precision, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
}


def batch_tokens_on(device: torch.device, wished: int | None, on_cpu: int = 4096) -> int:
    """Returns the most tokens in a batch: the user's number, or what suits the device."""
    return wished or (on_cpu if device.type == "cpu" else 65536)


def batch_of(
    rows: Sequence[Row], pad: int, device: torch.device, *, left: bool = False
) -> dict[str, torch.Tensor]:
    """Returns the `input_ids` and the `attention_mask` of rows of ids, padded to the longest."""
    ids, mask = padded(rows, pad, left=left), token_mask(rows, left=left)
    return {
        "input_ids": torch.from_numpy(ids).to(device),
        "attention_mask": torch.from_numpy(mask).to(device),
    }


def load_pretrained(resolved: Resolved, kind: Kind, loading: Loading) -> tuple[Any, Any]:
    """Returns model (in evaluation mode, on its device) and tokenizer of a resolved name.

    Raises:
        UserError, ModelError: as of `placement`; the model is of another kind, or its files are
            damaged.
    """
    import transformers

    if resolved.kind != kind:
        raise ModelError(f"model '{resolved.name}' is a {resolved.kind} model, not {kind}")
    heads = {
        "encoder-decoder": transformers.AutoModelForSeq2SeqLM,
        "causal": transformers.AutoModelForCausalLM,
        "encoder": transformers.AutoModel,
        "classifier": transformers.AutoModelForSequenceClassification,
    }
    return _load(resolved, heads[kind], loading)


def load_body(resolved: Resolved, loading: Loading) -> tuple[Any, Any]:
    """Returns the encoder inside a model, whatever head is on it, and its tokenizer.

    Weights may lack a pooler, as RoBERTa's do: it changes no token.

    Raises:
        UserError, ModelError: as of `placement`; the model has no encoder, or its files are
            damaged.
    """
    import transformers

    if resolved.kind not in ("encoder", "encoder-decoder", "classifier"):
        raise ModelError(
            f"model '{resolved.name}' is a {resolved.kind} model and has no encoder; use one that "
            "has, for example roberta-large"
        )
    model, tokenizer = _load(resolved, transformers.AutoModel, loading, spare=("pooler.",))
    body = model.get_encoder() if resolved.kind == "encoder-decoder" else model
    return body, tokenizer


def load_to_tune(
    resolved: Resolved, labels: Sequence[str], device: torch.device
) -> tuple[Any, Any]:
    """Returns a classifier of these labels to be trained, and its tokenizer: an encoder with a new
    head, drawn by PyTorch's generator; a classifier keeps its own if it has as many labels.

    Raises:
        ModelError: the model is neither of the two, or its files are damaged.
    """
    import transformers

    if resolved.kind not in ("encoder", "classifier") or resolved.model_type in OURS:
        description = (
            "one of levelfield's own judges"
            if resolved.model_type in OURS
            else f"a {resolved.kind} model"
        )
        raise ModelError(
            f"model '{resolved.name}' is {description}; training begins from an encoder "
            "(offline/minilm is one) or a classifier of `transformers`"
        )
    tokenizer = load_tokenizer(resolved)
    if tokenizer.pad_token_id is None:
        raise ModelError(
            f"model '{resolved.name}' can't be trained: its tokenizer has no padding token"
        )
    with reading(resolved.name):
        model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            resolved.path,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            dtype=torch.float32,
            use_safetensors=not resolved.pickled,
            local_files_only=True,
            trust_remote_code=False,
            **classes(labels),
        )
    prefix = f"{model.base_model_prefix}."
    missing = sorted(
        key for key in report["missing_keys"] if key.startswith(prefix) and "pooler" not in key
    )
    if missing:
        raise ModelError(
            f"model '{resolved.name}' can't be used: its weights lack {missing[0]} and "
            f"{len(missing) - 1} more"
        )
    check_finite(resolved, model.named_parameters())
    model.config.pad_token_id = tokenizer.pad_token_id  # decoders look for their last token by it
    return model.to(device), tokenizer


def classes(labels: Sequence[str]) -> dict[str, Any]:
    """Returns what the configuration of a classifier says of its labels."""
    return {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: i for i, label in enumerate(labels)},
        "problem_type": "single_label_classification",
    }


def _load(
    resolved: Resolved,
    head: Any,
    loading: Loading,
    spare: tuple[str, ...] = (),
) -> tuple[Any, Any]:
    """Returns what `load_pretrained` does; weights named `spare`… may be missing."""
    device, dtype = placement(loading)
    folder = whole_folder(resolved)
    check_depth(resolved, folder)
    tokenizer = load_tokenizer(resolved)
    config = {"config": first_layers(load_config(resolved), resolved.exit)} if resolved.exit else {}
    with reading(resolved.name):
        model, report = head.from_pretrained(
            folder,
            output_loading_info=True,
            dtype=dtype,
            use_safetensors=not resolved.pickled,
            local_files_only=True,
            trust_remote_code=False,
            **config,
        )
        if resolved.exit:
            leave_early(model, resolved.exit)
        if resolved.adapter:
            merge_lora(model, resolved.adapter, resolved.name)
    if missing := sorted(key for key in report["missing_keys"] if not key.startswith(spare)):
        raise ModelError(
            f"model '{resolved.name}' can't be used: its weights lack {missing[0]} and "
            f"{len(missing) - 1} more, which would be drawn at random"
        )
    check_finite(resolved, model.named_parameters())
    fuse_activations(model)
    return model.eval().to(device), tokenizer


def fuse_activations(model: torch.nn.Module) -> None:
    """Puts PyTorch's GELU where a model has the same formula written out, as GPT-2 has.

    The tanh approximation in one pass over memory, not eight: the same to rounding in float32, and
    a fifth to a quarter of a forward on a CPU.
    """
    from transformers.activations import NewGELUActivation

    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, NewGELUActivation):
                setattr(module, name, torch.nn.GELU(approximate="tanh"))


def places(model: torch.nn.Module) -> int | None:
    """Returns how many tokens the model's table of positions is for; None if it has none. RoBERTa
    and its kin count from after the padding token's place, so they take fewer than they have."""
    limits = [
        table.num_embeddings - (-1 if table.padding_idx is None else table.padding_idx) - 1
        for path, table in model.named_modules()
        if path.endswith("position_embeddings") and isinstance(table, torch.nn.Embedding)
    ]
    return min(limits, default=None)


class ForwardPass:
    """Base of models around a module that reads batches of ids.

    Args:
        limit: how many tokens of a text the module takes.
        batch_tokens: the most tokens in a batch, or None for `on_cpu` or what suits the device.
    """

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        limit: int,
        device: torch.device,
        batch_tokens: int | None,
        on_cpu: int = 4096,
    ) -> None:
        self._model = module
        self._limit = limit
        self._tokens = Tokens(tokenizer)  # lifts the tokenizer's own limit
        self._pad = tokenizer.pad_token_id or 0
        self._device = device
        self._batch_tokens = batch_tokens_on(device, batch_tokens, on_cpu)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns vocabulary ids of texts, without special tokens."""
        return self._tokens.ids(texts)

    def _batch(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        return batch_of(rows, self._pad, self._device)

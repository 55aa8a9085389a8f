"""Low-rank adapters (LoRA) in the layout of PEFT: which there are, and by how much they count.

A folder has `adapter_config.json`, which names the base model, and `adapter_model.safetensors`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core.errors import ModelError
from levelfield.io.problems import shown

ABOUT, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


@dataclass(frozen=True)
class LoraConfig:
    """What `adapter_config.json` says.

    Attributes:
        base: name of the model whose weights change, with its revision if the file has one.
        rank: r.
        scale: α / r, or α / √r (rank-stabilised; Kalajdzievski 2023, "A Rank Stabilization Scaling
            Factor for Fine-Tuning with LoRA").
    """

    base: str
    rank: int
    scale: float


def is_adapter(folder: Path) -> bool:
    """Returns whether a folder has an adapter and no whole model beside it."""
    return (folder / ABOUT).is_file() and not any(folder.glob("model*.safetensors"))


def lora_config(config: Any, name: str) -> LoraConfig:
    """Returns what the adapter of a model's name is.

    Args:
        config: the contents of `adapter_config.json`.

    Raises:
        ModelError: it is not a plain LoRA of a causal model: W + scale · B A and nothing else.
    """
    if not isinstance(config, dict):
        raise ModelError(f"model '{name}': {ABOUT} does not hold an object")
    for key, (is_plain, expected) in _PLAIN.items():
        if not is_plain(config.get(key)):
            raise ModelError(
                f"model '{name}': {ABOUT}: {key} is {shown(str(config.get(key)))}; expected "
                f"{expected}, since only plain LoRA adapters are read"
            )
    base, revision = config["base_model_name_or_path"], config.get("revision")
    rank, alpha = config["r"], config["lora_alpha"]
    scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    return LoraConfig(f"{base}@{revision}" if revision else base, rank, scale)


def _is_empty(value: object) -> bool:
    return not value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_BESIDE_LORA = (
    "use_dora",
    "use_qalora",
    "use_bdlora",
    "lora_bias",
    "modules_to_save",
    "rank_pattern",
    "alpha_pattern",
    "layer_replication",
    "trainable_token_indices",
    "target_parameters",
    "alora_invocation_tokens",
    "arrow_config",
    "kasa_config",
    "monteclora_config",
    "velora_config",
)
"""Settings that make an adapter more than W + scale · B A."""

_NOTHING = (_is_empty, "nothing")
_PLAIN: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "peft_type": (lambda value: value == "LORA", "LORA"),
    "task_type": (lambda value: value in (None, "CAUSAL_LM"), "CAUSAL_LM"),
    "base_model_name_or_path": (lambda value: isinstance(value, str) and value != "", "a name"),
    "revision": (lambda value: value is None or isinstance(value, str), "a revision"),
    "r": (lambda value: isinstance(value, int) and value > 0, "a whole number from 1 on"),
    "lora_alpha": (_is_number, "a number"),
    "bias": (lambda value: value in (None, "none"), "none"),
    # other beginnings (PiSSA, OLoRA, LoftQ) change the base's weights as well
    "init_lora_weights": (
        lambda value: value is None or isinstance(value, bool) or value == "gaussian",
        "true, false or gaussian",
    ),
    **dict.fromkeys(_BESIDE_LORA, _NOTHING),
}
"""What is read of a configuration -> whether plain LoRA has that value, and what it must be."""

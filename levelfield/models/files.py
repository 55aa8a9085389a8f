"""What the files of a model say without its weights in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from safetensors import SafetensorError

from levelfield.core.errors import ModelError
from levelfield.models.resolve import Resolved

DAMAGE = (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError, SafetensorError)
"""What loading files raises that are not what they should be."""


def cannot_load(resolved: Resolved, error: Exception) -> ModelError:
    """The error for a model whose files are damaged."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return ModelError(f"model '{resolved.name}' can't be loaded: {first}")


def quiet() -> None:
    """No progress bars of `transformers`: a command shows its own."""
    from transformers.utils import logging

    disable: Callable[[], None] = logging.disable_progress_bar
    disable()


def load_tokenizer(resolved: Resolved) -> Any:
    """The tokenizer of a resolved name, without the model's weights in memory.

    Raises:
        ModelError: its files are damaged.
    """
    import transformers

    quiet()
    try:
        return transformers.AutoTokenizer.from_pretrained(
            resolved.path, local_files_only=True, trust_remote_code=False
        )
    except DAMAGE as error:
        raise cannot_load(resolved, error) from error


def depth(resolved: Resolved) -> int:
    """How many layers the encoder of a model has; no weights are loaded."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(resolved.path, local_files_only=True)
    return int(config.num_hidden_layers)

"""How many texts are written at once, where the user does not say.

A step of a model reads all of its weights, however many rows there are. So more rows cost less
each, until the arithmetic takes longer than the reading: from `WIDTH_ON_CPU` or `WIDTH` rows on.
Memory may end before: a row takes keys and values of each of its tokens in every layer, and several
tensors of the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from levelfield.core.machine import model_threads, usable_memory, usable_processors

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

Batch = int | Literal["auto"]
"""How many texts are written at once; `auto` is what `texts_at_once` returns."""

WIDTH_ON_CPU = 128
"""Rows of a pass on a CPU beyond which a row costs no less; 64 are within a twentieth of it."""
WIDTH = 512
"""Rows of a pass on any other device."""
SHARE = 0.5
"""The share of the free memory that a batch may take; the rest is for what is not counted."""
LOGITS = 10
"""Tensors in float32 of the size of the vocabulary that a row has at once: logits, probabilities,
what may be chosen, and noise. Six were measured."""
ACTIVATIONS = 16
"""Numbers of the size of a state that a token of a prompt has at once while a layer reads it."""


class TextRows(NamedTuple):
    """Rows of models that a text takes.

    Attributes:
        widest: of the pass that has most of them.
        whole: of all models together, which are taken to be of the base's size.
    """

    widest: int = 1
    whole: int = 1


def texts_at_once(rows: TextRows, row_bytes: int, device: str, free: int) -> int:
    """Returns how many texts are written at once, at least 1.

    Args:
        rows: that a text takes.
        row_bytes: of memory that a row takes.
        device: the type of the device that computes.
        free: bytes of memory.
    """
    width = width_of(device) // rows.widest
    return max(1, min(width, int(SHARE * free) // max(1, rows.whole * row_bytes)))


def width_of(device: str) -> int:
    """Returns how many rows fill a pass on a device of this name or type; `auto` is a GPU where
    there is one."""
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    return WIDTH_ON_CPU if device == "cpu" else WIDTH


def row_bytes(config: Any, number: int, read: int, written: int) -> int:
    """Returns the bytes of memory that a row of a model takes.

    Args:
        config: of the model, as `transformers` has it.
        number: bytes of one number of its states.
        read: tokens that it reads before it writes.
        written: tokens that it writes at most.
    """
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    hidden = int(getattr(text, "hidden_size", 0) or 0)
    layers = int(getattr(text, "num_hidden_layers", 0) or 0)
    heads = int(getattr(text, "num_attention_heads", 0) or 1)
    sharing = getattr(text, "num_key_value_heads", None)
    width = getattr(text, "head_dim", None) or hidden // heads
    per_token = 2 * layers * int(sharing or heads) * int(width) * number
    prompt_bytes = read * ACTIVATIONS * hidden * number
    return (read + written) * per_token + prompt_bytes + logits_bytes(config, LOGITS)


def logits_bytes(config: Any, tensors: int) -> int:
    """Returns the bytes of that many tensors in float32 of the size of the vocabulary."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return tensors * 4 * int(getattr(text, "vocab_size", 0) or 0)


def free_memory(device: torch.device) -> int:
    """Returns the bytes that this process may still take on a device.

    On a CPU that is its part of what is free, by the threads that it computes with: workers on one
    machine share its memory as they share its processors.
    """
    if device.type != "cpu":
        import torch

        accelerator = getattr(torch, device.type, None)
        try:
            free: int = accelerator.mem_get_info(device)[0]  # type: ignore[union-attr]
            unused = accelerator.memory_reserved(device)  # type: ignore[union-attr]
            unused -= accelerator.memory_allocated(device)  # type: ignore[union-attr]
        except (AttributeError, RuntimeError, AssertionError):  # mps knows none of these
            pass
        else:
            return free + int(unused)
    return int(usable_memory() * min(1.0, model_threads() / usable_processors()))


def evenly(items: Sequence[T], most: int) -> Iterator[list[T]]:
    """Yields items in their order in the fewest lists of at most `most` each, of like length: 70
    items, at most 64 at once, are 35 and 35, since the last 6 of them would fill no pass.

    >>> [len(part) for part in evenly(range(70), 64)]
    [35, 35]
    """
    parts = -(-len(items) // most)
    for part in range(parts):
        begin, end = (len(items) * n // parts for n in (part, part + 1))
        yield list(items[begin:end])

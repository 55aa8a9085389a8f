"""Classifiers by name, whatever they are made of."""

from __future__ import annotations

import functools

from levelfield.models.resolve import resolve
from levelfield.models.torch.classifier import Classifier, load_classifier
from levelfield.models.torch.loading import Device, DType, pick_device


@functools.lru_cache(maxsize=8)
def load_judge(
    name: str,
    *,
    device: Device = "auto",
    dtype: DType = "float32",
    allow_pickle: bool = False,
    batch_tokens: int | None = None,
) -> Classifier:
    """The classifier of this name, loaded once a process: one of `transformers`, or a TextCNN, a
    fastText model or a linear head that `levelfield train judge` made.

    Those three are computed in float32 whatever `dtype` says.

    Raises:
        ModelError: there is no such model, it is no classifier, or a library for it is missing.
    """
    resolved = resolve(name, allow_pickle=allow_pickle)
    if resolved.model_type == "levelfield-textcnn":
        from levelfield.models.small.textcnn import load_textcnn

        return load_textcnn(resolved, device=pick_device(device), batch_tokens=batch_tokens)
    if resolved.model_type == "levelfield-fasttext":
        from levelfield.models.small.fasttext import load_fasttext

        return load_fasttext(resolved)
    if resolved.model_type == "levelfield-linear":
        from levelfield.models.small.heads import load_linear

        return load_linear(
            resolved,
            device=pick_device(device),
            batch_tokens=batch_tokens,
            allow_pickle=allow_pickle,
        )
    return load_classifier(
        name, device=device, dtype=dtype, allow_pickle=allow_pickle, batch_tokens=batch_tokens
    )

"""Vectors of texts that training begins from, computed once a run."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import safetensors
import safetensors.torch
import torch

from levelfield.core.arrays import Singles
from levelfield.io.writing import file_replacement
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.torch.encoder import load_encoder


def sentence_vectors(
    texts: Sequence[str],
    encoder: str,
    loading: Loading,
    file: Path,
    notes: Callable[[str], object] = lambda _: None,
) -> Singles:
    """Embeddings of texts, (texts, width), of length 1; NaN for a text without tokens.

    Args:
        file: where they are kept, so that a run that goes on need not compute them again.
    """
    label = resolve(encoder, loading).label
    digest = hashlib.sha256(repr((label, tuple(texts))).encode("utf-8", "surrogatepass"))
    name = digest.hexdigest()
    if file.is_file():
        with safetensors.safe_open(file, "pt") as stored:
            if (stored.metadata() or {}).get("texts") == name:
                vectors: Singles = stored.get_tensor("vectors").numpy()
                return vectors
    notes(f"{len(texts):,} texts are read by {label}")
    vectors, _ = load_encoder(encoder, loading).sentences(texts)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file_replacement(file) as path:
        tensors = {"vectors": torch.from_numpy(vectors)}
        safetensors.torch.save_file(tensors, path, {"texts": name})
    return vectors

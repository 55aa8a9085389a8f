"""Steering vectors: from guides and from files, and whether they fit a base."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from levelfield.core.errors import ModelError, UserError
from levelfield.core.paths import user_path
from levelfield.generation.guides import weights_on_base
from levelfield.generation.techniques._steering.intervention import LowRankEdit
from levelfield.io.problems import shown
from levelfield.io.streams import sha256
from levelfield.models.control_vectors import (
    ControlVector,
    read_control_vector,
    write_control_vector,
)
from levelfield.models.guides import Guide
from levelfield.models.loading import AS_USUAL, Loading, reading
from levelfield.models.torch.language_model import LanguageModel, language_model

Vectors = Mapping[int, torch.Tensor]
"""Layer -> what belongs to the state that it leaves, (width,), float32."""


@dataclass(frozen=True)
class VectorFile:
    """Vectors of one label in a file.

    Attributes:
        label: what they stand for.
        path: a control vector (`.gguf`), or a safetensors file of one vector.
        layer: of that one vector; None for a control vector, which says so itself.
        sign: 1 or −1.
        digest: of the file.
    """

    label: str
    path: Path
    layer: int | None
    sign: float
    digest: str

    @classmethod
    def parse(cls, words: str) -> VectorFile:
        """Returns what `LABEL=FILE`, `LABEL=FILE@LAYER`, `LABEL=-FILE` or `LABEL=-FILE@LAYER` say.

        Raises:
            UserError: they say something else, or there is no such file.
        """
        expected = "expected LABEL=FILE.gguf or LABEL=FILE.safetensors@LAYER"
        parts = re.fullmatch(r"\s*([^=]*[^=\s])\s*=\s*(-?)(.+?)(?:@(\d+))?\s*", words)
        if parts is None:
            raise UserError(f"vectors has {shown(words)}; {expected}")
        label, minus, name, layer = parts.groups()
        path = user_path(name)
        if (path.suffix != ".gguf") != (layer is not None):
            raise UserError(
                f"vectors has {shown(words)}; {expected}: a GGUF file names its layers itself"
            )
        if not path.is_file():
            raise UserError(f"vectors: there is no file {shown(name)}")
        number = None if layer is None else int(layer)
        return cls(label, path, number, -1.0 if minus else 1.0, sha256(path))

    @property
    def name(self) -> str:
        """How signatures name it: `-happy.safetensors@0a1b2c3d4e5f:12`."""
        layer = "" if self.layer is None else f":{self.layer}"
        return f"{'-' if self.sign < 0 else ''}{self.path.name}@{self.digest[:12]}{layer}"

    def read(self, model: str, loading: Loading) -> Vectors:
        """Returns the vectors.

        Raises:
            ModelError: the file is damaged, or has vectors that don't fit the base.
        """
        if self.layer is None:
            arrays = read_control_vector(self.path).vectors
            vectors = {layer: torch.from_numpy(values) for layer, values in arrays.items()}
        else:
            with reading(self.path.name):
                tensors = load_file(self.path)
            if len(tensors) != 1 or next(iter(tensors.values())).squeeze().ndim != 1:
                shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())
                raise ModelError(f"{self.path.name} has {shapes or 'nothing'}; expected one vector")
            vectors = {self.layer: next(iter(tensors.values())).squeeze()}
        signed = {layer: self.sign * vector.float() for layer, vector in vectors.items()}
        return fitting(signed, language_model(model, loading), self.path.name)


def guide_vectors(guide: Guide, model: str, loading: Loading) -> Mapping[str, Vectors]:
    """Returns the vectors of each label of a guide of kind `vector`.

    Raises:
        ModelError: the guide is of another kind or base, its files are damaged, or its vectors
            don't fit the base.
    """
    with weights_on_base(guide, "vector", model, loading) as (base, tensors):
        layers = [int(layer) for layer in guide.settings["layers"]]
        rows = {label: tensors[label].float() for label in guide.labels}
    for label, matrix in rows.items():
        if matrix.ndim != 2 or len(matrix) != len(layers):
            raise ModelError(
                f"guide '{guide.name}': the vectors of {label} have the shape "
                f"{tuple(matrix.shape)}; expected one for each of {len(layers)} layers"
            )
    return {
        label: fitting(dict(zip(layers, matrix, strict=True)), base, f"guide '{guide.name}'")
        for label, matrix in rows.items()
    }


def write_vectors(guide: Guide, label: str, path: Path | str, loading: Loading = AS_USUAL) -> None:
    """Writes the vectors of a label of a guide of kind `vector` as a control vector, float32.

    Args:
        loading: of the guide's base.

    Raises:
        UserError: the guide has no such label.
        ModelError: the guide is of another kind, its base is not here, its files are damaged, or
            the package `gguf` is not installed.
        OSError: the file can't be written.
    """
    vectors = guide_vectors(guide, guide.base, loading)
    if label not in vectors:
        raise UserError(
            f"guide '{guide.name}' has no label {shown(label)}; it has {', '.join(vectors)}"
        )
    arrays = {layer: vector.numpy() for layer, vector in vectors[label].items()}
    model_type = language_model(guide.base, loading).model.config.model_type
    write_control_vector(ControlVector(arrays, model_type), path)


def head_vectors(guide: Guide, label: str, most: int, model: str, loading: Loading) -> Vectors:
    """Returns what a guide of kind `heads` adds for a label, to its best heads and to no other:
    layer -> (heads · width of a head,), float32.

    Args:
        most: number of heads, those that tell labels apart best.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    with weights_on_base(guide, "heads", model, loading) as (base, tensors):
        heads, shares = int(guide.settings["heads"]), guide.settings["accuracies"]
        matrix = tensors[label].float()
    depth = int(base.model.config.get_text_config().num_hidden_layers)
    if matrix.ndim != 2 or not len(matrix) == len(shares) == heads * depth:
        raise ModelError(
            f"guide '{guide.name}': the vectors of {label} have the shape {tuple(matrix.shape)}; "
            f"expected one for each of {heads * depth} heads"
        )
    best = torch.tensor(shares).argsort(descending=True, stable=True)[:most]
    kept = torch.zeros_like(matrix)
    kept[best] = matrix[best]
    by_layer = kept.reshape(depth, -1)
    return {layer: by_layer[layer] for layer in sorted(set((best // heads).tolist()))}


def guide_edits(guide: Guide, label: str, model: str, loading: Loading) -> dict[int, LowRankEdit]:
    """Returns the edits of a label of a guide of kind `reft`, by layer, float32.

    Raises:
        ModelError: the guide is of another kind or base, its files are damaged, or its edits don't
            fit the base.
    """
    with weights_on_base(guide, "reft", model, loading) as (base, tensors):
        layers = [int(layer) for layer in guide.settings["layers"]]
        R, W, b = (tensors[f"{label}.{name}"].float() for name in "RWb")
    config = base.model.config.get_text_config()
    depth, width = int(config.num_hidden_layers), int(config.hidden_size)
    expected = (len(layers), R.shape[1] if R.ndim > 1 else 0, width)
    shapes = [tuple(tensor.shape) for tensor in (R, W, b)]
    if shapes != [expected, expected, expected[:2]]:
        raise ModelError(
            f"guide '{guide.name}': R, W and b of {label} have the shapes "
            f"{', '.join(map(str, shapes))}; expected ({len(layers)}, rank, {width}) twice and "
            f"({len(layers)}, rank)"
        )
    if unknown := [layer for layer in layers if not 0 <= layer < depth]:
        raise ModelError(
            f"guide '{guide.name}' edits layer {unknown[0]}; {base.label} has the layers 0 to "
            f"{depth - 1}"
        )
    return {layer: LowRankEdit(R[n], W[n], b[n]) for n, layer in enumerate(layers)}


def fitting(vectors: Vectors, base: LanguageModel, name: str) -> Vectors:
    """Returns vectors that fit a base.

    Args:
        name: whose they are.

    Raises:
        ModelError: a layer that the base does not have, another width than its states', or values
            that are not finite.
    """
    config = base.model.config.get_text_config()
    depth, width = int(config.num_hidden_layers), int(config.hidden_size)
    for layer, vector in vectors.items():
        if not 0 <= layer < depth:
            raise ModelError(
                f"{name} has a vector of layer {layer}; {base.label} has the layers 0 to "
                f"{depth - 1}"
            )
        if vector.shape != (width,):
            raise ModelError(
                f"{name}: the vector of layer {layer} has the width {vector.shape[0]}; the states "
                f"of {base.label} have {width}"
            )
        if not vector.isfinite().all():
            raise ModelError(f"{name}: the vector of layer {layer} has values that are not finite")
    return vectors


def layer_numbers(words: str) -> tuple[int, ...]:
    """Returns the layers that words such as `8-12,15` name, each once, lowest first.

    Raises:
        UserError: the words are not numbers and ranges.
    """
    numbers: set[int] = set()
    for part in words.split(","):
        ends = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part)
        if ends is None or (ends[2] is not None and int(ends[2]) < int(ends[1])):
            raise UserError(f"layers is {shown(words)}; expected numbers and ranges, as in 8-12,15")
        numbers.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return tuple(sorted(numbers))


def chosen_layers(vectors: Vectors, layers: Sequence[int], name: str) -> Vectors:
    """Returns the vectors of some layers.

    Raises:
        UserError: there are none for a layer.
    """
    if missing := [layer for layer in layers if layer not in vectors]:
        there = ", ".join(map(str, sorted(vectors)))
        raise UserError(f"{name} has no vector of layer {missing[0]}; it has {there}")
    return {layer: vectors[layer] for layer in layers}

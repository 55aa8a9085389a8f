"""Control vectors in GGUF files: one vector for each of some layers of a causal model.

The layout is that of repeng and llama.cpp: the architecture is `controlvector`, a tensor
`direction.N` is added to what layer N leaves, and layers count from 0.
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.arrays import Singles
from levelfield.core.errors import ModelError, with_extra
from levelfield.io.writing import file_replacement
from levelfield.models.gguf_conversion import open_gguf
from levelfield.models.loading import reading

ARCHITECTURE = "controlvector"


@dataclass(frozen=True, eq=False)
class ControlVector:
    """Vectors of layers.

    Attributes:
        vectors: layer -> (width,), in the order of the file.
        model_type: the architecture that they are of, as `transformers` names it; empty if the file
            does not say.
    """

    vectors: Mapping[int, Singles]
    model_type: str = ""


def read_control_vector(path: Path) -> ControlVector:
    """Returns what a GGUF file holds; values that it has as float32 stay bit for bit.

    Raises:
        ModelError: the file is damaged or not a control vector, or the package `gguf` is not
            installed.
    """
    file = open_gguf(path)
    with reading(path.name):
        from gguf.quants import dequantize

        about = {name: field.contents() for name, field in file.fields.items()}
        architecture = about.get("general.architecture")
        if architecture != ARCHITECTURE:
            raise ModelError(f"{path.name} holds a {architecture}; expected a {ARCHITECTURE}")
        vectors: dict[int, Singles] = {}
        for tensor in file.tensors:
            name = re.fullmatch(r"direction\.(\d+)", tensor.name)
            if name is None:
                raise ModelError(f"{path.name}: tensor {tensor.name}; expected direction.LAYER")
            values = np.array(dequantize(tensor.data, tensor.tensor_type), np.float32)
            if values.ndim != 1:
                raise ModelError(f"{path.name}: {tensor.name} has {values.ndim} axes; expected one")
            vectors[int(name[1])] = values
        if not vectors:
            raise ModelError(f"{path.name} has no tensor direction.LAYER")
        return ControlVector(vectors, str(about.get(f"{ARCHITECTURE}.model_hint", "")))


def write_control_vector(vector: ControlVector, path: Path | str) -> None:
    """Writes a GGUF file that repeng and llama.cpp read, in place of any that is there.

    Raises:
        ModelError: the package `gguf` is not installed.
        OSError: the file can't be written.
    """
    try:
        from gguf import GGUFWriter
    except ImportError as error:
        raise ModelError(
            f"the package gguf, which writes {Path(path).name}, is not installed: "
            f"{with_extra('offline')}"
        ) from error
    with file_replacement(Path(path)) as beside:
        writer: Any = GGUFWriter(beside, ARCHITECTURE)
        writer.add_string(f"{ARCHITECTURE}.model_hint", vector.model_type)
        writer.add_uint32(f"{ARCHITECTURE}.layer_count", len(vector.vectors))
        for layer, values in vector.vectors.items():
            writer.add_tensor(f"direction.{layer}", np.ascontiguousarray(values, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

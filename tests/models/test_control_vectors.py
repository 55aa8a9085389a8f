"""Control vectors are read and written as repeng and llama.cpp have them, bit for bit."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from levelfield.core.errors import ModelError
from levelfield.models.control_vectors import (
    ControlVector,
    read_control_vector,
    write_control_vector,
)

AWKWARD = np.array([0.0, -0.0, 1e-45, -3.4e38, np.nextafter(1, 2)], np.float32)


def by_gguf(path: Path, tensors, *, architecture="controlvector", hint="llama") -> Path:
    """The file as the package writes it, call by call."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_string("controlvector.model_hint", hint)
    writer.add_uint32("controlvector.layer_count", len(tensors))
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_that_is_read_and_written_has_the_same_bytes(tmp_path: Path):
    rng = np.random.default_rng(0)
    tensors = {f"direction.{n}": rng.normal(size=48).astype(np.float32) for n in (3, 1, 2)}
    reference = by_gguf(tmp_path / "theirs.gguf", tensors)
    vector = read_control_vector(reference)
    assert (vector.model_type, list(vector.vectors)) == ("llama", [3, 1, 2])
    for layer, values in vector.vectors.items():
        assert values.tobytes() == tensors[f"direction.{layer}"].tobytes()
    write_control_vector(vector, tmp_path / "ours.gguf")
    assert (tmp_path / "ours.gguf").read_bytes() == reference.read_bytes()


def test_what_is_written_is_read_bit_for_bit(tmp_path: Path):
    write_control_vector(ControlVector({0: AWKWARD, 7: -AWKWARD}, "gpt2"), tmp_path / "v.gguf")
    vector = read_control_vector(tmp_path / "v.gguf")
    assert vector.model_type == "gpt2"
    assert {n: v.tobytes() for n, v in vector.vectors.items()} == {
        0: AWKWARD.tobytes(),
        7: (-AWKWARD).tobytes(),
    }


def test_halves_are_read_as_the_numbers_they_are(tmp_path: Path):
    halves = np.array([1 / 3, -2.5, 65504], np.float16)
    path = by_gguf(tmp_path / "v.gguf", {"direction.4": halves})
    assert np.array_equal(read_control_vector(path).vectors[4], halves.astype(np.float32))


@pytest.mark.parametrize(
    ("tensors", "architecture", "message"),
    [
        ({"direction.1": AWKWARD}, "llama", "v.gguf holds a llama; expected a controlvector"),
        ({"direction.x": AWKWARD}, "controlvector", r"tensor direction.x; expected direction.L"),
        ({}, "controlvector", "has no tensor direction"),
        ({"direction.1": np.ones((2, 3), np.float32)}, "controlvector", "has 2 axes; expected one"),
    ],
)
def test_what_is_not_a_control_vector_is_an_error_of_one_line(
    tmp_path: Path, tensors, architecture, message
):
    path = by_gguf(tmp_path / "v.gguf", tensors, architecture=architecture)
    with pytest.raises(ModelError, match=message) as caught:
        read_control_vector(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_gguf_is_an_error_of_one_line(tmp_path: Path):
    (tmp_path / "v.gguf").write_bytes(b"nothing of the kind")
    with pytest.raises(ModelError, match=r"v\.gguf") as caught:
        read_control_vector(tmp_path / "v.gguf")
    assert "\n" not in str(caught.value)

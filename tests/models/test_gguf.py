"""GGUF files are read as the package `gguf` reads them, value by value."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from levelfield.models import llama_gguf
from levelfield.models.gguf import read_gguf

reference = pytest.importorskip("gguf")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_metadata_are_those_that_the_reference_reads(file):
    fields = reference.GGUFReader(file).fields.values()
    expected = {f.name: f.contents() for f in fields if not f.name.startswith("GGUF.")}
    assert read_gguf(file).metadata == expected


def test_every_tensor_has_the_shape_and_the_values_of_the_reference_bit_for_bit(file):
    ours = read_gguf(file)
    theirs = reference.GGUFReader(file).tensors
    assert list(ours.tensors) == [tensor.name for tensor in theirs]
    for tensor in theirs:
        expected = reference.quants.dequantize(tensor.data, tensor.tensor_type)
        values = ours.values(tensor.name)
        assert values.dtype == np.float32
        assert values.shape == expected.shape
        assert values.tobytes() == expected.tobytes()


def test_all_numbers_of_both_codings_are_decoded(file):
    """Random weights hardly have the blocks with the largest and the least scales and values."""
    ours = read_gguf(file)
    names = ("blk.0.ffn_up.weight", "token_embd.weight")
    rng = np.random.default_rng(1)
    for name in names:
        shape, number, offset = ours.tensors[name]
        data = bytearray(file.read_bytes())
        size = np.prod(shape) // 32 * {3: 20, 8: 34}[number]
        blocks = rng.integers(0, 256, size, np.uint8).reshape(-1, {3: 20, 8: 34}[number])
        blocks[:, 1] &= 0b10111111  # finite scales
        blocks[:, 3] &= 0b10111111
        data[offset : offset + size] = blocks.tobytes()
        changed = file.with_name("changed.gguf")
        changed.write_bytes(data)
        rows = blocks.reshape(shape[0], -1)
        expected = reference.quants.dequantize(rows, reference.GGMLQuantizationType(number))
        assert read_gguf(changed).values(name).tobytes() == expected.tobytes()


@pytest.mark.parametrize("kept", [3, 4, 10, 200])
def test_a_file_that_ends_in_its_head_is_no_model(file, tmp_path, kept):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"no GGUF file|ends in the middle"):
        read_gguf(cut)


def test_a_file_that_ends_in_a_tensor_is_named_with_the_tensor(file, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"cut\.gguf ends in the middle of its tensor output_norm"):
        read_gguf(cut).values("output_norm.weight")


def test_other_versions_are_refused(file, tmp_path):
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF" + (2).to_bytes(4, "little") + file.read_bytes()[8:])
    with pytest.raises(ValueError, match=r"version 2; expected 3"):
        read_gguf(other)


def test_another_architecture_or_way_to_split_texts_is_refused(tmp_path):
    import tiny_gguf

    gpt2 = read_gguf(tiny_gguf.write(tmp_path / "a.gguf", architecture="gpt2"))
    with pytest.raises(ValueError, match="holds a gpt2 model"):
        llama_gguf.configuration(gpt2)
    other = read_gguf(tiny_gguf.write(tmp_path / "b.gguf", pre="llama-bpe"))
    with pytest.raises(ValueError, match="'llama-bpe'; expected 'smollm'"):
        llama_gguf.tokenizer(other)


def test_rows_of_queries_and_keys_are_those_that_transformers_turns():
    """Row 2i + j of a head in the file, the j-th of pair i, becomes row i + j · pairs."""
    import tiny_gguf

    def values(name: str) -> np.ndarray:
        rows = tiny_gguf.WIDTH if "attn_q" in name else tiny_gguf.WIDTH // 2
        return np.repeat(np.arange(rows, dtype=np.float32)[:, None], 3, axis=1)

    heads_of = {"llama.attention.head_count": 4, "llama.attention.head_count_kv": 2}
    rows = SimpleNamespace(metadata=heads_of, values=values)
    for name, heads in (("attn_q", 4), ("attn_k", 2)):
        moved = llama_gguf.weights(rows, f"blk.0.{name}.weight")[:, 0]
        size = len(moved) // heads
        expected = [
            head * size + 2 * pair + of_pair
            for head in range(heads)
            for of_pair in range(2)
            for pair in range(size // 2)
        ]
        assert moved.tolist() == expected

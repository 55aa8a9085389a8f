"""Stand-ins for conversions of GGUF files, for tests of what happens around them."""

from __future__ import annotations

from pathlib import Path

from levelfield.models.gguf_conversion import TEXTS, WEIGHTS


def write_texts(gguf: Path, folder: Path) -> None:
    for name in TEXTS:
        (folder / name).write_text(f'{{"{gguf.name}": "{name}"}}')


def write_weights(gguf: Path, folder: Path, *, texts: Path) -> None:
    assert (texts / "config.json").is_file()
    (folder / WEIGHTS).write_bytes(gguf.read_bytes()[:100])

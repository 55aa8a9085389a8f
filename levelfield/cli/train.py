"""`levelfield train`: what metrics need, made from a corpus."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import click

from levelfield.cli.terminal import progress_bar, say
from levelfield.errors import UserError
from levelfield.metric import Progress

_OPENERS: dict[str, Callable[..., IO[Any]]] = {".xz": lzma.open, ".gz": gzip.open}


@click.group()
def train() -> None:
    """Make what metrics need from a corpus."""


@train.command()
@click.argument("corpus", nargs=-1, required=True)
@click.option("--model", required=True, help="Whose vocabulary: hub name, folder, offline/minilm.")
@click.option("--out", required=True, help="The list: one number a vocabulary id.")
@click.option("--language", default="english", show_default=True, help="Of the sentence segmenter.")
@click.option("--allow-pickle", is_flag=True, help="Take a model whose weights are pickled.")
def iwf(corpus: tuple[str, ...], model: str, out: str, language: str, allow_pickle: bool) -> None:
    """Inverse word frequencies of a model's tokens from plain text (also .gz, .xz).

    Give the list to a metric with --option iwf=FILE.
    """
    from levelfield.io import atomic_writer, check_targets
    from levelfield.metrics import segmenter
    from levelfield.metrics.iwf import count
    from levelfield.models.encoder import load_encoder
    from levelfield.models.infilling import load_infilling
    from levelfield.models.resolve import resolve

    check_targets({"--out": out}, corpus)
    missing = [name for name in corpus if not Path(name).is_file()]
    if missing:
        raise UserError(f"no such corpus file: {', '.join(missing)}")
    kind = resolve(model, allow_pickle=allow_pickle).kind
    load = load_infilling if kind == "encoder-decoder" else load_encoder
    loaded = load(model, allow_pickle=allow_pickle)
    total = sum(Path(name).stat().st_size for name in corpus)
    with progress_bar("counting", total) as progress:
        sentences = (
            sentence
            for name in corpus
            for line in _lines(Path(name), progress)
            for sentence in segmenter.sentences(line, language)
        )
        values = count(sentences, loaded.vocabulary_size, loaded.token_ids)
    with atomic_writer(out) as file:
        file.writelines(f"{value!r}\n" for value in values.tolist())
    say(f"{out}: {len(values):,} numbers, {int((values > 0).sum()):,} of them of tokens that occur")


def _lines(path: Path, progress: Progress) -> Iterator[str]:
    """Lines of a text file; progress in bytes of the file as it lies on disk."""
    with path.open("rb") as raw:
        file = _OPENERS[path.suffix](raw, "rb") if path.suffix in _OPENERS else raw
        at = 0
        try:
            for line in file:
                yield line.decode("utf-8")
                progress(raw.tell() - at)
                at = raw.tell()
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: not UTF-8 text: {error}") from error
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise UserError(f"{path}: can't be read: {error}") from error

"""Texts of a corpus: of files of records, and of plain text, perhaps packed."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.io import hub
from levelfield.io.arguments import items_of
from levelfield.io.fields import FieldMapping
from levelfield.io.formats import FORMATS
from levelfield.io.lines import lines_of, without_end
from levelfield.io.opening import open_samples
from levelfield.io.problems import Wrong, printable
from levelfield.io.reading import PathLike
from levelfield.io.samples import Input, Source
from levelfield.io.streams import STDIN, open_bytes

_OPENERS: dict[str, Callable[..., IO[Any]]] = {".xz": lzma.open, ".gz": gzip.open}
_PACKED = (*_OPENERS, ".bz2", ".zst", ".zip")


def corpus_texts(
    paths: PathLike | Iterable[PathLike | Mapping[str, Any]], progress: Progress = no_progress
) -> Iterator[str]:
    """Yields the texts of all files in their order, as they are read; ids may repeat.

    A file of records (`.jsonl`, `.json`, `.csv`, `.tsv`, `.parquet`, told by its suffix), standard
    input (`-`) and a data set of the hub (`hf:NAME`) give the text of each record. Every other file
    is plain text, perhaps packed (`.gz`, `.xz`), and gives its lines, empty ones too, without their
    ends.

    Args:
        paths: files, and what else `open_samples` reads; data frames and records, too.
        progress: called with the number of bytes just read of a file as it lies on disk.

    Raises:
        UserError: at the first thing that can't be read: which file and line, and the mend.
    """
    record_suffixes = {s for name, f in FORMATS.items() if name != "text" for s in f.suffixes}
    for name in items_of(paths, "texts", ids_named=True):
        if isinstance(name, Input):
            yield from (sample.text for sample in Source([name], FieldMapping(), "any"))
            continue
        path = Path(name)
        suffix = path.suffix.lower()
        is_file = name != STDIN and not name.startswith(hub.PREFIX)
        if not is_file or suffix in record_suffixes:
            for sample in open_samples([name], ids="any"):
                yield sample.text
            progress(path.stat().st_size if is_file else 0)
            continue
        inner = Path(path.stem).suffix.lower()
        if suffix in _PACKED and (suffix not in _OPENERS or inner in record_suffixes):
            description = f"packed {inner} files" if inner in record_suffixes else f"{suffix} files"
            raise UserError(f"{printable(name)}: {description} are not supported; unpack it first")
        yield from _lines(path, suffix, progress)


def _lines(path: Path, suffix: str, progress: Progress) -> Iterator[str]:
    name = printable(str(path))
    try:
        with open_bytes(path) as raw:
            position = 0
            for number, line in lines_of(_OPENERS[suffix](raw) if suffix in _OPENERS else raw):
                if isinstance(line, Wrong):
                    raise UserError(f"{name}:{number}: {line}" if number else f"{name}: {line}")
                yield without_end(line)
                if raw.seekable():
                    progress(raw.tell() - position)
                    position = raw.tell()
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = printable((isinstance(error, OSError) and error.strerror) or str(error))
        raise UserError(f"{name}: can't be read: {reason}") from error

"""Parquet: one record a row, read in slices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from levelfield.io.formats.text import Row
from levelfield.io.problems import Wrong, printable

SLICE = 500
"""Most rows held at a time."""

SLICE_BYTES = 1 << 25
"""Bytes of the rows held at a time, as long as rows are about as long as those before them."""

_FIRST = 16


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yields rows with their values: lists as lists, structs as dicts."""
    if not path.is_file():  # polars waits for ever for a pipe that nobody writes to
        yield 0, Wrong("can't be read as Parquet: is no file; write it to one")
        return
    start, most = 0, min(_FIRST, SLICE)
    while True:
        try:
            # as a file object would be read whole; a path with * must not be a pattern
            scan = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            rows = scan.slice(start, most).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            reason = printable(str(error).partition("\n")[0])[:120]
            yield start, Wrong(f"can't be read as Parquet: {reason}; write it again, or --format")
            return
        yield from enumerate(rows.iter_rows(named=True), start + 1)
        if len(rows) < most:
            return
        start += most
        fitting = SLICE_BYTES * len(rows) // max(1, int(rows.estimated_size()))
        most = max(1, min(SLICE, 4 * most, fitting))

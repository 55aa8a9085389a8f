"""Parquet: one record a row, read in slices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from levelfield.io.formats.text import Row
from levelfield.io.problems import Wrong, printable

SLICE = 2_000


def parquet_rows(path: Path) -> Iterator[Row]:
    """Rows with their values: lists as lists, structs as dicts."""
    start = 0
    while True:
        try:
            # as a file object would be read whole; a path with * must not be a pattern
            scan = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            rows = scan.slice(start, SLICE).collect()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            reason = printable(str(error).partition("\n")[0])[:120]
            yield start, Wrong(f"can't be read as Parquet: {reason}; write it again, or --format")
            return
        yield from enumerate(rows.iter_rows(named=True), start + 1)
        if len(rows) < SLICE:
            return
        start += SLICE

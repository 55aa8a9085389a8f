"""Units of what a study costs, in words."""

from __future__ import annotations


def bytes_in_words(n: int | None) -> str:
    """Returns an amount of memory, as the operating system counts it; a dash if it is unknown.

    >>> bytes_in_words(850_000_000), bytes_in_words(3_200_000_000), bytes_in_words(None)
    ('811 MiB', '3.0 GiB', '–')
    """
    if n is None:
        return "–"
    return f"{n / 2**30:,.1f} GiB" if n >= 2**30 else f"{n / 2**20:,.0f} MiB"

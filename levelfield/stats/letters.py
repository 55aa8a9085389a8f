"""Compact letter display: who can't be told apart, as letters beside the names."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Sequence


def letter(position: int) -> str:
    """Returns the letters in order: a to z, then aa, ab, and so on.

    >>> letter(0), letter(25), letter(26), letter(52), letter(702)
    ('a', 'z', 'aa', 'ba', 'aaa')
    """
    rest, last = divmod(position, 26)
    return (letter(rest - 1) if rest else "") + string.ascii_lowercase[last]


def compact_letters(n: int, differ: Callable[[int, int], bool]) -> tuple[tuple[str, ...], ...]:
    """Returns the letters of n items: two items share a letter exactly if they do not differ.

    A letter stands for a set of items of which no two differ, a clique; together the cliques cover
    every pair that does not differ (Piepho 2004; the smallest number of cliques is hard to find).
    Here each pair without a clique yet, the farthest apart first, grows into one as large as
    possible. In relations that follow the order of the items, the number of letters is the
    smallest.

    >>> compact_letters(3, lambda i, j: (i, j) == (0, 2))
    (('a',), ('a', 'b'), ('b',))

    Args:
        n: items, numbered from 0, the best first; the first letters are theirs.
        differ: of two positions i < j.
    """
    alike = [[i == j or not differ(min(i, j), max(i, j)) for j in range(n)] for i in range(n)]
    covered = [[False] * n for _ in range(n)]
    cliques: list[list[int]] = []
    for i in range(n):
        # an item that differs from all others is a clique of its own, which comes last
        for j in reversed(range(i, n)):
            if not alike[i][j] or covered[i][j]:
                continue
            clique = [i, j] if i != j else [i]
            clique += [k for k in range(n) if k not in clique and alike[k][i] and alike[k][j]]
            clique = _largest(clique, alike)
            for a, b in itertools.product(clique, repeat=2):
                covered[a][b] = True
            cliques.append(clique)
    ordered = sorted(_needed(cliques, n))
    return tuple(
        tuple(letter(place) for place, clique in enumerate(ordered) if i in clique)
        for i in range(n)
    )


def _largest(candidates: Sequence[int], alike: Sequence[Sequence[bool]]) -> list[int]:
    """Returns the candidates that are alike, each taken in its turn where it fits."""
    clique: list[int] = []
    for k in candidates:
        if all(alike[k][member] for member in clique):
            clique.append(k)
    return sorted(clique)


def _needed(cliques: Sequence[list[int]], n: int) -> list[list[int]]:
    """Returns the cliques without those whose pairs are all in others."""
    times = [[0] * n for _ in range(n)]
    for clique in cliques:
        for a, b in itertools.product(clique, repeat=2):
            times[a][b] += 1
    needed = []
    for clique in cliques:
        pairs = list(itertools.product(clique, repeat=2))
        if all(times[a][b] > 1 for a, b in pairs):
            for a, b in pairs:
                times[a][b] -= 1
        else:
            needed.append(clique)
    return needed

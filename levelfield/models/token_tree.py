"""Token sequences that begin alike, each shared token once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, Ints


class Branch(NamedTuple):
    """A sequence of a tree, from the root to a leaf.

    Attributes:
        ids: (tokens,) the root's first.
        after: (scored tokens,) the place that each comes after.
        scored: (scored tokens,) the tokens whose log-probability is wanted.
        which: (scored tokens,) of the tree's they are.
    """

    ids: Ints
    after: Ints
    scored: Ints
    which: Codes


class TokenTree:
    """Everything that one pass of a causal model scores of a text, as a tree of tokens.

    A node is a token after those on its way from the root, so sequences that begin alike share
    nodes. A parent comes before its children.

    Attributes:
        ids: (nodes,) the tokens; the first is the root.
        parents: (nodes,) the node before each; the root's is itself.
        depths: (nodes,) tokens on the way from the root.
        after: (scored tokens,) the node that each scored token comes after.
        scored: (scored tokens,) the tokens whose log-probability is wanted.
    """

    def __init__(self, root: int) -> None:
        self.ids = [root]
        self.parents = [0]
        self.depths = [0]
        self.after: list[int] = []
        self.scored: list[int] = []
        self._children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def walk(self, at: int, ids: Sequence[int]) -> list[int]:
        """The nodes of these tokens one after the other, behind the node `at`, which comes first.

        Nodes that are missing are added.
        """
        path = [at]
        for id in ids:
            child = self._children.setdefault((path[-1], id), len(self))
            if child == len(self):
                self.ids.append(id)
                self.parents.append(path[-1])
                self.depths.append(self.depths[path[-1]] + 1)
            path.append(child)
        return path

    def score(self, at: int, ids: Sequence[int]) -> slice:
        """Which of the scored tokens these are, read behind the node `at`.

        The last of them needs no node: nothing is read behind it.
        """
        begin = len(self.scored)
        self.after += self.walk(at, ids[:-1])[: len(ids)]
        self.scored += ids
        return slice(begin, len(self.scored))

    def branches(self) -> list[Branch]:
        """The tree as sequences from the root to a leaf; each scored token is of one of them."""
        leaves = sorted(set(range(len(self))) - set(self.parents[1:])) or [0]
        place_of: dict[int, tuple[int, int]] = {}
        paths = []
        for row, leaf in enumerate(leaves):
            path = [leaf]
            while path[-1]:
                path.append(self.parents[path[-1]])
            paths.append(path[::-1])
            for place, node in enumerate(paths[-1]):
                place_of.setdefault(node, (row, place))
        of_scored = [place_of[node] for node in self.after]
        rows, places = np.array(of_scored, np.int64).reshape(-1, 2).T
        branches = []
        for row, path in enumerate(paths):
            which = np.flatnonzero(rows == row)
            ids = np.array([self.ids[node] for node in path])
            branches.append(
                Branch(ids, places[which], np.array(self.scored, np.int64)[which], which)
            )
        return branches

    def sight(self) -> Bools:
        """Which nodes each one attends to, itself and those on its way: (nodes, nodes)."""
        sight = np.eye(len(self), dtype=np.bool_)
        for node in range(1, len(self)):
            sight[node] |= sight[self.parents[node]]
        return sight

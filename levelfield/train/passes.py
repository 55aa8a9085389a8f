"""Which texts a step learns from: a function of the seed and the step's number."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from levelfield.core.arrays import Codes

POOL = 50
"""Texts of so many batches are sorted by length together."""


@dataclass(frozen=True)
class Passes:
    """Batches of texts, pass after pass.

    Every pass has all texts, each as often as it is to be learnt from, in an order of its own.
    Texts of `POOL` batches are sorted by length, so that little of a batch is padding, and the
    batches of a pool come in random order.

    Attributes:
        times: (texts,) how often each is learnt from in a pass.
        lengths: of each text, in tokens.
        batch: texts a step.
        seed: of the orders.
    """

    times: Codes
    lengths: Sequence[int]
    batch: int
    seed: int

    def rows(self, step: int) -> Codes:
        """The texts of a step."""
        each = -(-len(self._repeated) // self.batch)
        epoch, at = divmod(step, each)
        if epoch not in self._orders:
            self._orders.clear()
            self._orders[epoch] = self._order(np.random.default_rng([self.seed, epoch]))
        return self._orders[epoch][at]

    @functools.cached_property
    def _repeated(self) -> Codes:
        return np.repeat(np.arange(len(self.times)), self.times)

    @functools.cached_property
    def _orders(self) -> dict[int, list[Codes]]:
        return {}

    def _order(self, rng: np.random.Generator) -> list[Codes]:
        order = rng.permutation(self._repeated)
        batches = []
        for begin in range(0, len(order), POOL * self.batch):
            pool = order[begin : begin + POOL * self.batch]
            pool = pool[np.argsort([self.lengths[i] for i in pool], kind="stable")]
            of_pool = [pool[i : i + self.batch] for i in range(0, len(pool), self.batch)]
            batches += [of_pool[i] for i in rng.permutation(len(of_pool))]
        return batches

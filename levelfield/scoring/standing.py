"""Where systems stand under a metric: ranks, what is shown best, and who can't be told apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.strings import natural
from levelfield.scoring.comparison import ALPHA, Comparison, better_system
from levelfield.stats.letters import compact_letters


@dataclass(frozen=True)
class Standing:
    """Where one system stands among others.

    Attributes:
        rank: by its mean as it is written; systems with equal means share the better rank.
        letters: systems that share one are not shown to differ; empty if none were compared.
        best: whether it is shown to be better than every other system that has a mean.
    """

    rank: int
    letters: tuple[str, ...]
    best: bool

    @property
    def letters_name(self) -> str:
        """The letters as one word; with commas where a letter is more than one character.

        >>> Standing(1, ("a", "b"), best=False).letters_name
        'ab'
        >>> Standing(9, ("z", "aa"), best=False).letters_name
        'z,aa'
        """
        return ("," if any(len(name) > 1 for name in self.letters) else "").join(self.letters)


def standings(
    means: Mapping[str, float],
    comparisons: Sequence[Comparison],
    *,
    higher_is_better: bool,
    rounded: Callable[[float], float],
) -> dict[str, Standing]:
    """The standing of every system that has a mean, the best mean first.

    A pair that was not compared, or whose verdict is withheld, counts as not shown to differ.

    Args:
        means: system -> its mean, NaN without one.
        comparisons: of pairs of systems, p adjusted.
        rounded: a mean as it is written.
    """
    sign = -1 if higher_is_better else 1
    costs = {name: sign * mean for name, mean in means.items() if math.isfinite(mean)}
    names = sorted(costs, key=lambda name: (costs[name], natural(name)))
    better = {frozenset((c.a, c.b)): better_system(c, higher_is_better) for c in comparisons}

    def winner(i: int, j: int) -> str | None:
        return better.get(frozenset((names[i], names[j])))

    letters: Sequence[tuple[str, ...]] = [()] * len(names)
    if any(not math.isnan(c.p_adjusted) for c in comparisons):
        letters = compact_letters(len(names), lambda i, j: winner(i, j) is not None)
    printed = [sign * rounded(means[name]) for name in names]
    return {
        name: Standing(
            rank=1 + sum(other < printed[i] for other in printed),
            letters=letters[i],
            best=len(names) > 1 and all(winner(i, j) == name for j in range(len(names)) if j != i),
        )
        for i, name in enumerate(names)
    }


def best_in_words(mark: str) -> str:
    """What the mark of the best says."""
    return f"{mark} shown best (adjusted p ≤ {ALPHA:g})"


def letters_in_words(by: str, family: str) -> str:
    """What letters say.

    Args:
        by: what the groups are, in one word.
        family: whose comparisons p is adjusted over, in words.
    """
    return (
        f"{by}s that share a letter are not shown to differ "
        f"(adjusted p > {ALPHA:g}; Holm over the comparisons of {family})"
    )

"""Do the seeds of a system differ by more than chance?"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import NamedTuple

from levelfield.study.audit.findings import (
    LEVEL,
    Fault,
    Faults,
    StudyPart,
    check,
    only,
    p_of_order,
    p_of_shares,
    percent,
    share_above,
)
from levelfield.study.audit.judged import rights
from levelfield.study.audit.style import FEATURES, Shares, features_of, shares_of
from levelfield.study.cells import Cell, grouped

_RIGHT = 0.2
_STYLE = 0.3
_LONGER = 1.15
_ORDER = 0.25
_ENOUGH = 15
_MOST = 4


class _Difference(NamedTuple):
    """A difference between two seeds: what it is about, how far, and each seed's number."""

    about: str
    serious: bool
    apart: float
    numbers: tuple[str, str]
    seeds: tuple[int, int]
    dataset: str

    def __str__(self) -> str:
        on = f" on {self.dataset}" if self.dataset else ""
        each = zip(self.seeds, self.numbers, strict=True)
        return f"{self.about}{on}: " + ", ".join(f"seed {s} {number}" for s, number in each)


@check("seeds-differ", per="system")
def seeds_differ(part: StudyPart) -> Faults:
    """A seed that is not like the other seeds of its system, on one dataset or on all.

    Compared, pair by pair: the share found right, by each judge and by most judges, for each value
    and for all (20 points apart); the features of `STYLE` (30 points); the number of words (a
    factor 1.15 between the means); the values of each metric (those of one seed above those of the
    other in 75 % of the pairs of texts). Each with p < 1e-7, by Fisher's exact test of shares and
    by Mann and Whitney's test of the others. Where a seed changes the sampling alone, seeds
    of one system differ by chance, so that labels, texts, settings or scores were mixed up. Where
    each seed is a model of its own, trained or tuned with that seed, models may truly differ so
    far: the seeds are then too few for a claim on the method. Serious for shares found right and
    for metrics, a warning for style and length. A seed is named if all differences are its own.
    Silent below 15 texts and with one seed.
    """
    differences = [*_differences(part)]
    if not differences:
        return
    groups = grouped(differences, lambda difference: difference.about).values()
    worst = [max(group, key=lambda d: (not d.dataset, d.apart)) for group in groups]
    worst.sort(key=lambda difference: (not difference.serious, -difference.apart))
    more = f" and {len(worst) - _MOST} more" if len(worst) > _MOST else ""
    sentence = f"seeds differ by more than chance: {'; '.join(map(str, worst[:_MOST]))}{more}"
    seeds = {cell.key.seed for cell in part.cells}
    named = {seed for difference in differences for seed in difference.seeds}
    odd = [seed for seed in seeds if all(seed in d.seeds for d in differences)]
    yield Fault(
        "serious" if worst[0].serious else "warning",
        sentence,
        len(named),
        len(seeds),
        dataset=only(difference.dataset for difference in differences),
        seed=odd[0] if len(odd) == 1 else None,
    )


def _differences(part: StudyPart) -> Iterator[_Difference]:
    seeds = grouped(part.cells, lambda cell: cell.key.seed)
    if len(seeds) < 2:
        return
    texts = [text for text in part.texts if text.written]
    features = features_of(texts, lambda text: text.key.seed)
    # with texts or without, as the other seeds have the dataset
    places = [{(c.key.dataset, bool(c.samples)) for c in cells} for cells in seeds.values()]
    shared = {dataset for dataset, _ in set.intersection(*places)}
    apart = [({name}, name) for name in shared] if len(shared) > 1 else []
    for datasets, name in [(shared, ""), *apart]:
        sides = {
            seed: _side(part, [c for c in cells if c.key.dataset in datasets], features)
            for seed, cells in seeds.items()
        }
        for pair in combinations(seeds, 2):
            for difference in _between(sides[pair[0]], sides[pair[1]]):
                yield _Difference(*difference, seeds=pair, dataset=name)


class _Side(NamedTuple):
    """What is compared of a seed."""

    rights: Mapping[str, tuple[int, int]]
    style: Shares
    lengths: Sequence[float]
    values: Mapping[str, Sequence[float]]


def _side(part: StudyPart, cells: Sequence[Cell], features: Mapping[str, frozenset[str]]) -> _Side:
    counts: dict[str, tuple[int, int]] = {}
    values: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        for (judge, value), (yes, total) in part.study.fact(rights).get(cell.key, {}).items():
            for about in (f"found right by {judge}", f"{value} found right by {judge}"):
                a, n = counts.get(about, (0, 0))
                counts[about] = (a + yes, n + total)
        for metric, scores in cell.scores.items():
            values[metric] += [score for score in scores.values() if math.isfinite(score)]
    texts = [text for cell in cells for text in part.study.texts[cell.key] if text.written]
    lengths = [float(text.length) for text in texts]
    return _Side(counts, shares_of(texts, features), lengths, values)


def _between(side: _Side, other: _Side) -> Iterator[tuple[str, bool, float, tuple[str, str]]]:
    """Yields what differs, whether that is serious, by how much, and both numbers."""
    for about in side.rights.keys() & other.rights.keys():
        yield from _shares(about, True, side.rights[about], other.rights[about], _RIGHT)
    for feature in FEATURES:
        about = f"texts that {feature}"
        yield from _shares(about, False, side.style[feature], other.style[feature], _STYLE)
    if min(len(side.lengths), len(other.lengths)) >= _ENOUGH:
        means = [fmean(s.lengths) for s in (side, other)]
        factor = max(means) / min(means)
        if factor >= _LONGER and p_of_order(side.lengths, other.lengths) < LEVEL:
            numbers = (f"{means[0]:.3g}", f"{means[1]:.3g}")
            yield "mean number of words", False, math.log(factor), numbers
    for metric in side.values.keys() & other.values.keys():
        x, y = side.values[metric], other.values[metric]
        if min(len(x), len(y)) >= _ENOUGH:
            above = share_above(x, y)
            if abs(above - 0.5) >= _ORDER and p_of_order(x, y) < LEVEL:
                numbers = (f"{median(x):.3g}", f"{median(y):.3g}")
                yield f"median of {metric}", True, abs(above - 0.5), numbers


def _shares(
    about: str, serious: bool, counts: tuple[int, int], other: tuple[int, int], limit: float
) -> Iterator[tuple[str, bool, float, tuple[str, str]]]:
    (a, n), (b, m) = counts, other
    if min(n, m) >= _ENOUGH:
        apart = abs(a / n - b / m)
        if apart >= limit and p_of_shares(a, n, b, m) < LEVEL:
            yield about, serious, apart, (percent(a, n), percent(b, m))

"""How often intervals of `levelfield estimate` hold the true mean, and how much scores are worth.

Ratings and scores are drawn with a given correlation; some texts are rated. Coverage is the share
of 95 % intervals that hold the true mean over all possible texts, width the mean width of the
prediction-powered interval over that of the ratings alone, and gain the median number of ratings
alone that would have the interval, over those there are.

    python benchmarks/estimate.py --studies 2000

With --weights, three choices of the weight λ are compared on the same studies: Cov(y, f) / Var(f)
with the variance over the rated texts, as `levelfield estimate` has it; with the variance over all
texts; and the latter clipped, with the interval of the normal distribution, as in the authors'
program of PPI++. Error is the root mean square error over that of the ratings alone.

    python benchmarks/estimate.py --weights --studies 4000

With --pt16 FILE (train.csv of the data set pt16), the texts are its rated sentences and the score
is the logarithm of their number of characters.
"""

from __future__ import annotations

import argparse
import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy

from levelfield.core.arrays import Floats
from levelfield.stats.prediction_powered import (
    PoweredEstimate,
    allocation,
    difference_of,
    estimate_of,
    powered_mean,
)

_STRATA = 4


@dataclass(frozen=True)
class Setting:
    """A simulated study.

    Attributes:
        texts, rated: numbers of texts of a system.
        r: correlation of ratings and scores.
        prompt_texts: texts of a prompt; half of the variance of a rating is then the prompt's.
        shape: of the ratings.
        difference: whether the target is the difference of two systems on the same prompts.
        strata: whether two thirds of the rated texts are drawn by the score, after the others.
    """

    name: str
    texts: int = 1000
    rated: int = 100
    r: float = 0.8
    prompt_texts: int = 1
    shape: str = "normal"
    difference: bool = False
    strata: bool = False


SETTINGS = (
    Setting("100 of 1,000 rated, r 0.9", r=0.9),
    Setting("100 of 1,000 rated, r 0.8"),
    Setting("100 of 1,000 rated, r 0.5", r=0.5),
    Setting("100 of 1,000 rated, r 0.2", r=0.2),
    Setting("100 of 1,000 rated, r 0", r=0.0),
    Setting("20 of 1,000 rated, r 0.8", rated=20),
    Setting("20 of 1,000 rated, r 0", rated=20, r=0.0),
    Setting("10 of 200 rated, r 0.8", texts=200, rated=10),
    Setting("100 of 200 rated, r 0.8", texts=200),
    Setting("all of 100 rated, r 0.8", texts=100),
    Setting("100 of 1,000 rated, five texts a prompt, r 0.8", prompt_texts=5),
    Setting("40 of 400 rated, 20 texts a prompt, r 0.8", texts=400, rated=40, prompt_texts=20),
    Setting("100 of 1,000 rated, points 1 to 5, r 0.8", shape="points"),
    Setting("100 of 1,000 rated, skewed, r 0.8", shape="skewed"),
    Setting("100 of 1,000 rated, 0 or 1, r 0.8", shape="binary"),
    Setting("two systems, 100 of 1,000 each, r 0.8", difference=True),
    Setting("two systems, 20 of 1,000 each, r 0.8", rated=20, difference=True),
    Setting("two systems, 100 of 1,000 each, r 0", r=0.0, difference=True),
    Setting("40 at random, 80 by score, r 0.8", rated=120, strata=True),
    Setting("40 at random, 80 by score, unequal spread", rated=120, shape="unequal", strata=True),
    Setting("120 at random, unequal spread", rated=120, shape="unequal"),
    Setting("20 at random, 40 by score, skewed, r 0.8", rated=60, shape="skewed", strata=True),
)


def drawn(setting: Setting, prompt: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Returns (texts,) ratings and scores."""
    n = setting.texts
    noise = rng.normal(size=n)
    y = noise if setting.prompt_texts == 1 else np.sqrt(0.5) * (prompt + noise)
    f = setting.r * y + np.sqrt(1 - setting.r**2) * rng.normal(size=n)
    if setting.shape == "points":
        return np.clip(np.round(3 + y), 1, 5), f
    if setting.shape == "skewed":
        return np.exp(y), np.exp(f)
    if setting.shape == "binary":
        return (y > 0.5).astype(np.float64), f
    if setting.shape == "unequal":  # the score tells little of good texts
        f = rng.normal(size=n)
        return f + rng.normal(size=n) * np.where(f > 0.8, 1.5, 0.2), f
    return y, f


def truth(setting: Setting) -> float:
    """Returns the true mean."""
    if setting.difference:
        return 0.0
    return {
        "skewed": float(np.exp(0.5)),
        "binary": 0.3085375387,
        "points": 3.0,
    }.get(setting.shape, 0.0)


def rated_texts(
    setting: Setting, y: Floats, f: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats | None]:
    """Returns (texts,) ratings, NaN where a text is not rated, and weights."""
    order = rng.permutation(setting.texts)
    ratings = np.full(setting.texts, np.nan)
    if not setting.strata:
        ratings[order[: setting.rated]] = y[order[: setting.rated]]
        return ratings, None
    pilot = setting.rated // 3
    ratings[order[:pilot]] = y[order[:pilot]]
    edges = np.quantile(f, np.linspace(0, 1, _STRATA + 1)[1:-1])
    stratum = np.searchsorted(edges, f, side="right")
    rows = ~np.isnan(ratings)
    texts, done = (np.bincount(stratum[x], minlength=_STRATA) for x in (np.arange(f.size), rows))
    slope, intercept = np.polyfit(f[rows], y[rows], 1)
    residuals = (y - slope * f - intercept)[rows]
    squares = np.bincount(stratum[rows], residuals**2, minlength=_STRATA)
    deviations = np.sqrt((squares + 4 * residuals.var()) / (done + 4))
    spreads = texts / f.size * deviations
    for h, n in enumerate(allocation(texts, done, spreads, setting.rated - pilot)):
        left = np.flatnonzero((stratum == h) & np.isnan(ratings))
        ratings[rng.choice(left, n, replace=False)] = 0
    rows = ~np.isnan(ratings)
    ratings[rows] = y[rows]
    return ratings, (texts / np.bincount(stratum[rows], minlength=_STRATA))[stratum]


def estimated(setting: Setting, rng: np.random.Generator) -> PoweredEstimate:
    """Returns the estimate of one simulated study."""
    clusters = np.arange(setting.texts) // setting.prompt_texts
    prompt = rng.normal(size=clusters[-1] + 1)[clusters]
    means = []
    for _ in range(1 + setting.difference):
        y, f = drawn(setting, prompt, rng)
        ratings, weights = rated_texts(setting, y, f, rng)
        means.append(powered_mean(ratings, f, clusters, weights))
    return difference_of(*means) if setting.difference else estimate_of(means[0])


def measure(setting: Setting, studies: int, seed: int = 0) -> list[float]:
    """Returns what `summary` does of simulated studies."""
    rng = np.random.default_rng(seed)
    return summary([estimated(setting, rng) for _ in range(studies)], truth(setting))


WEIGHTS = ("rated", "all", "PPI++")
"""Choices of the weight λ."""
WEIGHT_SETTINGS = (
    Setting("20 of 1,000 rated, r 0.8", rated=20),
    Setting("20 of 1,000 rated, r 0.5", rated=20, r=0.5),
    Setting("20 of 1,000 rated, r 0", rated=20, r=0.0),
    Setting("20 of 1,000 rated, r −0.8", rated=20, r=-0.8),
    Setting("20 of 1,000 rated, skewed, r 0.8", rated=20, shape="skewed"),
    Setting("100 of 1,000 rated, r 0.8"),
    Setting("100 of 200 rated, r 0.8", texts=200),
)


def with_weight(ratings: Floats, f: Floats, choice: str) -> tuple[float, float, float, float]:
    """Returns the mean with a choice of λ, the ends of its interval, and λ.

    Ratings are NaN where a text is not rated. With M texts that are not rated, the paper's weight
    is λ' = λ M / N, which its program clips to 0 to 1.
    """
    has = ~np.isnan(ratings)
    y, w = np.where(has, ratings, 0.0), has.astype(np.float64)
    sums = np.stack([np.ones_like(f), f, f * f, w, w * y, w * f, w * f * f, y * f], axis=1)
    total = sums.sum(axis=0)
    n, t = int(has.sum()), float(scipy.special.stdtrit(has.sum() - 1, 0.975))

    def values(s: Floats) -> tuple[Floats, Floats]:
        N, F, FF, W, Y, G, GG, YG = np.moveaxis(s, -1, 0)
        over_all = FF / N - (F / N) ** 2
        variance = GG / W - (G / W) ** 2 if choice == "rated" else over_all
        weight = (YG / W - Y * G / W**2) / variance
        if choice == "PPI++":
            weight = np.clip(weight, 0, N / (N - W))
        return Y / W + weight * (F / N - G / W), weight

    value, weight = (float(x) for x in values(total))
    if choice == "PPI++":
        mine = weight * (f.size - n) / f.size
        parts = np.var(mine * f[~has]) / (f.size - n) + np.var(ratings[has] - mine * f[has]) / n
        half = 1.959964 * math.sqrt(parts)
    else:
        changes = values(total - sums)[0] - value
        half = t * math.sqrt((f.size - 1) / f.size * float(np.square(changes).sum()))
    return value, value - half, value + half, weight


def print_weights(studies: int, seed: int = 0) -> None:
    """Prints coverage, width and error under each choice of λ, and how far λ is from ours."""
    print("| setting | λ | coverage | width | error | mean difference of λ |")
    print("| --- | --- | --: | --: | --: | --: |")
    for setting in WEIGHT_SETTINGS:
        rng, results, alone = np.random.default_rng(seed), [], []
        for _ in range(studies):
            y, f = drawn(setting, np.zeros(setting.texts), rng)
            ratings, _ = rated_texts(setting, y, f, rng)
            alone.append(estimate_of(powered_mean(ratings, f, np.arange(f.size))).people)
            results.append([with_weight(ratings, f, choice) for choice in WEIGHTS])
        table, true = np.array(results), truth(setting)  # (studies, choices, 4)
        width = np.mean([e.high - e.low for e in alone])
        error = math.sqrt(np.mean([(e.value - true) ** 2 for e in alone]))
        for place, choice in enumerate(WEIGHTS):
            value, low, high, weight = table[:, place].T
            covered = 100 * np.mean((low <= true) & (true <= high))
            away = np.abs(weight - table[:, 0, 3]).mean()
            print(
                f"| {setting.name} | {choice} | {covered:.1f} | {np.mean(high - low) / width:.2f} "
                f"| {math.sqrt(np.mean((value - true) ** 2)) / error:.2f} | {away:.2f} |",
                flush=True,
            )


def measure_sentences(
    y: Floats, f: Floats, setting: Setting, studies: int, seed: int = 0
) -> list[float]:
    """Returns what `summary` does of draws from rated texts, whose mean is the truth."""
    rng = np.random.default_rng(seed)
    results = []
    for _ in range(studies):
        ratings, weights = rated_texts(setting, y, f, rng)
        results.append(estimate_of(powered_mean(ratings, f, np.arange(y.size), weights)))
    return summary(results, float(y.mean()))


def summary(results: list[PoweredEstimate], true: float) -> list[float]:
    """Returns both coverages in per cent, the ratio of widths and the median gain."""
    ends = np.array(
        [[[e.low, e.high] for e in (r.people, r.powered)] for r in results]
    )  # (studies, 2, 2)
    covered = 100 * ((ends[..., 0] <= true) & (true <= ends[..., 1])).mean(axis=0)
    widths = np.diff(ends, axis=-1)[..., 0].mean(axis=0)
    gains = [r.effective / r.people.n for r in results]
    return [*covered.tolist(), float(widths[1] / widths[0]), float(np.median(gains))]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000, help="Number of studies a setting.")
    parser.add_argument("--pt16", type=Path, help="Rated sentences: train.csv of pt16.")
    parser.add_argument("--weights", action="store_true", help="Compare choices of the weight.")
    chosen = parser.parse_args()
    studies = chosen.studies
    if chosen.weights:
        print_weights(studies)
        return
    print("| setting | coverage, ratings alone | coverage | width | gain |")
    print("| --- | --: | --: | --: | --: |")
    if chosen.pt16:
        with chosen.pt16.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        y = np.array([float(row["label"]) for row in rows])
        f = np.array([math.log(len(row["sentence"])) for row in rows])
        for strata in (False, True):
            for n in (50, 100, 300):
                name = f"{n} of {y.size:,} sentences{', a third at random' if strata else ''}"
                setting = Setting(name, y.size, n, strata=strata)
                print_row(name, measure_sentences(y, f, setting, studies))
        return
    for setting in SETTINGS:
        print_row(setting.name, measure(setting, studies))


def print_row(name: str, figures: list[float]) -> None:
    people, powered, width, gain = figures
    print(f"| {name} | {people:.1f} | {powered:.1f} | {width:.2f} | {gain:.2f} |", flush=True)


if __name__ == "__main__":
    main()

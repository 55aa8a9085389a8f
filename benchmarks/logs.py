"""Level, power and coverage of what `compare` says of logs, by simulation.

    python benchmarks/logs.py [--studies 1000] [--perplexity]

Two models answer the same items. How likely an item is to be answered rightly is uniform on [0, 1],
and the second model's chance is higher by a gain, at most 1; epochs are independent. The columns,
in percent of the studies: those that call equal models different at 5 %, those that find a gain of
0.1, and the mean width of the interval of that difference; by a t test of the items' mean
differences, with epochs as seeds that all items share, and as `compare` has it.

With `--perplexity` documents have log-likelihoods a word that follow a gamma distribution (mean −3,
sd 1 between documents, 0.3 between models), and log-normal numbers of words. The columns: studies
that call models of equal perplexity different, 95 % intervals of a model's perplexity that hold the
true one, and those of the difference to a model whose likelihoods are higher by 0.3 a word; where
documents weigh the same (`perplexity`), and by words (`word_perplexity`).

A share of 5 % from 1,000 studies has a standard error of 0.7.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy import stats

from levelfield.core.arrays import Floats
from levelfield.core.sample import Sample
from levelfield.io.logged import LoggedScores
from levelfield.scoring.corpus_values import PERPLEXITY, Aggregation
from levelfield.scoring.logged_sets import LoggedScore, LoggedSet
from levelfield.scoring.summary import MetricSummary
from levelfield.stats.resampling import Resampling
from levelfield.stats.seeds import contrast

_RESAMPLING = Resampling(permutations=2000)
_GAIN = 0.1
_NATS = 0.3


def summary(
    values: list[Floats], weights: Floats | None = None, kind: Aggregation | None = None
) -> MetricSummary:
    """Returns what `compare` reports for (items, draws) values of two models, perhaps weighted."""
    logged = LoggedSet()
    for system, items in zip("ab", values, strict=True):
        for i, draws in enumerate(items):
            for draw, value in enumerate(draws.tolist()):
                pair = {} if weights is None else {"s": (value, float(weights[i]))}
                scores = {"s": value} if weights is None else {}
                id = f"{system}/{i}/{draw}"
                logged.add(
                    id, Sample(id=id, text=""), system,
                    LoggedScores(f"{i}", scores, draw=draw, lists=pair),
                )  # fmt: skip
    (score_summary,) = logged.summaries([LoggedScore("s", "s", "s", "none", kind)], _RESAMPLING)
    return score_summary


def as_seeds(values: list[Floats]) -> tuple[float, float]:
    """Returns p and the width of an interval, with the draws as seeds that all items share."""
    a, b = values
    items, draws = np.indices(a.shape).reshape(2, -1)
    inputs = np.concatenate([items, items])
    c = contrast(
        np.concatenate([a.ravel(), b.ravel()]),
        np.repeat([1 / a.size, -1 / a.size], a.size),
        systems=np.repeat([0, 1], a.size),
        seeds=np.concatenate([draws, draws]),
        inputs=inputs,
        clusters=inputs,
        strata=np.zeros_like(inputs),
    )
    if c is None:
        return math.nan, math.nan
    low, high = c.ends(0.95)
    return c.p, high - low


def measure_epochs(items: int, epochs: int, studies: int) -> list[float]:
    """Returns the level of three tests, their power, and their mean widths."""
    rng = np.random.default_rng(0)
    shown, widths = np.zeros((2, 3)), np.zeros(3)
    for k, gain in enumerate((0.0, _GAIN)):
        for _ in range(studies):
            chance = rng.random(items)
            chances = (chance, np.minimum(chance + gain, 1))
            values = [
                (rng.random((items, epochs)) < p[:, None]).astype(np.float64) for p in chances
            ]
            difference = values[0].mean(axis=1) - values[1].mean(axis=1)
            t = stats.ttest_1samp(difference, 0)
            ends = t.confidence_interval()
            p_seeds, width_seeds = as_seeds(values)
            (c,) = summary(values).comparisons
            shown[k] += [t.pvalue <= 0.05, p_seeds <= 0.05, c.p <= 0.05]
            if gain:
                widths += [ends.high - ends.low, width_seeds, c.high - c.low]
    return [*(100 * shown.ravel() / studies), *(widths / studies)]


def measure_perplexity(documents: int, by_words: bool, studies: int) -> list[float]:
    """Returns the level, the coverage of a perplexity, and that of a difference, in percent."""
    rng = np.random.default_rng(0)
    rejected = held = held_difference = 0
    truth = _true_perplexity(rng, by_words)
    difference = truth * (1 - math.exp(-_NATS))
    for _ in range(studies):
        a, b, words = _documents(rng, documents)
        w = words if by_words else np.ones(documents)
        summarised = summary([(a * w)[:, None], (b * w)[:, None]], w, PERPLEXITY)
        (c,), mean = summarised.comparisons, summarised.groups[0].mean
        rejected += c.p <= 0.05
        held += mean.low <= truth <= mean.high
        (c,) = summary([(a * w)[:, None], ((b + _NATS) * w)[:, None]], w, PERPLEXITY).comparisons
        held_difference += c.low <= difference <= c.high
    return [100 * count / studies for count in (rejected, held, held_difference)]


def _documents(rng: np.random.Generator, n: int) -> tuple[Floats, Floats, Floats]:
    """Draws (documents,) log-likelihoods a word of two models, and numbers of words."""
    shared = -rng.gamma(9, 1 / 3, n)
    a, b = (shared + rng.normal(0, 0.3, n) for _ in range(2))
    return a, b, np.ceil(rng.lognormal(4, 0.7, n))


def _true_perplexity(rng: np.random.Generator, by_words: bool) -> float:
    a, _, words = _documents(rng, 4_000_000)
    w = words if by_words else np.ones_like(words)
    return math.exp(-float((a * w).sum() / w.sum()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--perplexity", action="store_true")
    arguments = parser.parse_args()
    if arguments.perplexity:
        print("| documents | value | level | coverage | coverage of a difference |")
        print("| --: | --- | --: | --: | --: |")
        for documents in (30, 100, 400):
            for by_words in (False, True):
                shares = measure_perplexity(documents, by_words, arguments.studies)
                name = "word_perplexity" if by_words else "perplexity"
                row = [f"{documents}", name, *(f"{s:.1f}" for s in shares)]
                print("|", " | ".join(row), "|", flush=True)
        return
    print("| items | epochs |" + " level | power | width |" * 3)
    print("| --: | --: |" + " --: |" * 9)
    for items in (50, 200):
        for epochs in (1, 2, 3, 5):
            figures = measure_epochs(items, epochs, arguments.studies)
            level, power, width = figures[:3], figures[3:6], figures[6:]
            cells = [
                cell
                for row in zip(level, power, width, strict=True)
                for cell in (f"{row[0]:.1f}", f"{row[1]:.1f}", f"{row[2]:.3f}")
            ]
            print("|", " | ".join([f"{items}", f"{epochs}", *cells]), "|", flush=True)


if __name__ == "__main__":
    main()

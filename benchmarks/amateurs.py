"""Amateurs of one expert against people: the table of momentum in docs/cdm.md.

    levelfield data fetch deam --part fed --out fed.jsonl
    python tools/early_exit.py CORPUS exits --layers 1 3 4 8 15
    python tools/early_exit.py CORPUS untrained --layers 12 20 --untrained
    python benchmarks/amateurs.py fed.jsonl exits/layer-* untrained/layer-*

Each text is a dialogue with a turn a line. Beside the amateurs that are named there are
`offline/smollm2-early`, unigram counts of a corpus, no amateur at all (m = log P of the expert),
and the embedded infillers. Columns as in the docs: Spearman's ρ with each aspect of the momentum
pooled over all tokens (mean, max) and of the mean over turns of its sum within a turn, with 95 %
intervals of the bootstrap over texts. At last each row's advance over the infillers and over log P
alone, in the same resamples. Every model reads all texts once; FED takes minutes a model.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from levelfield.core.arrays import Floats
from levelfield.core.sample import Sample
from levelfield.io import open_samples
from levelfield.metrics.cdm import CDMMomentum, UnitMomentum
from levelfield.metrics.cdm.pairs import CausalPair, Reading
from levelfield.metrics.unigram import SHIPPED
from levelfield.metrics.unigram import load as load_unigrams
from levelfield.models.contracts import CausalLikelihood, CausalModel
from levelfield.models.load import load
from levelfield.models.resolve import OFFLINE_AMATEUR, OFFLINE_LM
from levelfield.stats.clusters import cluster_draws
from levelfield.stats.correlation import spearman
from levelfield.stats.estimate import percentile_ends
from levelfield.stats.reweighted import Reweighted

INFILLERS = ("offline/infill-amateur", "offline/infill-expert")
LOG_P, FILLING = "none: log P of the expert alone", "`infill-amateur`, `infill-expert`"
POOLINGS = ("mean", "max", "sum")


class Known(NamedTuple):
    """A causal model that has read all texts."""

    likelihoods: Mapping[str, CausalLikelihood]

    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]:
        return [self.likelihoods[text] for text in texts]

    def perplexity(self) -> float:
        log_p = np.concatenate([likelihood.log_p for likelihood in self.likelihoods.values()])
        return math.exp(-log_p.mean())

    def with_log_p(self, log_p: Floats) -> Known:
        """Returns the same tokens with the log-probabilities of a table: (vocabulary,)."""
        return Known(
            {t: read._replace(log_p=log_p[read.ids]) for t, read in self.likelihoods.items()}
        )


def known(name: str, texts: Sequence[str]) -> Known:
    print(f"{name} reads {len(texts)} texts", flush=True)
    return Known(dict(zip(texts, load("causal", name).log_likelihood(texts), strict=True)))


def pooled(units: Sequence[UnitMomentum]) -> tuple[float, ...]:
    """Returns a value for each of `POOLINGS`."""
    m = np.concatenate([unit.m for unit in units])
    return m.mean(), m.max(), float(np.mean([unit.m.sum() for unit in units if unit.m.size]))


class Agreement(NamedTuple):
    """ρ of a column of values of n texts with an aspect, and of resamples: (resamples,)."""

    rho: float
    drawn: Floats

    n: int

    def __str__(self) -> str:
        low, high = percentile_ends(self.drawn, 0.95, self.n)
        return f"{self.rho:.2f} [{low:.2f}, {high:.2f}]".replace("-", "−")

    def above(self, other: Agreement) -> Agreement:
        """Returns the difference of two agreements."""
        return Agreement(self.rho - other.rho, self.drawn - other.drawn, self.n)


def agreement(values: Floats, ratings: Floats) -> Agreement:
    n = len(values)
    sample = Reweighted(values, ratings, np.arange(n))
    drawn = [
        sample.values(c, ("spearman",))["spearman"] for c in cluster_draws(n, 2000, 0, width=n)
    ]
    return Agreement(spearman(values, ratings), np.concatenate(drawn), n)


def rows(samples: Sequence[Sample], amateurs: Sequence[str]) -> dict[str, tuple[str, Floats]]:
    """Returns label -> perplexity on the texts, and values of every text: (texts, poolings)."""
    readings = [
        Reading((), tuple(turn.strip() for turn in s.text.split("\n") if turn.strip()), "\n")
        for s in samples
    ]
    texts = [reading.whole()[0] for reading in readings]
    expert = known(OFFLINE_LM, texts)
    tokens = load("causal-tokens", OFFLINE_LM)
    unigrams = load_unigrams((SHIPPED[OFFLINE_LM],), tokens).log_p()
    models = {name: known(name, texts) for name in (OFFLINE_AMATEUR, *amateurs)}
    models["unigram counts of a corpus"] = expert.with_log_p(unigrams)
    models[LOG_P] = expert.with_log_p(np.zeros_like(unigrams))
    results = {}
    for label, amateur in models.items():
        pair = CausalPair(cast("CausalModel", amateur), cast("CausalModel", expert))
        units = pair.momentum(readings)
        perplexity = (expert if label == LOG_P else amateur).perplexity()
        results[label] = (f"{perplexity:,.0f}", np.array([*map(pooled, units)]))
    infilling = CDMMomentum(*INFILLERS, task="dialogue").momentum(samples)
    results[FILLING] = ("", np.array([pooled(m) for m in infilling if isinstance(m, list)]))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description="Amateurs of one expert against people.")
    parser.add_argument("texts", type=Path, help="rated dialogues, a turn a line")
    parser.add_argument("amateurs", nargs="*", help="names or folders of causal models")
    options = parser.parse_args()
    samples = list(open_samples([str(options.texts)]))
    aspects = sorted(samples[0].ratings)
    results = rows(samples, options.amateurs)
    agreements = {}
    for aspect in aspects:
        ratings = np.array([np.mean(list(s.ratings[aspect].values())) for s in samples])
        for label, (_, values) in results.items():
            for pooling, column in zip(POOLINGS, values.T, strict=True):
                agreements[label, aspect, pooling] = agreement(column, ratings)
    columns = [(aspect, pooling) for aspect in aspects for pooling in POOLINGS]
    print("| amateur | perplexity |", " | ".join(f"{a}: {p}" for a, p in columns), "|")
    print("|---" * (2 + len(columns)) + "|")
    for label, (perplexity, _) in results.items():
        cells = " | ".join(str(agreements[label, *column]) for column in columns)
        print(f"| {label} | {perplexity} | {cells} |")
    for label in results:
        for other in (name for name in (FILLING, LOG_P) if name != label):
            for aspect in aspects:
                advance = agreements[label, aspect, "mean"].above(agreements[other, aspect, "mean"])
                print(f"{label}, mean, {aspect}: {advance} above {other}")


if __name__ == "__main__":
    main()

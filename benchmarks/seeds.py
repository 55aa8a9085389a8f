"""Level, power and coverage of a study's tests and intervals when seeds differ, by simulation.

    python benchmarks/seeds.py [--studies 2000] [--family | --unequal | --detectable | --texts]

Two equal systems answer the same prompts. A value is the effect of the prompt (sd 0.9), that of the
system's seed, and the text's own (sd 1.32; with the prompt's 1.6). The columns, in percent:

- true nulls rejected at 5 %, by sign flips of prompts and with prompts and seeds as samples;
- studies in which the latter finds a difference of 1 (of 0.3 where values are 0 or 1);
- 95 % intervals of a system's mean that hold the true mean, of resampled prompts and with seeds.

A share of 5 % from 2,000 studies has a standard error of 0.5.

With `--family` all pairs of several systems with 40 prompts are compared, p by Holm at 5 %: studies
with a false claim where all systems are equal, and pairs of a system that is better by 1 in which
this is shown; first by the variance of each pair alone, then with `seed_prior`.

With `--unequal` the seeds of one system of such a family differ two to sixteen times as much as
those of the others (sd 0.3). The columns are the studies with a false claim, with `seed_prior`.

With `--detectable` each study of such a family names a difference as detectable, and the columns
are the share of the other studies that show it at Holm's first threshold, on average: with its
standard error taken as true, and as the package has it.

With `--texts` a seed has no effect that texts share, as where each text has a draw of its own. The
columns are those of `--family`, first with prompts and seeds as samples, then with prompts alone,
as in a study whose systems have `draws = "text"`.
"""

from __future__ import annotations

import argparse
import itertools
import math
from dataclasses import dataclass, replace

import numpy as np

from levelfield.core.arrays import Bools, Codes, Floats
from levelfield.scoring.power import ErrorOfTest
from levelfield.stats.clusters import cluster_draws, cluster_sums
from levelfield.stats.multiplicity import holm
from levelfield.stats.power import detectable_difference
from levelfield.stats.resampling import Resampling
from levelfield.stats.seeds import (
    Contrast,
    SeedComponent,
    SeedPrior,
    VarianceParts,
    contrast,
    seed_prior,
)
from levelfield.stats.shares import share_ends
from levelfield.stats.sign_flip import sign_flips

_PROMPT, _TEXT, _DIFFERENCE = 0.9, 1.32, 1.0


@dataclass(frozen=True)
class Setting:
    """A kind of study.

    Attributes:
        name: for the table.
        prompts: number of prompts of each data set.
        weights: of the data sets; their numbers of prompts by default.
        seeds: of the two systems.
        seed_sd: deviation of the seeds of the two systems.
        inputs: per prompt.
        cluster_sd: deviation of what a system does to all texts of a prompt.
        greedy: whether the texts of the second system are equal for all seeds.
        binary: whether a value is 0 or 1.
        missing: share of texts without a value; if above 0, seed 0 of the first system lacks the
            first data set.
    """

    name: str
    prompts: tuple[int, ...] = (40,)
    weights: tuple[float, ...] = ()
    seeds: tuple[int, int] = (3, 3)
    seed_sd: tuple[float, float] = (0.3, 0.3)
    inputs: int = 1
    cluster_sd: float = 0.0
    greedy: bool = False
    binary: bool = False
    missing: float = 0.0


SETTINGS = (
    Setting("40 prompts, seed sd 0.3"),
    Setting("200 prompts, seed sd 0.1", (200,), seed_sd=(0.1, 0.1)),
    Setting("40 prompts, seed sd 0", seed_sd=(0, 0)),
    Setting("200 prompts, seed sd 0", (200,), seed_sd=(0, 0)),
    Setting("20 prompts, seed sd 0.3", (20,)),
    Setting("200 prompts, seed sd 1", (200,), seed_sd=(1, 1)),
    Setting("40 prompts, seed sd 0.3 and 0", seed_sd=(0.3, 0)),
    Setting("40 prompts, 2 seeds, sd 0.3", seeds=(2, 2)),
    Setting("200 prompts, 2 seeds, sd 0.1", (200,), seeds=(2, 2), seed_sd=(0.1, 0.1)),
    Setting("40 prompts, 5 seeds, sd 0.3", seeds=(5, 5)),
    Setting("40 prompts, 2 and 5 seeds", seeds=(2, 5)),
    Setting("40 prompts, 0 or 1, seed sd 0.3", binary=True),
    Setting("200 prompts, 0 or 1, seed sd 0.1", (200,), seed_sd=(0.1, 0.1), binary=True),
    Setting("20 prompts of 4 inputs, seed sd 0.3", (20,), inputs=4, cluster_sd=0.5),
    Setting("3 data sets of 10, 30, 60 prompts", (10, 30, 60)),
    Setting("3 such data sets of equal weight", (10, 30, 60), (1, 1, 1)),
    Setting("2 data sets, a tenth of the texts missing", (20, 40), missing=0.1),
    Setting("5 prompts, seed sd 0.3", (5,)),
    Setting("40 prompts, greedy beside seed sd 0.3", greedy=True),
    Setting("200 prompts, greedy beside seed sd 0.3", (200,), greedy=True),
    Setting("200 prompts, 2 seeds, greedy beside sd 0.3", (200,), seeds=(2, 2), greedy=True),
)


@dataclass(frozen=True)
class Layout:
    """The texts of one system: (texts,) codes and weights, which sum to 1."""

    inputs: Codes
    seeds: Codes
    clusters: Codes
    strata: Codes
    weights: Floats


def layouts(setting: Setting, rng: np.random.Generator) -> tuple[Layout, Layout]:
    """Returns the texts of both systems on the inputs that both have."""
    strata = np.repeat(np.arange(len(setting.prompts)), np.array(setting.prompts) * setting.inputs)
    clusters = np.arange(len(strata)) // setting.inputs
    has: list[Bools] = []
    for a, S in enumerate(setting.seeds):
        present = rng.random((len(strata), S)) >= setting.missing
        if setting.missing and a == 0:
            present[strata == 0, 0] = False
        has.append(present)
    shared = np.all([np.asarray(present_in.any(axis=1)) for present_in in has], axis=0)
    input_weights = np.array(setting.weights or setting.prompts, dtype=np.float64)
    input_weights = input_weights / input_weights.sum() / np.bincount(strata, shared)
    result = []
    for system_texts in has:
        present = system_texts & shared[:, None]
        inputs, seeds = np.nonzero(present)
        weights = input_weights[strata[inputs]] / present.sum(axis=1)[inputs]
        result.append(Layout(inputs, seeds, clusters[inputs], strata[inputs], weights))
    return result[0], result[1]


def values(
    setting: Setting, texts: tuple[Layout, Layout], studies: int, rng: np.random.Generator
) -> list[Floats]:
    """Returns the values of each system: (studies, texts)."""
    n = sum(setting.prompts) * setting.inputs
    prompt = rng.normal(0, _PROMPT, (studies, n // setting.inputs))
    result = []
    for a, layout in enumerate(texts):
        seed_effects = rng.normal(0, setting.seed_sd[a], (studies, setting.seeds[a]))
        cluster_effects = rng.normal(0, setting.cluster_sd, prompt.shape) + prompt
        if setting.greedy and a == 1:
            v = rng.normal(0, _TEXT, (studies, n))[:, layout.inputs]
        else:
            v = rng.normal(0, _TEXT, (studies, layout.inputs.size)) + seed_effects[:, layout.seeds]
        v += cluster_effects[:, layout.clusters]
        result.append((v > 0).astype(np.float64) if setting.binary else v)
    return result


def resampled_ends(v: Floats, layout: Layout) -> tuple[Floats, Floats]:
    """Returns (studies,) percentile ends of the mean over resampled prompts."""
    means = np.zeros((1000, len(v)))
    for d in np.unique(layout.strata):
        rows = layout.strata == d
        _, code = np.unique(layout.clusters[rows], return_inverse=True)
        K = int(code.max()) + 1
        w = layout.weights[rows]
        sums, n = cluster_sums((v[:, rows] * w).T, code, K), cluster_sums(w, code, K)
        W = np.concatenate([*cluster_draws(K, len(means), int(d), width=K)])
        means += w.sum() * (W @ sums) / (W @ n)[:, None]
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def measure(setting: Setting, studies: int, seed: int = 0) -> list[float]:
    """Returns level before and now, power, and coverage before and now."""
    rng = np.random.default_rng(seed)
    texts = layouts(setting, rng)
    drawn = values(setting, texts, studies, rng)
    a, b = texts
    truth = 0.5 if setting.binary else 0.0
    difference = _DIFFERENCE * (0.3 if setting.binary else 1)
    K = int(a.clusters.max()) + 1
    T = cluster_sums((drawn[0] * a.weights).T, a.clusters, K)
    T -= cluster_sums((drawn[1] * b.weights).T, b.clusters, K)
    W = np.ones_like(T) * cluster_sums(a.weights, a.clusters, K)[:, None]
    before = float((sign_flips(T, W, resampling=Resampling(permutations=2000)).p <= 0.05).mean())
    low, high = resampled_ends(drawn[0], a)
    covered_before = float(((low <= truth) & (truth <= high)).mean())

    def codes(parts: tuple[Layout, ...]) -> dict[str, Codes]:
        names = ("seeds", "inputs", "clusters", "strata")
        joined = {name: np.concatenate([getattr(x, name) for x in parts]) for name in names}
        return joined | {"systems": np.repeat(range(len(parts)), [x.inputs.size for x in parts])}

    pair, single, second = codes((a, b)), codes((a,)), codes((b,))
    weights = np.concatenate([a.weights, -b.weights])
    rejected = powerful = covered = 0
    for x, y in zip(*drawn, strict=True):
        mean, other = contrast(x, a.weights, **single), contrast(y, b.weights, **second)
        if mean is None or other is None:
            raise ValueError(f"{setting.name}: nothing varies")
        prior = seed_prior([*mean.seed_variances, *other.seed_variances])
        c = contrast(np.concatenate([x, y]), weights, **pair, prior=prior)
        if c is None:
            raise ValueError(f"{setting.name}: nothing varies")
        rejected += c.variance > 0 and c.p <= 0.05
        low_d, _ = c.ends(0.95)
        powerful += low_d + difference > 0
        low_m, high_m = (
            share_ends(mean.value, mean.variance, n=x.size, clusters=K, level=0.95, df=mean.df)
            if setting.binary
            else mean.ends(0.95)
        )
        covered += low_m <= truth <= high_m
    return [before, rejected / studies, powerful / studies, covered_before, covered / studies]


def measure_family(
    systems: int, seeds: int, seed_sd: Floats, studies: int, prompts: int = 40
) -> list[float]:
    """Returns the share of studies with a false claim, and the power, without and with the prior.

    Args:
        seed_sd: (systems,) deviations of seeds.
    """
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(systems), 2))
    false, shown = np.zeros(2), np.zeros(2)
    for _ in range(studies):
        study = Study.drawn(seed_sd, seeds, prompts, rng)
        for k, prior in enumerate((None, study.prior)):
            tests = [study.test(a, b, prior) for a, b in pairs]
            false[k] += holm([c.p for c in tests]).min() <= 0.05
            better = [
                replace(c, value=c.value + _DIFFERENCE * (p[0] == 0))
                for c, p in zip(tests, pairs, strict=True)
            ]
            shown[k] += (holm([c.p for c in better])[: systems - 1] <= 0.05).mean()
    return [*np.column_stack([false, shown]).ravel() / studies]


@dataclass(frozen=True)
class Study:
    """Equal systems that answer the same prompts: (systems, prompts) means, and their seeds."""

    means: Floats
    components: list[SeedComponent]
    prior: SeedPrior | None

    @classmethod
    def drawn(cls, seed_sd: Floats, seeds: int, prompts: int, rng: np.random.Generator) -> Study:
        """Draws one with (systems,) deviations of seeds."""
        x = rng.normal(0, _TEXT, (seed_sd.size, prompts, seeds))
        x += rng.normal(0, 1, (seed_sd.size, 1, seeds)) * seed_sd[:, None, None]
        components = [component(system_values) for system_values in x]
        prior = seed_prior([(c.seed_variance, c.df) for c in components])
        return cls(x.mean(axis=2), components, prior)

    def test(self, a: int, b: int, prior: SeedPrior | None) -> Contrast:
        """Compares two systems."""
        d = self.means[a] - self.means[b]
        V_p = float(d.var(ddof=1)) / d.size
        pair = (self.components[a], self.components[b])
        parts = VarianceParts(V_p, d.size - 1, pair, prior)
        return Contrast(float(d.mean()), *parts.total(), samples_seeds=True, parts=parts)


def measure_detectable(
    systems: int, seeds: int, seed_sd: float, studies: int, prompts: int = 40
) -> list[float]:
    """Returns the mean share of studies that show what another one calls detectable, before and
    now."""
    rng = np.random.default_rng(0)
    level = 0.05 / (systems * (systems - 1) / 2)
    drawn = (Study.drawn(np.full(systems, seed_sd), seeds, prompts, rng) for _ in range(studies))
    tests = [study.test(0, 1, study.prior) for study in drawn]
    errors = [
        ErrorOfTest.of(math.sqrt(c.variance), c.df, c, {"a": seeds, "b": seeds}) for c in tests
    ]
    critical = [-c.ends(1 - level)[0] + c.value for c in tests]
    values = np.array([c.value for c in tests])
    before = np.array([detectable_difference(e.se, e.df, alpha=level) for e in errors])
    now = np.array([e.detectable(level) for e in errors])
    return [float((np.abs(values + d[:, None]) > critical).mean()) for d in (before, now)]


def print_detectable(studies: int) -> None:
    print("| systems | seeds | seed sd | shown, before | shown |")
    print("| --: | --: | --: | --: | --: |")
    for systems, seeds, sd in itertools.product((2, 4, 8), (2, 3, 5), (0.3, 0.0)):
        shares = (f"{100 * s:.1f}" for s in measure_detectable(systems, seeds, sd, studies))
        print("|", " | ".join([f"{systems}", f"{seeds}", f"{sd:g}", *shares]), "|", flush=True)


def component(x: Floats) -> SeedComponent:
    """Returns what seeds add to the mean of a system with all texts, (prompts, seeds)."""
    prompts, seeds = x.shape
    within = x - x.mean(axis=1, keepdims=True)
    residual = float(within.var(axis=0, ddof=1).sum()) / (seeds * (seeds - 1) * prompts)
    return SeedComponent(float(x.mean(axis=0).var(ddof=1)), 1 / seeds, residual, seeds - 1)


def print_families(studies: int) -> None:
    print("| systems | seeds | seeds differ | false, alone | power, alone | false | power |")
    print("| --: | --: | --- | --: | --: | --: | --: |")
    for systems, seeds in itertools.product((4, 8, 16), (2, 3, 5)):
        alike = np.full(systems, 0.3)
        first = np.arange(systems) == 0
        for name, sd in {
            "sd 0.3": alike,
            "one system four times": np.where(first, 1.2, alike),
            "half not at all": np.where(np.arange(systems) % 2, 0.3, 0.0),
        }.items():
            shares = (f"{100 * s:.1f}" for s in measure_family(systems, seeds, sd, studies))
            print("|", " | ".join([f"{systems}", f"{seeds}", name, *shares]), "|", flush=True)


def print_unequal(studies: int) -> None:
    ratios = (2, 3, 4, 6, 8, 16)
    print(f"| systems | seeds | {' | '.join(f'{ratio} times' for ratio in ratios)} |")
    print("| --: | --: |" + len(ratios) * " --: |")
    for systems, seeds in itertools.product((2, 4, 8), (2, 3, 5)):
        deviations = [0.3 * np.where(np.arange(systems), 1, ratio) for ratio in ratios]
        false = [measure_family(systems, seeds, sd, studies)[2] for sd in deviations]
        shares = (f"{100 * share:.1f}" for share in false)
        print("|", " | ".join([f"{systems}", f"{seeds}", *shares]), "|", flush=True)


def measure_texts(systems: int, seeds: int, studies: int, prompts: int = 40) -> list[float]:
    """Returns the share of studies with a false claim and the power, with prompts and seeds as
    samples and with prompts alone, where texts share no seed."""
    rng = np.random.default_rng(0)
    pairs = np.array(list(itertools.combinations(range(systems), 2)))
    better = pairs[:, 0] == 0
    false, shown = np.zeros(2), np.zeros(2)
    for _ in range(studies):
        study = Study.drawn(np.zeros(systems), seeds, prompts, rng)
        tests = [study.test(a, b, study.prior) for a, b in pairs]
        moved = [
            replace(c, value=c.value + _DIFFERENCE * b) for c, b in zip(tests, better, strict=True)
        ]
        false[0] += holm([c.p for c in tests]).min() <= 0.05
        shown[0] += (holm([c.p for c in moved])[better] <= 0.05).mean()
        d = (study.means[pairs[:, 0]] - study.means[pairs[:, 1]]).T / prompts
        weights = np.full_like(d, 1 / prompts)
        false[1] += holm(sign_flips(d, weights).p).min() <= 0.05
        p = sign_flips(d + better * _DIFFERENCE / prompts, weights).p
        shown[1] += (holm(p)[better] <= 0.05).mean()
    return [*np.column_stack([false, shown]).ravel() / studies]


def print_texts(studies: int) -> None:
    samples = ("seeds a sample", "prompts alone")
    columns = " | ".join(f"false, {name} | power, {name}" for name in samples)
    print(f"| systems | seeds | {columns} |")
    print("| --: | --: | --: | --: | --: | --: |")
    for systems, seeds in itertools.product((2, 4, 8), (2, 3, 5)):
        shares = (f"{100 * s:.1f}" for s in measure_texts(systems, seeds, studies))
        print("|", " | ".join([f"{systems}", f"{seeds}", *shares]), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--family", action="store_true")
    parser.add_argument("--unequal", action="store_true")
    parser.add_argument("--detectable", action="store_true")
    parser.add_argument("--texts", action="store_true")
    arguments = parser.parse_args()
    studies = arguments.studies
    if arguments.family:
        print_families(studies)
        return
    if arguments.texts:
        print_texts(studies)
        return
    if arguments.unequal:
        print_unequal(studies)
        return
    if arguments.detectable:
        print_detectable(studies)
        return
    print("| setting | level, sign flips | level | power | coverage, prompts | coverage |")
    print("| --- | --: | --: | --: | --: | --: |")
    for setting in SETTINGS:
        shares = measure(setting, studies)
        print("|", " | ".join([setting.name, *(f"{100 * s:.1f}" for s in shares)]), "|", flush=True)


if __name__ == "__main__":
    main()

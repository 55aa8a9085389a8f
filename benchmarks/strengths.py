"""How often intervals of `levelfield strengths` hold the true difference of strengths.

Systems are compared on prompts that favour one or the other, by raters who agree with each other
in part; a ranking is all pairs of its systems. Coverage and width are of the 95 % intervals of the
difference of the first two systems, level is how often equal ones are called different.

    python benchmarks/strengths.py --studies 1000
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from levelfield.stats.bradley_terry import bradley_terry


@dataclass(frozen=True)
class Setting:
    """A simulated study: `prompt_sd` is how far prompts favour systems, in log-odds."""

    name: str
    systems: int = 3
    prompts: int = 50
    raters: int = 2
    prompt_sd: float = 0.0
    ranking: bool = False
    difference: float = 1.0


SETTINGS = (
    Setting("3 systems, 50 prompts, 2 raters"),
    Setting("3 systems, 20 prompts, 2 raters", prompts=20),
    Setting("3 systems, 50 prompts, 2 raters, prompts differ", prompt_sd=1.0),
    Setting("3 systems, 20 prompts, 5 raters, prompts differ", prompts=20, raters=5, prompt_sd=1.0),
    Setting("8 systems, 50 prompts, 2 raters, prompts differ", systems=8, prompt_sd=1.0),
    Setting("rankings of 5, 30 prompts, 2 raters", systems=5, prompts=30, ranking=True),
    Setting("2 systems, 30 prompts, 1 rater", systems=2, prompts=30, raters=1),
    Setting("equal, 3 systems, 50 prompts, prompts differ", prompt_sd=1.0, difference=0.0),
)


def measure(setting: Setting, studies: int, seed: int = 0) -> tuple[float, float, float]:
    """Returns coverage in per cent, the mean width and the share of p below 0.05 in per cent."""
    rng = np.random.default_rng(seed)
    S, shape = setting.systems, (setting.prompts, setting.raters, setting.systems)
    theta = np.zeros(S)
    theta[0] = setting.difference
    pairs = np.array(list(itertools.combinations(range(S), 2)))
    covered, widths, rejected = [], [], []
    for _ in range(studies):
        favour = rng.normal(scale=setting.prompt_sd, size=(setting.prompts, 1, S))
        seen = np.broadcast_to(theta + favour, shape)
        left, right = seen[..., pairs[:, 0]], seen[..., pairs[:, 1]]
        if setting.ranking:  # Gumbel noise ranks with the odds of the model
            noisy = seen + rng.gumbel(size=shape)
            outcomes = noisy[..., pairs[:, 0]] > noisy[..., pairs[:, 1]]
        else:
            outcomes = rng.random(left.shape) < expit(left - right)
        clusters = np.broadcast_to(np.arange(setting.prompts)[:, None, None], outcomes.shape)
        a, b = (np.broadcast_to(pairs[:, k], outcomes.shape).ravel() for k in (0, 1))
        fit = bradley_terry(a, b, outcomes.ravel().astype(float), clusters.ravel(), S)
        e, p = fit.difference(0, 1)
        true = marginal(setting)
        covered.append(e.low <= true <= e.high)
        widths.append(e.high - e.low)
        rejected.append(p < 0.05)
    return 100 * np.mean(covered), float(np.nanmean(widths)), 100 * np.mean(rejected)


def marginal(setting: Setting) -> float:
    """Returns the log-odds that the first system is better on a prompt drawn at random."""
    grid = np.linspace(0.0005, 0.9995, 1000)
    sd = np.sqrt(2) * setting.prompt_sd
    p = expit(setting.difference + sd * norm.ppf(grid)).mean()
    return float(np.log(p / (1 - p)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000, help="Number of studies a setting.")
    studies = parser.parse_args().studies
    print("| setting | coverage | width | called different |")
    print("| --- | --: | --: | --: |")
    for setting in SETTINGS:
        coverage, width, rejected = measure(setting, studies)
        print(f"| {setting.name} | {coverage:.1f} | {width:.2f} | {rejected:.1f} |", flush=True)


if __name__ == "__main__":
    main()

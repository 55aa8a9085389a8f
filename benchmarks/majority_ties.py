"""How often two systems change places by the rule for ties of an even number of judges.

Ties are left out, count as a share, or are decided by the mean probability.

    python benchmarks/majority_ties.py

A text of a system has the wanted label with strength s, normal with the system's mean and
deviation. Judge j sees x_j = s + e_j, e_j standard normal, votes for the label where x_j > 0, and
gives it P = logistic(2 x_j). A bland system (small deviation) has many texts that judges are
divided on, a bold one few. The mean is set so that a judge finds the label in a share q of the
system's texts. The better system is the one with the larger q, and a study has changed places where
its mean is the lower one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtri

from levelfield.core.arrays import Floats

STUDIES, TEXTS, SEED = 2000, 200, 20260
BLAND, BOLD = 0.5, 2.0
SETTINGS = (
    ("alike", (0.70, 1.0), (0.65, 1.0)),
    ("better is bold", (0.70, BOLD), (0.65, BLAND)),
    ("better is bland", (0.70, BLAND), (0.65, BOLD)),
)
"""q and the deviation of the better system, and of the worse."""


def means(rng: np.random.Generator, q: float, deviation: float, judges: int) -> Floats:
    """Returns (studies, 5): ties left out, as half, by probability; mean vote; share of ties."""
    mean = ndtri(q) * np.sqrt(1 + deviation**2)
    s = rng.normal(mean, deviation, (STUDIES, TEXTS, 1))
    x = s + rng.normal(size=(STUDIES, TEXTS, judges))
    votes = (x > 0).sum(axis=2)
    tie, won = 2 * votes == judges, (2 * votes > judges).astype(np.float64)
    likelier = expit(2 * x).mean(axis=2) > 0.5
    columns = [
        won.sum(axis=1) / (~tie).sum(axis=1),
        np.where(tie, 0.5, won).mean(axis=1),
        np.where(tie, likelier, won).mean(axis=1),
        votes.mean(axis=1) / judges,
        tie.mean(axis=1),
    ]
    return np.stack(columns, axis=1)


def main() -> None:
    rng = np.random.default_rng(SEED)
    print(f"{STUDIES:,} studies of {TEXTS} texts a system, seed {SEED}: % that change places")
    print("| judges | systems | ties: better, worse | left out | share | probability | average |")
    print("|---|---|---|---|---|---|---|")
    for judges in (2, 4):
        for name, better_system, worse_system in SETTINGS:
            better, worse = (
                means(rng, *system, judges) for system in (better_system, worse_system)
            )
            d = (better - worse)[:, :4]
            wrong = 100 * ((d < 0) + (d == 0) / 2).mean(axis=0)
            ties = ", ".join(
                f"{100 * system_means[:, 4].mean():.0f} %" for system_means in (better, worse)
            )
            print(f"| {judges} | {name} | {ties} | " + " | ".join(f"{w:.1f}" for w in wrong) + " |")


if __name__ == "__main__":
    main()

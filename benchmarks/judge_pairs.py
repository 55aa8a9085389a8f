"""How often judges see which of two texts was asked to be positive: the second table of
docs/judges.md.

    LEVELFIELD_DATA=… python benchmarks/judge_pairs.py [--judges linear,offline] [--every 3]

A pair is two texts of one system for one prompt of LPF, one asked to be positive and one to be
negative. A judge is right if it gives the first a higher log-odds of positive, and half right if
equal ones. No person rated these texts: what was asked for is the answer, and weak systems do not
always give it. What follows the prompt is judged.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from levelfield import datasets
from levelfield.core.sample import Sample
from levelfield.metrics.judges import LoadedJudge, choose, load
from levelfield.models.loading import Loading

CHUNK = 64
FLOOR = 1e-12


def pairs(every: int) -> list[tuple[Sample, Sample]]:
    """Returns the texts of a system for a prompt: the one asked to be positive, the other."""
    texts_by_value: dict[tuple[str, str, str], dict[str, Sample]] = defaultdict(dict)
    for sample in datasets.load("lpf", part="sentiment", here=True):
        if sample.dataset == "pplm_prompts" and sample.text.removeprefix(sample.prompt).strip():
            key = (sample.system, str(sample.seed), str(sample.extra["original_id"]))
            texts_by_value[key][str(sample.control["sentiment"])] = sample
    whole = [
        (texts["positive"], texts["negative"])
        for _, texts in sorted(texts_by_value.items())
        if len(texts) == 2
    ]
    return whole[::every]


def log_odds(judge: LoadedJudge, texts: list[str]) -> np.ndarray:
    """Returns log P(positive) − log P(negative) of each text."""
    p = np.array(
        [
            verdict.p
            for start in range(0, len(texts), CHUNK)
            for verdict in judge.verdicts(texts[start : start + CHUNK])
        ]
    )
    log_p = np.log(np.maximum(p, FLOOR))
    result: np.ndarray = log_p @ [1 if label == "positive" else -1 for label in judge.labels]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judges", default="linear,offline")
    parser.add_argument("--every", type=int, default=3)
    chosen = parser.parse_args()
    judges = [j for j in choose(chosen.judges) if j.attribute == "sentiment"]
    texts = pairs(chosen.every)
    systems = np.array([first.system for first, _ in texts])
    margins = {}
    for judge in judges:
        loaded = load(judge, judges, Loading())
        sides = [
            log_odds(loaded, [pair[side].text.removeprefix(pair[side].prompt) for pair in texts])
            for side in (0, 1)
        ]
        margins[judge.name] = sides[0] - sides[1]
    margins["sum of all"] = np.sum(list(margins.values()), axis=0)
    for name, margin in margins.items():
        right = (margin > 0) + 0.5 * (margin == 0)
        by_system = ", ".join(f"{s} {right[systems == s].mean():.3f}" for s in sorted({*systems}))
        print(f"{name}: {right.mean():.4f} of {len(right)} ({by_system})", flush=True)


if __name__ == "__main__":
    main()

"""Whether `composite.attribute-relevance` tells texts of known sentiment apart, with and without
its part `channel`: the second table of docs/composite.md, section "Attribute relevance".

Every text is scored for both labels. The AUC is how often the value of a text for its right label
exceeds that of a text for its wrong one, over all pairs of texts; ties count half. Scores are put
together from the parts of one run with `channel=true`, so all compositions have the same parts. An
error is the standard deviation over resamples of texts, and that of a difference over the same
resamples.

    LEVELFIELD_DATA=… python benchmarks/relevance.py [--texts 200] [--dtype bfloat16] [--set sst2]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.stats import rankdata

from levelfield import datasets
from levelfield.core.arrays import Floats
from levelfield.core.sample import Sample
from levelfield.metrics.composite import CompositeAttributeRelevance
from levelfield.models.loading import Loading

LABELS = ("negative", "positive")
REVIEW_WORDS = 60
RESAMPLES = 2000

COMPOSITIONS: Mapping[str, Mapping[str, int]] = {
    "embedding": {"embedding": 1},
    "after": {"after": 1},
    "channel": {"channel": 1},
    "judge": {"judge": 1},
    "no judge, with channel": {"embedding": 1, "after": 1, "channel": 1},
    "no judge": {"embedding": 1, "after": 1},
    "equal, with channel": {"embedding": 1, "after": 1, "channel": 1, "judge": 1},
    "equal": {"embedding": 1, "after": 1, "judge": 1},
    "composite, channel=true": {"embedding": 1, "after": 1, "channel": 1, "judge": 3},
    "composite, judge 3": {"embedding": 1, "after": 1, "judge": 3},
    "composite": {"embedding": 1, "after": 1, "judge": 2},
}
"""Name -> part -> weight."""

DIFFERENCES = (
    ("composite", "composite, channel=true"),
    ("composite, judge 3", "composite, channel=true"),
    ("no judge", "no judge, with channel"),
    ("equal", "equal, with channel"),
)


def last_words(sample: Sample) -> Sample:
    return replace(sample, text=" ".join(sample.text.split()[-REVIEW_WORDS:]))


SETS: Mapping[str, tuple[str, Callable[[Sample], Sample]]] = {
    "sst2": ("test", lambda sample: sample),
    "nltk-movie-reviews": ("", last_words),
    "yelp-sentences": ("test", lambda sample: sample),
}
"""Data set -> its part, and what is read of a text."""


def drawn(name: str, most: int) -> list[Sample]:
    """Returns as many texts of each label, the same in each run."""
    part, as_read = SETS[name]
    samples = datasets.load(name, **({"part": part} if part else {}))
    rng = np.random.default_rng(0)
    chosen: list[Sample] = []
    for label in LABELS:
        candidates = [s for s in samples if s.control["sentiment"] == label and s.text.strip()]
        order = rng.permutation(len(candidates))[: most // len(LABELS)]
        chosen += [as_read(candidates[i]) for i in order]
    return [replace(sample, id=str(i)) for i, sample in enumerate(chosen)]


def standard_scores(samples: Sequence[Sample], loading: Loading) -> dict[str, Floats]:
    """Returns the parts of each text for its right label and for its wrong one: (texts, 2)."""
    wrong = dict(zip(LABELS, reversed(LABELS), strict=True))
    labelled_samples = [
        replace(sample, id=f"{sample.id} {kind}", control={"sentiment": label})
        for sample in samples
        for kind, label in enumerate(
            (str(sample.control["sentiment"]), wrong[str(sample.control["sentiment"])])
        )
    ]
    metric = CompositeAttributeRelevance(attribute="sentiment", channel=True, loading=loading)
    parts = metric.score(labelled_samples).parts
    assert parts is not None
    return {
        name: parts.filter(parts["part"] == name)["score"].to_numpy().reshape(-1, 2)
        for name in ("embedding", "after", "channel", "judge")
    }


def auc(values: Floats) -> float:
    """Returns how often a right value exceeds a wrong one: values (texts, 2), the right ones first.

    >>> auc(np.array([[2.0, 0.0], [1.0, 1.0]]))
    0.875
    """
    n = len(values)
    ranks = rankdata(values.ravel()).reshape(-1, 2)
    return float((ranks[:, 0].sum() - n * (n + 1) / 2) / n**2)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=200, help="of each set, half of each label")
    parser.add_argument("--dtype", default="bfloat16", help="of the encoder and the causal model")
    parser.add_argument("--set", action="append", dest="sets", choices=sorted(SETS))
    arguments = parser.parse_args()
    loading = Loading("cpu", dtype=arguments.dtype)
    for name in arguments.sets or SETS:
        z = standard_scores(drawn(name, arguments.texts), loading)
        values = {
            composition: np.sum([w * z[part] for part, w in weights.items()], axis=0)
            for composition, weights in COMPOSITIONS.items()
        }
        n = len(z["judge"])
        rng = np.random.default_rng(0)
        resamples = rng.integers(n, size=(RESAMPLES, n))
        resampled = {c: np.array([auc(v[rows]) for rows in resamples]) for c, v in values.items()}
        print(f"{name}, {n} texts, {arguments.dtype}: AUC and its standard error")
        for composition, v in values.items():
            print(f"  {composition:<25}{auc(v):.3f}  {resampled[composition].std():.3f}")
        for a, b in DIFFERENCES:
            error = (resampled[a] - resampled[b]).std()
            print(f"  {f'{a} − {b}':<48}{auc(values[a]) - auc(values[b]):+.3f}  {error:.3f}")
        print(flush=True)


if __name__ == "__main__":
    main()

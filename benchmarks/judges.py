"""How good the judges are on labelled sets: the table of docs/judges.md, `measured` of judges.toml.

    LEVELFIELD_DATA=… python benchmarks/judges.py [--judges offline] [--set sst2/sentiment/test]

A set is DATASET/ATTRIBUTE/PART, or DATASET/ATTRIBUTE/PART/K for every K-th of its texts. One TOML
table a judge and set is printed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

import numpy as np

from levelfield import datasets
from levelfield.metrics.judges import JudgeVerdict, choose, load
from levelfield.models.loading import Loading

SETS = ("sst2/sentiment/test", "yelp-sentences/sentiment/test/20", "ag-news/topic/test")
CHUNK = 256


def table(name: str, dataset: str, targets: Sequence[str], verdicts: Sequence[JudgeVerdict]) -> str:
    """Returns the figures of one judge on one set; an undecided vote is wrong."""
    right = np.array([v.vote == label for v, label in zip(verdicts, targets, strict=True)])
    labels = np.array(targets)
    balanced = np.mean([right[labels == label].mean() for label in sorted(set(targets))])
    votes = Counter(v.vote for v in verdicts)
    n = len(verdicts)
    shares = ", ".join(f'"{label}" = {votes[label] / n:.3f}' for label in verdicts[0].labels)
    return (
        f"# {name}\n[[judges.measured]]\n"
        f'dataset = "{dataset}"\nn = {n}\naccuracy = {right.mean():.4f}\n'
        f"balanced_accuracy = {balanced:.4f}\nundecided = {votes[None] / n:.4f}\n"
        f"shares = {{ {shares} }}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judges", default="offline")
    parser.add_argument("--set", action="append", dest="sets")
    parser.add_argument("--allow-pickle", action="store_true")
    parsed = parser.parse_args()
    judges = choose(parsed.judges, Loading(allow_pickle=parsed.allow_pickle))
    loading = Loading(allow_pickle=parsed.allow_pickle)
    for set_name in parsed.sets or SETS:
        dataset, attribute, part, *every = set_name.split("/")
        samples = datasets.load(dataset, part=part)[:: int(every[0]) if every else 1]
        name = f"{dataset}, {part}" + (f", 1 of {every[0]}" if every else "")
        texts = [sample.text for sample in samples]
        for judge in judges:
            if judge.attribute not in ("", attribute):
                continue
            loaded = load(judge, judges, loading)
            targets = [judge.label(str(sample.control[attribute]), attribute) for sample in samples]
            if not set(targets) <= set(loaded.labels):
                continue
            verdicts = [
                verdict
                for start in range(0, len(texts), CHUNK)
                for verdict in loaded.verdicts(texts[start : start + CHUNK])
            ]
            print(table(judge.name, name, targets, verdicts), flush=True)


if __name__ == "__main__":
    main()

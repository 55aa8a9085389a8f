"""Word Mover's Distance against gensim's `wmdistance`, with the same vectors, in one run.

Vectors are random, of 300 dimensions, for the commonest English words. Texts are drawn like English
by word frequency, of lognormal length; the text of a pair is its source with every word replaced
with the probability `--replaced`, as a rewriting in another style leaves some, and without a tenth
of its words. gensim is given the words, ours the strings. Both sides must agree; seconds are the
process's own, since the machine may have other work.

    python benchmarks/wmd.py [--pairs 1000] [--length 18] [--replaced 0.5] [--repeat 5]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import wordfreq
from gensim.models import KeyedVectors
from turns import by_turns

from levelfield.core.sample import Sample
from levelfield.metrics.movers import WMDSource

WORDS = 20_000
DIMENSION = 300


def random_vectors(words: Sequence[str]) -> KeyedVectors:
    vectors = KeyedVectors(DIMENSION)
    vectors.add_vectors(list(words), np.random.default_rng(0).normal(size=(len(words), DIMENSION)))
    return vectors


def random_pairs(
    words: Sequence[str], count: int, length: int, replaced: float
) -> list[tuple[list[str], list[str]]]:
    """Sources and the texts made of them, in which a tenth of the words is missing."""
    random = np.random.default_rng(1)
    p = np.array([wordfreq.word_frequency(word, "en") for word in words])
    pairs = []
    for n in random.lognormal(np.log(length), 0.5, count).clip(3, 200).astype(int):
        source, other = (random.choice(words, n, p=p / p.sum()) for _ in range(2))
        text = np.where(random.random(n) < replaced, other, source)
        kept = random.random(n) < 0.9
        pairs.append((source.tolist(), text[kept].tolist() or text.tolist()))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--length", type=int, default=18, help="median, in words")
    parser.add_argument("--replaced", type=float, default=0.5)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()

    words = [word for word in wordfreq.top_n_list("en", WORDS) if word.isalpha()]
    vectors = random_vectors(words)
    pairs = random_pairs(words, arguments.pairs, arguments.length, arguments.replaced)
    samples = [
        Sample(str(n), " ".join(text), source=" ".join(source))
        for n, (source, text) in enumerate(pairs)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.bin"
        vectors.save_word2vec_format(str(file), binary=True)
        metric = WMDSource(vectors=str(file), unit_length=True)
        ways = {
            "gensim": lambda: [vectors.wmdistance(t, s) for s, t in pairs],
            "ours": lambda: metric.score(samples).values.tolist(),
        }
        seconds, values = by_turns(ways, arguments.repeat, clock=time.process_time)
    difference = np.abs(np.array(values["ours"]) - np.array(values["gensim"])).max()
    print(
        f"{len(pairs)} pairs (median {arguments.length} words, {arguments.replaced:.0%} replaced)\n"
        f"gensim / ours = {seconds['gensim'].times(seconds['ours'])}, {arguments.repeat} turns, "
        f"largest difference {difference:.1e}"
    )


if __name__ == "__main__":
    main()

"""BERTScore against the `bert-score` package on the same encoder, in one run.

Several systems answer the same inputs, so references come again with every system. The package is
called once a system, as files of outputs are (`--calls system`), or once for all pairs: then it too
encodes each different text once, and what is left is padding and matching. Ours is one run over all
pairs. Texts are drawn like English by word frequency, of lognormal length. Both sides must agree;
seconds are the process's own, since the machine may have other work.

    python benchmarks/bertscore.py [--pairs 2000] [--systems 8] [--calls system] [--repeat 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import wordfreq
from bert_score import BERTScorer

from levelfield.core.sample import Sample
from levelfield.metrics.bertscore import BERTScoreReferences
from levelfield.models.load import forget
from levelfield.models.resolve import OFFLINE_MODEL, resolve

LAYER = 5


def random_texts(count: int, length: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    words = wordfreq.top_n_list("en", 20_000)
    p = np.array([wordfreq.word_frequency(word, "en") for word in words])
    lengths = random.lognormal(np.log(length), 0.5, count).clip(3, 200).astype(int)
    return [" ".join(random.choice(words, n, p=p / p.sum())) for n in lengths]


def timed(work: Callable[[], Sequence[float]]) -> tuple[float, Sequence[float]]:
    begin = time.process_time()
    values = work()
    return time.process_time() - begin, values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--systems", type=int, default=8)
    parser.add_argument("--length", type=int, default=18, help="median, in words")
    parser.add_argument("--calls", choices=["system", "one"], default="system")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()

    per_system = arguments.pairs // arguments.systems
    references = random_texts(per_system, arguments.length, 0) * arguments.systems
    texts = random_texts(len(references), arguments.length, 1)
    samples = [
        Sample(str(n), text, references=(reference,))
        for n, (text, reference) in enumerate(zip(texts, references, strict=True))
    ]
    peer = BERTScorer(str(resolve(OFFLINE_MODEL).path), num_layers=LAYER, device="cpu")
    metric = BERTScoreReferences(layer=LAYER, device="cpu")
    size = per_system if arguments.calls == "system" else len(samples)

    def theirs() -> list[float]:
        values: list[float] = []
        for at in range(0, len(texts), size):
            values += peer.score(texts[at : at + size], references[at : at + size])[2].tolist()
        return values

    def ours() -> list[float]:
        forget()  # and with it what it remembers of the last round
        metric.score(samples[:1])
        return metric.score(samples).values.tolist()

    peer.score(texts[:2], references[:2])
    slow, quick = [], []
    for _ in range(arguments.repeat):  # by turns, so that a machine that slows down slows both
        seconds, expected = timed(theirs)
        slow.append(seconds)
        seconds, values = timed(ours)
        quick.append(seconds)
    difference = np.abs(np.array(values) - np.array(expected)).max()
    print(
        f"{len(samples)} pairs of {arguments.systems} systems (median {arguments.length} words), "
        f"{OFFLINE_MODEL} layer {LAYER}, {torch.get_num_threads()} threads, the package called "
        f"once {'a system' if arguments.calls == 'system' else 'for all'}\n"
        f"bert-score / ours = {min(slow):.2f} s / {min(quick):.2f} s = "
        f"{min(slow) / min(quick):.2f} times (slowest of {len(slow)} runs {max(slow):.2f} s and "
        f"{max(quick):.2f} s), largest difference {difference:.1e}"
    )


if __name__ == "__main__":
    main()

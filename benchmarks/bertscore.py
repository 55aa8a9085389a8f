"""BERTScore against the `bert-score` package on the same encoder, in one run.

Several systems answer the same inputs, so references come again with every system. The package is
called once a system, as files of outputs are (`--calls system`), or once for all pairs: then it too
encodes each different text once, and what is left is padding and matching. Ours is one run over all
pairs. Texts are drawn like English by word frequency, of lognormal length. Both sides must agree;
seconds are the process's own, since the machine may have other work.

    python benchmarks/bertscore.py [--pairs 2000] [--systems 8] [--calls system] [--repeat 5]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
import wordfreq
from bert_score import BERTScorer
from turns import by_turns

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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--systems", type=int, default=8)
    parser.add_argument("--length", type=int, default=18, help="median, in words")
    parser.add_argument("--calls", choices=["system", "one"], default="system")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()

    per_system = arguments.pairs // arguments.systems
    references = random_texts(per_system, arguments.length, 0) * arguments.systems
    texts = random_texts(len(references), arguments.length, 1)
    samples = [
        Sample(str(n), text, references=(reference,))
        for n, (text, reference) in enumerate(zip(texts, references, strict=True))
    ]
    peer = BERTScorer(str(resolve(OFFLINE_MODEL).path), num_layers=LAYER, device="cpu")
    metric = BERTScoreReferences.of(layer=LAYER, device="cpu")
    size = per_system if arguments.calls == "system" else len(samples)

    def theirs() -> list[float]:
        values: list[float] = []
        for start in range(0, len(texts), size):
            part = slice(start, start + size)
            values += peer.score(texts[part], references[part])[2].tolist()
        return values

    def ours() -> list[float]:
        forget()  # and with it what it remembers of the last round
        metric.score(samples[:1])
        return metric.score(samples).values.tolist()

    ways = {"bert-score": theirs, "ours": ours}
    seconds, values = by_turns(ways, arguments.repeat, clock=time.process_time)
    difference = np.abs(np.array(values["ours"]) - np.array(values["bert-score"])).max()
    print(
        f"{len(samples)} pairs of {arguments.systems} systems (median {arguments.length} words), "
        f"{OFFLINE_MODEL} layer {LAYER}, {torch.get_num_threads()} threads, the package called "
        f"once {'a system' if arguments.calls == 'system' else 'for all'}\n"
        f"bert-score / ours = {seconds['bert-score'].times(seconds['ours'])}, {arguments.repeat} "
        f"turns, largest difference {difference:.1e}"
    )


if __name__ == "__main__":
    main()

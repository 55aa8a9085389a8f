"""CTranslate2 against PyTorch as `levelfield` runs it, on random models and real texts, in one run.

PyTorch's side is our own fast path: sources encoded once for all their targets, padding kept small,
the softmax at scored tokens only. Both sides score the same inputs with the same weights:

- a random PEGASUS (8+8 layers of width 512, PEGASUS's vocabulary): CTRLEval's coherence, which has
  one long target a source, and its attribute relevance, which has several words a source;
- a random GPT-2 (6 layers): the tokens of whole texts, which perplexity and SLOR rest on.

All sides are loaded and warmed up first, which converts the models and compares their first numbers
with PyTorch's; then they run by turns, so that a machine that slows down slows all. Printed are the
median and the range of every side, the ratio of medians, and how far apart the numbers are.

    python benchmarks/engines_ctranslate2.py [--texts 16] [--repeat 5] [--layers 8] [--width 512]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ctrleval as pegasus
import fluency as gpt2
import numpy as np
import wordfreq

from levelfield.core.arrays import Floats
from levelfield.core.machine import model_threads
from levelfield.core.sample import Sample
from levelfield.metrics import ctrleval
from levelfield.metrics.aspects import load_aspect
from levelfield.metrics.scorers import InfillingScorer, label_evaluators
from levelfield.models.load import load
from levelfield.models.loading import Loading

SIDES: Mapping[str, Loading] = {
    "torch float32": Loading("cpu"),
    "ctranslate2 float32": Loading("cpu", engine="ctranslate2"),
    "ctranslate2 int8": Loading("cpu", dtype="int8", engine="ctranslate2"),
}
Work = Callable[[], Floats]


def race(name: str, works: Mapping[str, Work], repeat: int) -> None:
    """Runs all sides by turns, and prints how they compare with the first."""
    values = {side: work() for side, work in works.items()}  # warms up
    seconds: dict[str, list[float]] = {side: [] for side in works}
    for turn in range(repeat):
        for side in list(works)[:: 1 if turn % 2 else -1]:
            begin = time.perf_counter()
            works[side]()
            seconds[side].append(time.perf_counter() - begin)
    first = next(iter(works))
    reference = statistics.median(seconds[first])
    for side, of_side in seconds.items():
        median = statistics.median(of_side)
        differences = np.abs(values[side] - values[first])
        print(
            f"{name:<20} {side:<20} {median:7.3f} s ({min(of_side):.3f}–{max(of_side):.3f}), "
            f"{reference / median:5.2f} times; differs by {differences.mean():.1e} nats, "
            f"{differences.max():.1e} at most",
            flush=True,
        )


def infilling(folder: Path, samples: Sequence[Sample], repeat: int) -> None:
    """Coherence and attribute relevance."""
    scorers = {
        side: InfillingScorer(load("infilling", str(folder), loading), "infilling", "tokens")
        for side, loading in SIDES.items()
    }
    found = [ctrleval.CTRLEvalCoherence()._evaluators(sample, "<mask_1>") for sample in samples]
    evaluators = [one for of_text in found if isinstance(of_text, list) for one in of_text]
    prompts = [
        one for sample in samples for one in label_evaluators(sample.text, load_aspect("sentiment"))
    ]

    def coherence(scorer: InfillingScorer) -> Work:
        return lambda: scorer.fit(evaluators, end=True)[0]

    def relevance(scorer: InfillingScorer) -> Work:
        return lambda: np.concatenate(scorer.label_logits(prompts)[0])

    for name, work in (("coherence", coherence), ("attribute relevance", relevance)):
        race(name, {side: work(scorer) for side, scorer in scorers.items()}, repeat)


def causal(folder: Path, texts: Sequence[str], repeat: int) -> None:
    """The tokens of whole texts."""
    models: dict[str, Any] = {
        side: load("causal", str(folder), loading) for side, loading in SIDES.items()
    }

    def tokens(model: Any) -> Work:
        def work() -> Floats:
            model._recent.clear()  # else the second run has nothing to do
            return np.concatenate([one.log_p for one in model.log_likelihood(texts)])

        return work

    race("perplexity", {side: tokens(model) for side, model in models.items()}, repeat)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    arguments = parser.parse_args()
    samples = pegasus.real_samples(arguments.texts)
    print(
        f"{len(samples)} texts, {model_threads()} threads, {arguments.repeat} runs; PEGASUS of "
        f"{arguments.layers}+{arguments.layers} layers × {arguments.width}, GPT-2 of 6 × 384"
    )
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "pegasus"
        pegasus.random_pegasus(arguments.layers, arguments.width).save_pretrained(folder)
        pegasus.word_tokenizer().save_pretrained(folder)
        infilling(folder, samples, arguments.repeat)
        folder = Path(root) / "gpt2"
        words = wordfreq.top_n_list("en", gpt2.VOCABULARY - 1)
        gpt2.random_gpt2(6, 384).save_pretrained(folder)
        gpt2.word_tokenizer(words).save_pretrained(folder)
        lengths = np.random.default_rng(1).lognormal(np.log(50), 0.4, 8 * arguments.texts)
        texts = gpt2.random_texts(words, lengths.clip(*gpt2.LENGTHS).astype(int).tolist())
        causal(folder, texts, arguments.repeat)


if __name__ == "__main__":
    main()

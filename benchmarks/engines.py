"""OpenVINO against PyTorch as `levelfield` runs both, on the same texts and weights, by turns.

- encoder: sentence embeddings of `offline/minilm`;
- states: token states of its layer 5, which BERTScore and MoverScore rest on;
- judge: a random BERT classifier (12 layers of width 768 unless said otherwise);
- coherence: CTRLEval's, one long target a source, from a random PEGASUS (8+8 layers of width 512);
- perplexity: the tokens of whole texts, from a random GPT-2 (6 layers of width 384);
- smollm2: the same from `offline/smollm2`.

Texts are words drawn by their frequency, called for in batches as CTRLEval and judges do; coherence
has real ones. All sides are loaded and warmed up first, which converts the models and compares
their first numbers with PyTorch's. bfloat16 runs where the processor has it. Times are of the
processor.

    python benchmarks/engines.py [KIND ...] [--texts 256] [--batch 32] [--repeat 7] [--layers 12]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ctrleval as pegasus
import fluency as gpt2
import numpy as np
import wordfreq
from bertscore import random_texts
from turns import by_turns

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.machine import model_threads
from levelfield.metrics import ctrleval
from levelfield.metrics.scorers import InfillingScorer
from levelfield.models.files import load_tokenizer
from levelfield.models.load import load
from levelfield.models.loading import Loading
from levelfield.models.resolve import OFFLINE_MODEL, resolve

SIDES: Mapping[str, Loading] = {
    "torch float32": Loading("cpu"),
    "openvino float32": Loading("cpu", engine="openvino"),
    "openvino bfloat16": Loading("cpu", dtype="bfloat16", engine="openvino"),
}
Work = Callable[[], Floats]


def random_judge(folder: Path, layers: int) -> None:
    """Writes a BERT classifier of three labels with MiniLM's vocabulary."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    tokenizer = load_tokenizer(resolve(OFFLINE_MODEL))
    config = BertConfig(vocab_size=len(tokenizer), num_hidden_layers=layers, num_labels=3)
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def encoder(loading: Loading, batches: Sequence[list[str]]) -> Work:
    """Unit-length embeddings: (texts, d)."""
    model = load("encoder", OFFLINE_MODEL, loading)
    return lambda: np.concatenate([model.sentences(batch)[0] for batch in batches])


def states(loading: Loading, batches: Sequence[list[str]]) -> Work:
    """Unit-length states of all tokens: (tokens, d)."""
    model: Any = load("states", OFFLINE_MODEL, loading, layer=5)

    def work() -> Floats:
        model._kept.clear()  # else the second run has nothing to do
        return np.concatenate([one.states for batch in batches for one in model.of(batch)])

    return work


def judge(folder: Path, loading: Loading, batches: Sequence[list[str]]) -> Work:
    """P(label | text): (texts, labels)."""
    model = load("classifier", str(folder), loading)
    return lambda: np.concatenate([model.probabilities(batch)[0] for batch in batches])


def coherence(folder: Path, loading: Loading, count: int) -> Work:
    """CTRLEval's log-probabilities of the masked sentences of real texts, in nats."""
    model: Any = load("infilling", str(folder), loading)
    scorer = InfillingScorer(model, "infilling", "tokens")
    metric = ctrleval.CTRLEvalCoherence()
    found = [metric._evaluators(sample, "<mask_1>") for sample in pegasus.real_samples(count)]
    evaluators = [one for of_text in found if isinstance(of_text, list) for one in of_text]

    def work() -> Floats:
        model._recent.clear()  # else the second run has nothing to do
        return scorer.fit(evaluators, end=True)[0]

    return work


def perplexity(name: str, loading: Loading, texts: Sequence[str]) -> Work:
    """Log-probabilities of all tokens, in nats."""
    model: Any = load("causal", name, loading)

    def work() -> Floats:
        model._recent.clear()
        return np.concatenate([one.log_p for one in model.log_likelihood(texts)])

    return work


def race(name: str, make: Callable[[Loading], Work], repeat: int) -> None:
    """Runs all sides by turns, and prints how they compare with the first."""
    works: dict[str, Work] = {}
    for side, loading in SIDES.items():
        try:
            works[side] = make(loading)
        except UserError as error:
            print(f"{name:<10} {side}: {error}")
    seconds, values = by_turns(works, repeat, clock=time.process_time)
    first, *others = works
    for side in others:
        difference = np.abs(values[side] - values[first])
        print(
            f"{name:<10} {first} / {side} = {seconds[first].times(seconds[side])}, "
            f"differs by {difference.mean():.1e}, {difference.max():.1e} at most",
            flush=True,
        )


def main() -> None:
    kinds = ("encoder", "states", "judge", "coherence", "perplexity", "smollm2")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="all unless named")
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--length", type=int, default=30, help="median, in words")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--layers", type=int, default=12)
    arguments = parser.parse_args()
    if unknown := set(arguments.kinds) - set(kinds):
        parser.error(f"{', '.join(sorted(unknown))}: expected {', '.join(kinds)}")
    texts = random_texts(arguments.texts, arguments.length, 0)
    batches = [texts[at : at + arguments.batch] for at in range(0, len(texts), arguments.batch)]
    few = arguments.texts // 8
    print(
        f"{len(texts)} texts (median {arguments.length} words) in batches of {arguments.batch}, "
        f"{few} for likelihoods; {model_threads()} threads, {arguments.repeat} turns"
    )
    with tempfile.TemporaryDirectory() as root:
        folders = {name: Path(root) / name for name in ("judge", "pegasus", "gpt2")}
        random_judge(folders["judge"], arguments.layers)
        pegasus.random_pegasus(8, 512).save_pretrained(folders["pegasus"])
        pegasus.word_tokenizer().save_pretrained(folders["pegasus"])
        gpt2.random_gpt2(6, 384).save_pretrained(folders["gpt2"])
        words = wordfreq.top_n_list("en", gpt2.VOCABULARY - 1)
        gpt2.word_tokenizer(words).save_pretrained(folders["gpt2"])
        works: Mapping[str, Callable[[Loading], Work]] = {
            "encoder": lambda loading: encoder(loading, batches),
            "states": lambda loading: states(loading, batches),
            "judge": lambda loading: judge(folders["judge"], loading, batches[:2]),
            "coherence": lambda loading: coherence(folders["pegasus"], loading, max(1, few // 4)),
            "perplexity": lambda loading: perplexity(str(folders["gpt2"]), loading, texts[:few]),
            "smollm2": lambda loading: perplexity("offline/smollm2", loading, texts[:few]),
        }
        for kind in arguments.kinds or kinds:
            race(kind, works[kind], arguments.repeat)


if __name__ == "__main__":
    main()

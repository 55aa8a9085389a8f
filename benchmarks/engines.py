"""OpenVINO against PyTorch as `levelfield` runs both, on the same texts and weights, by turns.

- encoder: sentence embeddings of `offline/minilm`;
- states: token states of its layer 5, which BERTScore and MoverScore rest on;
- judge: a random BERT classifier (12 layers of width 768 unless said otherwise).

Texts are words drawn by their frequency, called for in batches as CTRLEval and judges do. All sides
are loaded and warmed up first, which converts the models and compares their first numbers with
PyTorch's. bfloat16 runs where the processor has it. CTranslate2 has a benchmark of its own,
`engines_ctranslate2.py`.

    python benchmarks/engines.py [--texts 256] [--batch 32] [--repeat 7] [--layers 12]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bertscore import random_texts
from turns import by_turns

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.machine import model_threads
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


def race(name: str, make: Callable[[Loading], Work], repeat: int) -> None:
    """Runs all sides by turns, and prints how they compare with the first."""
    works: dict[str, Work] = {}
    for side, loading in SIDES.items():
        try:
            works[side] = make(loading)
        except UserError as error:
            print(f"{name:<8} {side}: {error}")
    seconds, values = by_turns(works, repeat)
    first, *others = works
    for side in others:
        difference = np.abs(values[side] - values[first])
        print(
            f"{name:<8} {first} / {side} = {seconds[first].times(seconds[side])}, "
            f"differs by {difference.max():.1e} at most",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=256)
    parser.add_argument("--length", type=int, default=30, help="median, in words")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--layers", type=int, default=12)
    arguments = parser.parse_args()
    texts = random_texts(arguments.texts, arguments.length, 0)
    batches = [texts[at : at + arguments.batch] for at in range(0, len(texts), arguments.batch)]
    print(
        f"{len(texts)} texts (median {arguments.length} words) in batches of {arguments.batch}, "
        f"{model_threads()} threads, {arguments.repeat} turns"
    )
    race("encoder", lambda loading: encoder(loading, batches), arguments.repeat)
    race("states", lambda loading: states(loading, batches), arguments.repeat)
    with tempfile.TemporaryDirectory() as name:
        random_judge(Path(name), arguments.layers)
        race("judge", lambda loading: judge(Path(name), loading, batches[:2]), arguments.repeat)


if __name__ == "__main__":
    main()

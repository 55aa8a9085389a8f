"""Cost of the composite family per text, and the saving by the shared pass of its causal model.

The family's metrics ask `offline/smollm2` in the order in which `levelfield score` asks: attribute
relevance, coherence, consistency. Their calls are noted and taken apart into distinct parts: a
text, each sentence and the continuation alone, the words after a text. The same parts are then
scored

- by the shared pass, which is the noted calls again: a text and all words after it are one tree;
- every part on its own: each is a sequence of its own, and sequences of like length are batched;
- by the plain loop: one forward of the whole model a part, with logits at every position. It takes
  long, so a few parts represent all, in proportion to their tokens.

For comparison there are the plain pass, which is one forward of the whole model over each text by
itself, the whole family through its metrics (shared pass, encoder and judges), and the embedding
scorer alone, which is CTRLEval's three aspects with `offline/minilm`. Models are loaded and the
embeddings of prompts kept beforehand; the results of the causal model and of judges are not.

All parts must agree. Times are of the processor, since other work on the machine changes how long
a run takes. All ways run in one process by turns, in both orders.

    OMP_NUM_THREADS=1 python benchmarks/likelihood.py [--attribute sentiment] [--texts 8]
        [--dtype bfloat16] [--loop 40] [--repeat 3]

`--loop 0` leaves out what takes longest, every part on its own and the plain loop.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from turns import Seconds, by_turns

from levelfield import load_samples
from levelfield.core.arrays import Floats
from levelfield.core.metric import Metric
from levelfield.core.registry import create, matching
from levelfield.core.sample import Sample
from levelfield.metrics.aspects import shipped
from levelfield.metrics.composite.base import JUDGES
from levelfield.metrics.judges import choose, load
from levelfield.models.contracts import CausalLikelihood, Frame, WordLikelihoods
from levelfield.models.load import LOADERS, forget
from levelfield.models.load import load as load_model
from levelfield.models.loading import Loading
from levelfield.models.resolve import OFFLINE_LM, OFFLINE_MODEL, resolve_causal
from levelfield.models.torch.causal import TorchCausalModel
from levelfield.models.torch.loading import load_pretrained

EXAMPLES = Path(__file__).parent.parent / "examples" / "texts.jsonl"


class Part(NamedTuple):
    """Ids to score, and those of the prefix that the model reads before them."""

    prefix: tuple[int, ...]
    ids: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return len(self.prefix) + len(self.ids)


class NotedModel:
    """A causal model that records its calls.

    Attributes:
        calls: the calls, for a repetition.
        log_p: log P of each distinct part, in the order of first appearance.
    """

    def __init__(self, model: TorchCausalModel) -> None:
        self._model = model
        self.calls: list[Callable[[], object]] = []
        self.log_p: dict[Part, float] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def log_likelihood(self, texts: Sequence[str]) -> list[CausalLikelihood]:
        self.calls.append(lambda: self._model.log_likelihood(texts))
        likelihoods = self._model.log_likelihood(texts)
        for likelihood in likelihoods:
            self._note([], likelihood.ids.tolist(), likelihood.log_p)
        return likelihoods

    def words_after(
        self, texts: Sequence[str], frames_per_text: Sequence[Sequence[Frame]]
    ) -> list[WordLikelihoods]:
        self.calls.append(lambda: self._model.words_after(texts, frames_per_text))
        likelihoods = self._model.words_after(texts, frames_per_text)
        ids = self._model.token_ids(texts)
        for text, frames, text_likelihoods in zip(ids, frames_per_text, likelihoods, strict=True):
            for frame, log_p in zip(frames, text_likelihoods.log_p, strict=True):
                between, *words = self._model.token_ids([frame.between, *frame.words])
                for word, word_log_p in zip(words, log_p, strict=True):
                    self._note([*text, *between], word, word_log_p)
        return likelihoods

    def log_likelihood_after(
        self, prefixes: Sequence[str], texts: Sequence[str]
    ) -> list[list[CausalLikelihood]]:
        self.calls.append(lambda: self._model.log_likelihood_after(prefixes, texts))
        likelihoods = self._model.log_likelihood_after(prefixes, texts)
        for prefix, prefix_likelihoods in zip(
            self._model.token_ids(prefixes), likelihoods, strict=True
        ):
            for likelihood in prefix_likelihoods:
                self._note(prefix, likelihood.ids.tolist(), likelihood.log_p)
        return likelihoods

    def _note(self, prefix: Sequence[int], ids: Sequence[int], log_p: Floats) -> None:
        part = Part((self._model._tokens.bos_id, *prefix), tuple(ids))
        self.log_p.setdefault(part, float(log_p.sum()))


def serve(model: TorchCausalModel | NotedModel) -> None:
    """Makes this the causal model of all metrics."""
    forget()
    LOADERS["causal"] = lambda *_: model


def scored(metrics: Sequence[Metric], samples: Sequence[Sample]) -> list[float]:
    return [float(value) for metric in metrics for value in metric.score(samples).values]


def alone(model: TorchCausalModel, parts: Sequence[Part]) -> list[float]:
    """Returns log P of every part, each a sequence of its own."""
    prefixes, ids = zip(*parts, strict=True)
    return [float(log_p.sum()) for log_p in model.log_p_after(prefixes, ids)]


def plain_loop(network: Any, parts: Sequence[Part]) -> list[float]:
    """Returns log P of every part, from the whole model's logits.

    The softmax is in float64: in float32 its sum over the vocabulary errs by 1e-5 at every token.
    """
    values = []
    with torch.inference_mode():
        for prefix, ids in parts:
            logits = network(torch.tensor([[*prefix, *ids]]), use_cache=False).logits[0]
            log_p = logits[len(prefix) - 1 : -1].double().log_softmax(-1)
            values.append(log_p[torch.arange(len(ids)), torch.tensor(ids)].sum().item())
    return values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--attribute", choices=sorted(shipped()), default="sentiment")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--dtype", default="float32", help="of the causal model and the encoder")
    parser.add_argument("--loop", type=int, default=40, help="parts of the plain loop")
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()

    examples = [s for s in load_samples(EXAMPLES) if arguments.attribute in s.control]
    samples = examples[: arguments.texts]
    family, embedding = (
        create(matching(name), {"device": "cpu", "dtype": arguments.dtype}, {})
        for name in ("composite", "ctrleval")
    )
    loading = Loading("cpu", dtype=arguments.dtype)
    network, tokenizer = load_pretrained(resolve_causal(OFFLINE_LM, loading), "causal", loading)
    model = TorchCausalModel(network, tokenizer)
    encoder = load_model("encoder", OFFLINE_MODEL, loading)
    LOADERS["encoder"] = lambda *_: encoder
    serve(model)
    # before the noted model, since a judge shares passes with a model that is not wrapped
    chosen = choose(JUDGES.get(arguments.attribute, ""), loading)
    judges = [load(judge, chosen, loading) for judge in chosen]
    serve(noted := NotedModel(model))
    scored(family, samples)
    serve(model)
    parts = list(noted.log_p)
    in_loop = parts[:: math.ceil(len(parts) / arguments.loop)] if arguments.loop else []
    texts = [
        torch.tensor([[model._tokens.bos_id, *ids]])
        for ids in model.token_ids([sample.text for sample in samples])
    ]

    def plain_pass() -> list[float]:
        with torch.inference_mode():
            for ids in texts:
                network(ids, use_cache=False)
        return []

    def shared_pass() -> list[float]:
        for call in noted.calls:
            call()
        return []

    def fresh(work: Callable[[], list[float]]) -> Callable[[], list[float]]:
        def forgetful() -> list[float]:
            model._recent.clear()
            encoder._recent.clear()
            for judge in judges:
                judge._known.clear()
            return work()

        return forgetful

    in_pieces: dict[str, tuple[Callable[[], list[float]], list[Part]]] = {
        "every part alone": (lambda: alone(model, parts), parts),
        "plain loop": (lambda: plain_loop(network, in_loop), in_loop),
    }
    ways: dict[str, Callable[[], list[float]]] = {
        "plain pass": plain_pass,
        "shared pass": shared_pass,
        **({way: work for way, (work, _) in in_pieces.items()} if in_loop else {}),
        "composite": lambda: scored(family, samples),
        "embedding scorer": lambda: scored(embedding, samples),
    }
    print(
        f"{OFFLINE_LM}, {arguments.attribute}, {len(samples)} texts of "
        f"{np.mean([len(ids) for ids in model.token_ids([s.text for s in samples])]):.0f} tokens, "
        f"{len(parts) / len(samples):.0f} parts each, {len(in_loop)} parts in the plain loop, "
        f"{torch.get_num_threads()} threads, {arguments.repeat} runs",
        flush=True,
    )
    seconds, values = by_turns(
        {way: fresh(work) for way, work in ways.items()}, arguments.repeat, clock=time.process_time
    )
    a_text = {
        way: Seconds([s / len(samples) for s in spent.values]) for way, spent in seconds.items()
    }
    if in_loop:
        tokens, in_loop_tokens = (sum(p.tokens for p in group) for group in (parts, in_loop))
        in_loop_seconds = a_text["plain loop"].values
        a_text["plain loop"] = Seconds([s * tokens / in_loop_tokens for s in in_loop_seconds])

    beside = ("plain pass", "shared pass", "embedding scorer")  # columns: times as much as these
    print(f"{'':<18}{'s a text':<26}{''.join(f'{way:>19}' for way in beside)}")
    for way, spent in a_text.items():
        ratios = "".join(f"{spent.median / a_text[other].median:19.2f}" for other in beside)
        print(f"{way:<18}{spent!s:<26}{ratios}")
    for way, (_, scored_parts) in in_pieces.items() if in_loop else ():
        differences = np.abs(np.array(values[way]) - [noted.log_p[part] for part in scored_parts])
        print(f"{way} and shared pass: largest difference of log P {differences.max():.1e} nats")


if __name__ == "__main__":
    main()

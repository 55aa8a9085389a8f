"""Everything that a causal model says of a text, in one shared pass and part by part, in one run.

The parts of a text: its own likelihood, the words after it (the prompts of the sentiment aspect
that follow a text, each with every word of its verbalizers), and the text after a label (one
prompt that precedes a text, with every word). They are scored

- by the shared pass: a text and all words after it are one tree of tokens;
- every part on its own: each is a sequence of its own, and sequences of like length are batched;
- by the plain loop: one forward of the whole model a part, the softmax at every position. It takes
  long, so a few parts stand for all.

All must agree; what is printed are ratios of processor time, since other work on the machine
changes how long a run takes. Shared pass and parts run by turns, in both orders.

    python benchmarks/likelihood.py [--texts 8] [--loop 40] [--repeat 2] [--model offline/smollm2]

Without the model the weights are random, of the same shape, with one token a word.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import wordfreq
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from levelfield.aspects import GAP, TEXT, load_aspect
from levelfield.core.errors import LevelfieldError
from levelfield.models.contracts import Frame
from levelfield.models.loading import Loading
from levelfield.models.torch.causal import TorchCausalModel
from levelfield.models.torch.causal_tokens import resolve_causal
from levelfield.models.torch.loading import load_pretrained, placement

EXAMPLES = Path(__file__).parent.parent / "examples" / "texts.jsonl"
VOCABULARY = 49152
BOS = "<|endoftext|>"


def checkpoint(name: str) -> tuple[Any, Any, str]:
    try:
        loading = Loading("cpu")
        return *load_pretrained(resolve_causal(name, loading), "causal", *placement(loading)), name
    except LevelfieldError:
        return random_llama(), word_tokenizer(), "random weights"


def random_llama() -> Any:
    """The shape of SmolLM2-135M."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def word_tokenizer() -> PreTrainedTokenizerFast:
    words = [BOS, *wordfreq.top_n_list("en", VOCABULARY - 1)]
    made = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token=BOS))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=BOS, eos_token=BOS, unk_token=BOS, pad_token=BOS
    )


def sentiment() -> tuple[list[Frame], list[str]]:
    """What follows a text, and what precedes it."""
    aspect = load_aspect("sentiment")
    words = [verbalizer[label] for verbalizer in aspect.verbalizers for label in aspect.labels]
    frames: list[Frame] = []
    prefixes: list[str] = []
    for prompt in aspect.prompts:
        if prompt.startswith(TEXT):
            between = prompt.removeprefix(TEXT).partition(GAP)[0].rstrip()
            frames.append(Frame(between, tuple(" " + word for word in words)))
        elif not prefixes:
            prefixes = [prompt.removesuffix(TEXT).replace(GAP, word) for word in words]
    return frames, prefixes


def parts(
    model: TorchCausalModel, texts: Sequence[str], frames: Sequence[Frame], prefixes: Sequence[str]
) -> list[tuple[list[int], list[int]]]:
    """What every part is given, and what is scored after it: both as ids."""
    bos = [model._tokens.bos_id]
    words = {word: model.token_ids([word])[0] for frame in frames for word in frame.words}
    between = {frame: model.token_ids([frame.between])[0] for frame in frames}
    found = []
    for ids in model.token_ids(texts):
        found.append((bos, ids))
        found += [([*bos, *ids, *between[f]], words[word]) for f in frames for word in f.words]
        found += [([*bos, *before], ids) for before in model.token_ids(prefixes)]
    return found


def shared(
    model: TorchCausalModel, texts: Sequence[str], frames: Sequence[Frame], prefixes: Sequence[str]
) -> list[float]:
    model._recent.clear()
    words = model.words_after(texts, [frames] * len(texts))
    own = model.log_likelihood(texts)
    after = model.log_likelihood_after(prefixes, texts)
    values = []
    for i in range(len(texts)):
        values.append(own[i].log_p.sum())
        values += [log_p.sum() for of_frame in words[i].log_p for log_p in of_frame]
        values += [of_prefix[i].log_p.sum() for of_prefix in after]
    return values


def plain_loop(network: Any, parts: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    values = []
    with torch.no_grad():
        for given, ids in parts:
            log_p = network(torch.tensor([[*given, *ids]])).logits[0].log_softmax(-1)
            places = torch.arange(len(given) - 1, len(given) + len(ids) - 1)
            values.append(log_p[places, torch.tensor(ids)].double().sum().item())
    return values


def timed(work: Callable[[], list[float]]) -> tuple[float, list[float]]:
    begin = time.process_time()
    values = work()
    return time.process_time() - begin, values


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--loop", type=int, default=40, help="parts of the plain loop")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--model", default="offline/smollm2")
    arguments = parser.parse_args()

    network, tokenizer, name = checkpoint(arguments.model)
    model = TorchCausalModel(network, tokenizer)
    records = [json.loads(line) for line in EXAMPLES.read_text(encoding="utf-8").splitlines()]
    texts = [one["text"] for one in records if "sentiment" in one["control"]][: arguments.texts]
    frames, prefixes = sentiment()
    alone = parts(model, texts, frames, prefixes)
    every = max(1, len(alone) // arguments.loop)
    in_loop = alone[::every]
    print(
        f"{name}, {len(texts)} texts of {np.mean([len(i) for i in model.token_ids(texts)]):.0f} "
        f"tokens, {len(alone) // len(texts)} parts each, {torch.get_num_threads()} threads",
        flush=True,
    )
    ways: dict[str, Callable[[], list[float]]] = {
        "shared pass": lambda: shared(model, texts, frames, prefixes),
        "part by part": lambda: [
            float(log_p.sum()) for log_p in model.log_p_after(*zip(*alone, strict=True))
        ],
    }
    shared(model, texts[:1], frames[:1], prefixes[:1])
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    values = {}
    for turn in range(arguments.repeat):
        for way in list(ways)[:: 1 if turn % 2 else -1]:
            spent, values[way] = timed(ways[way])
            seconds[way].append(spent / len(texts))
    slow, expected = timed(lambda: plain_loop(network, in_loop))
    values["plain loop"] = expected
    steps = {"part by part": 1, "plain loop": every}
    seconds["plain loop"] = [slow * len(alone) / len(in_loop) / len(texts)]
    ours = seconds["shared pass"]
    for way, step in steps.items():
        off = np.abs(np.array(values[way]) - np.array(values["shared pass"][::step])).max()
        print(
            f"{way:<12} / shared pass = {min(seconds[way]):.2f} s / {min(ours):.2f} s a text = "
            f"{min(seconds[way]) / min(ours):.1f} times ({len(seconds[way])} and {len(ours)} runs, "
            f"slowest {max(seconds[way]):.2f} s and {max(ours):.2f} s), largest difference of a "
            f"sum {off:.1e} nats",
            flush=True,
        )


if __name__ == "__main__":
    main()

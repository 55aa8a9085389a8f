"""SLOR and perplexity against plain loops, on one random GPT-2 and the same texts, in one run.

SLOR: the plain loop is the way the study's code goes: for each text one forward of the sentence,
and for each of its tokens one forward of BOS to look up the token's unigram probability.

Perplexity: the plain loop is what the `evaluate` package documents of its perplexity metric, in our
own words (the package on PyPI does not hold that metric; it is loaded from the hub): BOS in front,
16 texts a batch in file order, padded to the longest, cross-entropy over the logits of every
position, padding masked afterwards.

Both sides must agree; what is printed are ratios, since absolute times depend on the machine.

    python benchmarks/fluency.py [--texts 500] [--repeat 5] [--repeat-slor 3]
        [--layers 6] [--width 384]
"""

from __future__ import annotations

import argparse
import copy
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import wordfreq
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import WordLevel
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from turns import by_turns

from levelfield.metrics.fluency import perplexity, slor
from levelfield.models.torch.causal import TorchCausalModel
from levelfield.models.torch.loading import fuse_activations

VOCABULARY = 50257  # GPT-2's own: the softmax over it is a large part of the work
BOS = "<|endoftext|>"
LENGTHS = (20, 120)
"""Shortest and longest text, in tokens, where lengths vary: lognormal around 50."""


def random_gpt2(layers: int, width: int) -> Any:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=1024,
        n_embd=width,
        n_layer=layers,
        n_head=width // 64,
        bos_token_id=0,
        eos_token_id=0,
    )
    return GPT2LMHeadModel(config).eval()


def word_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token a word, so that texts have as many tokens as intended."""
    ids = {word: id for id, word in enumerate([BOS, *words])}
    tokenizer = Tokenizer(WordLevel(ids, unk_token=BOS))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=BOS, unk_token=BOS, pad_token=BOS
    )


def random_texts(words: Sequence[str], lengths: Sequence[int]) -> list[str]:
    """Texts of that many words each, words as frequent as they are in English."""
    random = np.random.default_rng(0)
    p = np.array([wordfreq.word_frequency(word, "en") for word in words])
    drawn = random.choice(len(words), size=sum(lengths), p=p / p.sum())
    return [
        " ".join(words[i] for i in numbers)
        for numbers in np.split(drawn, np.cumsum(lengths)[:-1].tolist())
    ]


def plain_slor(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[float]:
    """Returns SLOR from a forward for every text, and one of BOS for every token."""
    bos = torch.tensor([[tokenizer.bos_token_id]])
    values = []
    with torch.no_grad():
        for text in texts:
            ids = tokenizer(text, return_tensors="pt").input_ids
            log_p = model(torch.cat([bos, ids], dim=1)).logits[0, :-1].log_softmax(-1)
            in_context = log_p.gather(-1, ids[0, :, None]).sum().item()
            alone = sum(
                model(bos).logits[0, -1].log_softmax(-1)[token].item() for token in ids[0].tolist()
            )
            values.append((in_context - alone) / ids.shape[1])
    return values


def plain_perplexity(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[float]:
    """Returns perplexities from 16 texts a batch in file order, padding included in the softmax."""
    tokenizer.padding_side = "right"
    encoded = tokenizer(list(texts), return_tensors="pt", padding=True)
    values: list[float] = []
    with torch.no_grad():
        for start in range(0, len(texts), 16):
            mask = encoded.attention_mask[start : start + 16]
            longest = int(mask.sum(1).max())
            ids, mask = encoded.input_ids[start : start + 16, :longest], mask[:, :longest]
            bos = torch.full((len(ids), 1), tokenizer.bos_token_id)
            ids = torch.cat([bos, ids], dim=1)
            attended = torch.cat([torch.ones_like(bos), mask], dim=1)
            logits = model(ids, attention_mask=attended).logits[:, :-1].contiguous()
            nll = torch.nn.functional.cross_entropy(
                logits.transpose(1, 2), ids[:, 1:].contiguous(), reduction="none"
            )
            values += ((nll * mask).sum(1) / mask.sum(1)).exp().tolist()
    return values


def our_slor(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[float]:
    ours = TorchCausalModel(model, tokenizer)  # a new one: nothing is kept from the last run
    log_p_u = ours.unigram_bos()
    return [slor(read.log_p, log_p_u[read.ids]) for read in ours.log_likelihood(texts)]


def our_perplexity(model: Any, tokenizer: Any, texts: Sequence[str]) -> list[float]:
    ours = TorchCausalModel(model, tokenizer)
    return [perplexity(likelihood.log_p) for likelihood in ours.log_likelihood(texts)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--repeat-slor", type=int, default=3, help="its plain loop takes minutes")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    arguments = parser.parse_args()

    words = wordfreq.top_n_list("en", VOCABULARY - 1)
    if len(words) != VOCABULARY - 1:
        raise SystemExit(f"wordfreq knows only {len(words)} words")
    tokenizer, model = word_tokenizer(words), random_gpt2(arguments.layers, arguments.width)
    loaded = copy.deepcopy(model)  # as `levelfield` has a model that it loads itself
    fuse_activations(loaded)
    lognormal = np.random.default_rng(1).lognormal(np.log(50), 0.4, arguments.texts)
    varied = random_texts(words, lognormal.clip(*LENGTHS).astype(int).tolist())
    equal = random_texts(words, [50] * arguments.texts)
    print(
        f"{arguments.texts} texts, {arguments.layers} layers, width {arguments.width}, vocabulary "
        f"{VOCABULARY}, {torch.get_num_threads()} threads"
    )
    for name, texts, plain, ours, repeat in (
        ("SLOR, 50 tokens a text", equal, plain_slor, our_slor, arguments.repeat_slor),
        ("perplexity, 20 to 120", varied, plain_perplexity, our_perplexity, arguments.repeat),
    ):
        plain(model, tokenizer, texts[:2])
        ours(loaded, tokenizer, texts)
        ways = {
            "plain": functools.partial(plain, model, tokenizer, texts),
            "ours": functools.partial(ours, loaded, tokenizer, texts),
        }
        seconds, values = by_turns(ways, repeat, warm_up=lambda: None)
        plain_values, our_values = np.array(values["plain"]), np.array(values["ours"])
        if plain is plain_perplexity:  # thousands: their logarithms are NLL a token
            plain_values, our_values = np.log(plain_values), np.log(our_values)
        print(
            f"{name:<24} plain loop / ours = {seconds['plain'].times(seconds['ours'])}, {repeat} "
            f"turns, largest difference {np.abs(our_values - plain_values).max():.1e} nats a token",
            flush=True,
        )


if __name__ == "__main__":
    main()

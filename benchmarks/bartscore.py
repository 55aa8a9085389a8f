"""BARTScore against the plain loop, on one random BART and the same texts, in one run.

The plain loop is the way the authors' scorer goes, in our own words: pairs of source and text in
batches of 4 in file order, both padded to the longest of the batch, the model called with labels,
the loss of every position of the whole vocabulary, and the sum divided by the text's tokens.

Lengths are lognormal, by default about those of news and their summaries. The texts are those of
several systems for the same sources, one system after the other, as files of outputs are; with
`--systems 1` no source occurs twice. Both sides must agree; what is printed are ratios, since
absolute times depend on the machine.

    python benchmarks/bartscore.py [--sources 16] [--systems 4] [--source-length 400] [--repeat 5]
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import wordfreq
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast
from turns import by_turns

from levelfield.models.contracts import PLAIN, Gapped, Target
from levelfield.models.torch.infilling import TorchInfillingModel
from levelfield.models.torch.loading import fuse_activations

VOCABULARY = 50265  # BART's own: the softmax over it is a large part of the work
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
LONGEST = 1000

Pairs = Sequence[tuple[str, str]]


def random_bart(layers: int, width: int) -> Any:
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=VOCABULARY,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_position_embeddings=1024,
    )
    return BartForConditionalGeneration(config).eval()


def word_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Returns a tokenizer with one token a word, so that texts have as many tokens as intended."""
    ids = {word: id for id, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def random_texts(words: Sequence[str], count: int, median: int) -> list[str]:
    """Texts of words drawn alike, of lognormal length."""
    random = np.random.default_rng(count)
    drawn = random.lognormal(np.log(median), 0.5, count).clip(median / 4, LONGEST).astype(int)
    return [" ".join(random.choice(words, n)) for n in drawn]


def plain(model: Any, tokenizer: Any, pairs: Pairs) -> list[float]:
    """Returns values from 4 pairs a batch in file order, with padding in the softmax."""
    nll = torch.nn.CrossEntropyLoss(reduction="none", ignore_index=tokenizer.pad_token_id)
    values: list[float] = []
    with torch.no_grad():
        for start in range(0, len(pairs), 4):
            sources, texts = zip(*pairs[start : start + 4], strict=True)
            limits: dict[str, Any] = {"max_length": 1024, "truncation": True, "padding": True}
            encoded = tokenizer(list(sources), return_tensors="pt", **limits)
            target = tokenizer(list(texts), return_tensors="pt", **limits)
            logits = model(
                input_ids=encoded.input_ids,
                attention_mask=encoded.attention_mask,
                labels=target.input_ids,
            ).logits
            losses = nll(logits.flatten(0, 1), target.input_ids.flatten())
            sums = losses.view(len(texts), -1).sum(1)
            values += (-sums / target.attention_mask.sum(1)).tolist()
    return values


def ours(model: Any, tokenizer: Any, pairs: Pairs) -> list[float]:
    fast = TorchInfillingModel(model, tokenizer, style=PLAIN)
    likelihoods = fast.log_likelihood(
        [Gapped("", source, gap=False) for source, _ in pairs],
        [[Target(text, end=True, begin=True)] for _, text in pairs],
    )
    return [float(log_p.mean()) for (log_p,) in likelihoods.log_p]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sources", type=int, default=16)
    parser.add_argument("--systems", type=int, default=4)
    parser.add_argument("--source-length", type=int, default=400, help="median, in tokens")
    parser.add_argument("--text-length", type=int, default=50, help="median, in tokens")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=512)
    arguments = parser.parse_args()

    words = wordfreq.top_n_list("en", VOCABULARY - len(SPECIAL))
    tokenizer, model = word_tokenizer(words), random_bart(arguments.layers, arguments.width)
    loaded = copy.deepcopy(model)  # as `levelfield` has a model that it loads itself
    fuse_activations(loaded)
    sources = random_texts(words, arguments.sources, arguments.source_length)
    texts = random_texts(words, arguments.sources * arguments.systems, arguments.text_length)
    pairs = list(zip(sources * arguments.systems, texts, strict=True))

    def warm_up() -> None:
        plain(model, tokenizer, pairs[:8])
        ours(loaded, tokenizer, pairs)

    ways = {
        "plain": lambda: plain(model, tokenizer, pairs),
        "ours": lambda: ours(loaded, tokenizer, pairs),
    }
    seconds, values = by_turns(ways, arguments.repeat, warm_up=warm_up)
    difference = np.abs(np.array(values["ours"]) - np.array(values["plain"])).max()
    print(
        f"{len(pairs)} pairs of {arguments.sources} sources (median {arguments.source_length} and "
        f"{arguments.text_length} tokens), {arguments.layers}+{arguments.layers} "
        f"layers, width {arguments.width}, vocabulary {VOCABULARY}, {torch.get_num_threads()} "
        f"threads\nplain loop / ours = {seconds['plain'].times(seconds['ours'])}, "
        f"{arguments.repeat} turns, largest difference {difference:.1e}"
    )


if __name__ == "__main__":
    main()

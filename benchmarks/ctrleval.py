"""CTRLEval's fast path against the plain loop, on one random PEGASUS and real texts, in one run.

The plain loop is the way the authors' code goes: every (source, target) pair on its own through
the whole model, eight pairs a batch, in file order. Both sides score the same pairs with the same
weights and must agree; what is printed are ratios, since absolute times depend on the machine.

    python benchmarks/ctrleval.py [--texts 32] [--repeat 5] [--layers 8] [--width 512]
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import wordfreq
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from transformers import PegasusConfig, PegasusForConditionalGeneration, PreTrainedTokenizerFast
from turns import by_turns

from levelfield.core.sample import Sample
from levelfield.io import load_samples
from levelfield.metrics import ctrleval
from levelfield.metrics.aspects import load_aspect
from levelfield.metrics.scorers import InfillingScorer, label_evaluators
from levelfield.models.torch.infilling import TorchInfillingModel

VOCABULARY = 96103  # PEGASUS's own: the softmax over it is a large part of the work
EXAMPLES = Path(__file__).parent.parent / "examples" / "texts.jsonl"


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Returns a tokenizer with about one token a word, as PEGASUS has."""
    words = wordfreq.get_frequency_dict("en", wordlist="small")
    pieces = {"▁" + word: float(np.log(p)) for word, p in words.items()}
    letters = {c: -30.0 for word in words for c in word} | {"▁": -30.0, ".": -5.0, ",": -5.0}
    special = [(t, 0.0) for t in ("<pad>", "</s>", "<mask_1>", "<mask_2>", "<unk>")]
    tokenizer = Tokenizer(Unigram([*special, *(letters | pieces).items()], unk_id=4))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([t for t, _ in special])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def random_pegasus(layers: int, width: int) -> Any:
    torch.manual_seed(0)
    config = PegasusConfig(
        vocab_size=VOCABULARY,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_position_embeddings=1024,
        decoder_start_token_id=0,
    )
    return PegasusForConditionalGeneration(config).eval()


def plain(model: Any, tokenizer: Any, pairs: list[tuple[str, str]], *, end: bool) -> list[float]:
    """Returns mean token log-probability of every target given its source."""
    tokenizer.padding_side = "right"
    values: list[float] = []
    for offset in range(0, len(pairs), 8):
        batch = pairs[offset : offset + 8]
        sources = tokenizer([f for f, _ in batch], return_tensors="pt", padding=True)
        targets = tokenizer(
            [g for _, g in batch], return_tensors="pt", padding=True, add_special_tokens=end
        )
        with torch.no_grad():
            start = torch.full((len(batch), 1), model.config.decoder_start_token_id)
            logits = model(
                input_ids=sources.input_ids,
                attention_mask=sources.attention_mask,
                decoder_input_ids=torch.cat([start, targets.input_ids[:, :-1]], dim=1),
            ).logits
            log_p = logits.log_softmax(-1).gather(-1, targets.input_ids[..., None])[..., 0]
        mask = targets.attention_mask
        values += ((log_p * mask).sum(1) / mask.sum(1)).tolist()
    return values


def real_samples(count: int) -> list[Sample]:
    data = os.environ.get("LEVELFIELD_DATA")
    rated = Path(data or "") / "ctrleval" / "data" / "data_senti.txt"
    if data and rated.is_file():
        samples = load_samples(rated, format="ctrleval")
    else:
        records = [json.loads(x) for x in EXAMPLES.read_text(encoding="utf-8").splitlines()]
        samples = load_samples([r for r in records if "sentiment" in r["control"]])
    return samples[:: max(1, len(samples) // count)][:count]


def product_rate(width: int) -> float:
    """Returns floating-point operations a second of a matrix product of this model's size."""
    a, b = torch.rand(2048, width), torch.rand(width, 4 * width)
    seconds, _ = by_turns({"product": lambda: [a @ b for _ in range(20)]}, 5)
    return 20 * 2 * a.shape[0] * a.shape[1] * b.shape[1] / seconds["product"].median


def encoder_rate(model: Any, fast: TorchInfillingModel, samples: list[Sample]) -> float:
    """Returns the encoder's operations a second on unpadded tokens of the samples' texts."""
    tokens = fast._tokens
    bodies = fast.token_ids([s.text for s in samples])
    ids = sorted(([*tokens.before, *body, *tokens.after] for body in bodies), key=len)
    layers, width = model.config.encoder_layers, model.config.d_model
    operations = sum(layers * (24 * width**2 * n + 4 * n**2 * width) for n in map(len, ids))

    def encode() -> None:
        with torch.inference_mode():
            for start in range(0, len(ids), 16):
                fast._encode(ids[start : start + 16])

    seconds, _ = by_turns({"encoder": encode}, 5)
    return operations / seconds["encoder"].median


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    arguments = parser.parse_args()

    tokenizer, model = word_tokenizer(), random_pegasus(arguments.layers, arguments.width)
    fast = TorchInfillingModel(model, tokenizer)
    scorer = InfillingScorer(fast, "infilling", "tokens")
    samples = real_samples(arguments.texts)
    coherence, consistency = ctrleval.CTRLEvalCoherence(), ctrleval.CTRLEvalConsistency()

    def report(
        name: str, pairs: list[tuple[str, str]], *, end: bool, ours: Callable[[], Any]
    ) -> None:
        def warm_up() -> None:
            plain(model, tokenizer, pairs[:64], end=end)
            ours()

        def forgetful() -> Any:
            fast._recent.clear()  # else the second run has nothing to do
            return ours()

        ways = {"plain": lambda: plain(model, tokenizer, pairs, end=end), "ours": forgetful}
        seconds, values = by_turns(ways, arguments.repeat, warm_up=warm_up)
        difference = float(np.abs(np.array(values["ours"]) - np.array(values["plain"])).max())
        print(
            f"{name:<20} {len(pairs):>6} pairs  plain loop / ours = "
            f"{seconds['plain'].times(seconds['ours'])}, largest difference {difference:.1e}",
            flush=True,
        )

    print(
        f"{len(samples)} texts, {arguments.layers}+{arguments.layers} layers, width "
        f"{arguments.width}, vocabulary {VOCABULARY}, {torch.get_num_threads()} threads"
    )
    for metric, end in ((coherence, True), (consistency, False)):
        evaluated = [metric._evaluators(sample, "<mask_1>") for sample in samples]
        evaluators = [e for es in evaluated if isinstance(es, list) for e in es]
        report(
            metric.name.removeprefix("ctrleval."),
            [(fast._style.join(e.f), e.g) for e in evaluators],
            end=end,
            ours=lambda evaluators=evaluators, end=end: scorer.fit(evaluators, end=end)[0],
        )
    aspect = load_aspect("sentiment")
    prompts = [e for s in samples for e in label_evaluators(s.text, aspect)]
    report(
        "attribute relevance",
        [(fast._style.join(e.f), word) for e in prompts for word in e.words],
        end=False,
        ours=lambda: np.concatenate(scorer.label_logits(prompts)[0]),
    )
    product, encoder = product_rate(arguments.width), encoder_rate(model, fast, samples)
    print(f"encoder runs at {encoder / product:.0%} of the machine's matrix-product rate")


if __name__ == "__main__":
    main()

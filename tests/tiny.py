"""Random small models of the families we support, with tokenizers trained on our own examples.

The arithmetic is that of the real checkpoints; only the weights mean nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram
from tokenizers.trainers import BpeTrainer
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

FAMILIES = ("pegasus", "t5", "bart")
CAUSAL_FAMILIES = ("gpt2", "bloom", "llama")
EXAMPLES = Path(__file__).parent.parent / "examples" / "texts.jsonl"


def texts() -> list[str]:
    lines = EXAMPLES.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def frequent_words(n: int) -> list[tuple[str, float]]:
    """The n most frequent words and their log frequency; of equals, the alphabet's first."""
    counts = Counter(word for text in texts() for word in re.findall(r"\w+|[^\w\s]", text))
    ranked = sorted(counts.items(), key=lambda word: (-word[1], word[0]))
    return [(word, math.log(count / counts.total())) for word, count in ranked[:n]]


def letters() -> list[str]:
    return sorted({letter for text in texts() for letter in text if not letter.isspace()})


def unigram(special: list[str], vocabulary: int) -> Unigram:
    """Whole words and letters. The library's trainer breaks ties at random."""
    pieces = [*((piece, 0.0) for piece in special), *((x, -12.0) for x in ["▁", *letters()])]
    words = frequent_words(vocabulary - len(pieces))
    return Unigram(
        [*pieces, *(("▁" + word, score) for word, score in words)], special.index("<unk>")
    )


def tokenizer(family: str, vocabulary: int = 400) -> PreTrainedTokenizerFast:
    if family == "bart":
        special = ["<s>", "<pad>", "</s>", "<unk>"]
        made = Tokenizer(BPE(unk_token="<unk>"))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        made.train_from_iterator(
            texts(),
            BpeTrainer(vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet),
        )
        made.add_special_tokens([AddedToken("<mask>", lstrip=True)])
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
        names = {"bos_token": "<s>", "mask_token": "<mask>"}
    else:
        gaps = ["<mask_1>", "<mask_2>"] if family == "pegasus" else ["<extra_id_0>", "<extra_id_1>"]
        special = ["<pad>", "</s>", *gaps, "<unk>"]
        made = Tokenizer(unigram(special, vocabulary))
        made.add_special_tokens(special)
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        made.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", 1)]
        )
        names = {}
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", **names
    )


def model(family: str, vocabulary: int, *, positions: int = 512, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    size = {"vocab_size": vocabulary, "d_model": 16}
    layers = {
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": positions,
        "init_std": 0.5,
    }
    if family == "pegasus":
        special = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0}
        made: Any = PegasusForConditionalGeneration(PegasusConfig(**size, **layers, **special))
    elif family == "t5":
        made = T5ForConditionalGeneration(
            T5Config(
                **size,
                d_kv=8,
                d_ff=32,
                num_layers=2,
                num_heads=2,
                n_positions=positions,
                pad_token_id=0,
                eos_token_id=1,
                decoder_start_token_id=0,
                initializer_factor=1.0,
            )
        )
    else:
        special = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
        made = BartForConditionalGeneration(
            BartConfig(**size, **layers, **special, decoder_start_token_id=2)
        )
    if hasattr(made, "final_logits_bias"):
        made.final_logits_bias.normal_()
    return made.eval()


def causal_tokenizer(
    family: str, vocabulary: int = 400, *, begins: bool = False
) -> PreTrainedTokenizerFast:
    """GPT-2's one special token is everything; BLOOM has BOS and EOS and puts none around a text;
    Llama puts BOS in front of it by itself, and a blank before its first word.

    Args:
        begins: whether the others put BOS in front of a text, too.
    """
    special = {
        "gpt2": ["<|endoftext|>"],
        "bloom": ["<unk>", "<s>", "</s>", "<pad>"],
        "llama": ["<unk>", "<s>", "</s>"],
    }[family]
    if family == "llama":
        made = Tokenizer(BPE(unk_token="<unk>"))
        made.pre_tokenizer = pre_tokenizers.Metaspace()
        made.decoder = decoders.Metaspace()
        alphabet = []
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
    else:
        made = Tokenizer(BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        texts(),
        BpeTrainer(vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet),
    )
    if begins:
        bos = special[family != "gpt2"]
        made.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, made.token_to_id(bos))]
        )
    if family == "gpt2":
        names = dict.fromkeys(("bos_token", "eos_token", "unk_token"), special[0])
    else:
        names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def causal_model(family: str, vocabulary: int, *, positions: int = 512, seed: int = 0) -> Any:
    """BLOOM has no limit of positions."""
    torch.manual_seed(seed)
    made: Any
    if family == "gpt2":
        made = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=vocabulary,
                n_positions=positions,
                n_embd=16,
                n_layer=2,
                n_head=2,
                initializer_range=0.3,
                bos_token_id=0,
                eos_token_id=0,
            )
        )
    elif family == "bloom":
        made = BloomForCausalLM(
            BloomConfig(
                vocab_size=vocabulary, hidden_size=16, n_layer=2, n_head=2, initializer_range=0.3
            )
        )
    else:
        made = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=vocabulary,
                hidden_size=16,
                intermediate_size=32,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
                max_position_embeddings=positions,
                initializer_range=0.3,
            )
        )
    return made.eval()


def save(family: str, folder: Path, *, begins: bool = False, **options: Any) -> Path:
    """A folder as a user would have it: configuration, weights as safetensors, tokenizer."""
    is_causal = family in CAUSAL_FAMILIES
    words = causal_tokenizer(family, begins=begins) if is_causal else tokenizer(family)
    build = causal_model if is_causal else model
    build(family, len(words), **options).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder

"""The tokenizer of a model that begins from nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from levelfield.models.contracts import FIM
from levelfield.train.infiller.examples import SENTINELS

SAMPLE = 20_000_000
"""Characters of a corpus that a tokenizer is trained on."""
LONGEST = 20_000
"""Characters of a document among them."""


def train_tokenizer(texts: Iterable[str], vocabulary: int, *, marked: str = "$A </s>") -> Any:
    """Returns a subword tokenizer: words are split off at blanks, line breaks and punctuation, then
    byte-pair encoding with single bytes for characters that are rare, so that every text has
    tokens. Holds the markers of both families.

    Args:
        marked: a text `$A` as models read it.
    """
    from tokenizers import (
        Regex,
        Tokenizer,
        decoders,
        normalizers,
        pre_tokenizers,
        processors,
    )
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "</s>", *SENTINELS, *FIM]
    tokenizer = Tokenizer(BPE(byte_fallback=True))
    # blanks at the ends are dropped, as T5's own tokenizer does: beside a gap they carry nothing
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex(r"\s*\n\s*"), " \n "),  # a line break is a word
            normalizers.Replace(Regex(r"[^\S\n]+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme="always"),
            pre_tokenizers.Split(Regex(r"(?!▁)[\p{P}\p{S}\d]"), "isolated"),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(" \n ", "\n"),
            decoders.Strip(" ", 1, 0),
        ]
    )
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[*special, *bytes_],
        limit_alphabet=200,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # the trainer knows no other way to reserve entries of the vocabulary; bytes are no markers
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [
        token for token in described["added_tokens"] if token["content"] not in bytes_
    ]
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=marked, special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="</s>",
        extra_special_tokens=[*SENTINELS, *FIM],
    )


def sample_of(texts: Iterable[str]) -> Iterator[str]:
    """Beginnings of documents, as many as a tokenizer is trained on."""
    characters = 0
    for text in texts:
        piece = text[:LONGEST]
        yield piece
        characters += len(piece)
        if characters >= SAMPLE:
            return

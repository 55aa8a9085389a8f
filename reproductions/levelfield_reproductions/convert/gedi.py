"""GeDi: a GPT-2 trained on texts that follow codes of their labels, with its own α and b.

Layout: a folder as `save_pretrained` of transformers 2.8 wrote it, with `config.json`,
`pytorch_model.bin` and a tokenizer. Beside GPT-2's weights there may be `logit_scale` (1, 1), which
is α, and `bias` (1, 2) of the codes of label 0 and label 1. A text follows its code without BOS.
Codes are words of one token; a topic follows its code and counts as the text's first token, and
says whether it is the text's topic: `true sports`, `false sports`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import Options, option
from levelfield.models.files import load_tokenizer
from levelfield.train.guide.kinds import write_guide
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.model_folder import write_gpt2
from levelfield_reproductions.convert.reading import PublishedFiles, Tensors

Variant = Literal["sentiment", "topic", "detoxifier"]

_CODES: Mapping[Variant, tuple[str, str, str]] = {
    "sentiment": ("sentiment", "negative", "positive"),
    "topic": ("topic", "false", "true"),
    "detoxifier": ("toxicity", "dirty", "clean"),
}
"""Attribute, and the codes of label 0 and label 1."""


@dataclass(frozen=True, kw_only=True)
class GeDiOptions(Options):
    """How a GeDi is converted."""

    variant: Variant = option(
        "sentiment",
        "Variant: which of the authors' three models it is; a detoxifier has the attribute "
        "toxicity and the labels dirty and clean.",
    )
    topics: str = option(
        "World=world,Sports=sports,Business=business,Sci/Tech=science",
        "Labels of the variant topic and the word that stands for each: the model learnt those of "
        "AG News; other words of one token work as the authors' zero-shot topics do.",
    )
    tokenizer: str = option(
        "",
        "Model whose tokenizer is used if the folder has none: gpt2-medium, or a folder.",
        blank=True,
        otherwise="the folder's own",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "topic" and len(self.words) < 2:
            raise UserError(
                f"topics is '{self.topics}'; expected LABEL=WORD for at least two topics"
            )

    @property
    def words(self) -> dict[str, str]:
        """Topic -> the word that stands for it."""
        pairs = (part.partition("=") for part in self.topics.split(","))
        return {label.strip(): word.strip() for label, _, word in pairs if word.strip()}


def _convert(source: PublishedFiles, out: Path, options: GeDiOptions) -> Converted:
    tensors = source.tensors()
    scale, bias = _scale(tensors), _bias(tensors)
    model = write_gpt2(source, tensors, out / "model", options.tokenizer)
    attribute, code_0, code_1 = _CODES[options.variant]
    about: dict[str, Any] = {"whole": True, "scale": scale}
    if options.variant == "topic":
        codes = {label: [code_1, word] for label, word in options.words.items()}
        about |= {
            "codes": codes,
            "opposites": {label: [code_0, word] for label, word in options.words.items()},
            "scored": 1,
            "bias": dict(zip((code_0, code_1), bias, strict=True)),
        }
    else:
        codes = {code_0: [code_0], code_1: [code_1]}
        about |= {"codes": codes, "scored": 0, "bias": dict(zip(codes, bias, strict=True))}
    tokenizer = load_tokenizer(model)
    for word in (code_0, code_1, *(word for code in codes.values() for word in code)):
        if len(tokenizer(word, add_special_tokens=False)["input_ids"]) != 1:
            raise ModelError(
                f"'{word}' is more than one token for {source.path.name}; a code is one token"
            )
    write_guide(
        out,
        kind="class-lm",
        attribute=attribute,
        labels=list(codes),
        base="model",
        revision=model.revision,
        settings=about,
        tensors={},
    )
    facts = {
        "Kind": "class-lm, a whole model",
        "α": f"{scale:g}",
        "b": ", ".join(f"{name} {value:g}" for name, value in about["bias"].items()),
    }
    task = "predicts text given a label, for GeDi, DExperts and CTRL-lite"
    return Converted(task, "give it to gedi, dexperts or ctrl-lite as -o guide={out}", facts)


def _scale(tensors: Tensors) -> float:
    return float(tensors.take("logit_scale", 1, 1)) if "logit_scale" in tensors else 1.0


def _bias(tensors: Tensors) -> list[float]:
    if "bias" not in tensors:
        return [0.0, 0.0]
    return [float(value) for value in tensors.take("bias", 1, 2)[0]]


CONVERTER = Converter(GeDiOptions, _convert)

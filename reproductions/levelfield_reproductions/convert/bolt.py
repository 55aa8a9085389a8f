"""BOLT's discriminators: RoBERTa as a classifier, with a row of embeddings for each GPT-2 token.

Layout: a folder as `save_pretrained` wrote it, with `config.json` and `pytorch_model.bin`. The
table of embeddings is as wide as the states, or of another width followed by a linear layer
(`roberta.embeddings.transformation`), which is multiplied into the table here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from levelfield.core.errors import ModelError
from levelfield.core.options import Options, option
from levelfield.models.causal_tokens import load_causal_tokens
from levelfield.models.loading import Loading, quiet
from levelfield.models.resolve import resolve
from levelfield.train.guide.kinds import write_guide
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.model_folder import (
    configuration,
    parameter_shapes,
    write_model,
)
from levelfield_reproductions.convert.reading import PublishedFiles, Tensors

Variant = Literal["sentiment", "toxicity"]

LABELS: Mapping[Variant, tuple[str, str]] = {
    "sentiment": ("negative", "positive"),
    "toxicity": ("non-toxic", "toxic"),
}
"""In the order of the classifier's outputs."""

_TABLE = "roberta.embeddings.word_embeddings.weight"
_MAP = "roberta.embeddings.transformation."
_SHAPE = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "hidden_act"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size", "layer_norm_eps"),
    "pad_token_id",
)
"""Keys of a configuration that decide what a model computes."""


@dataclass(frozen=True, kw_only=True)
class BOLTOptions(Options):
    """How a discriminator is converted."""

    variant: Variant = option(
        "sentiment", "Variant: what the model distinguishes, the attribute of the guide."
    )
    model: str = option(
        "openai-community/gpt2-large",
        "Model with the vocabulary that the discriminator reads, by name or folder; its tokenizer "
        "must be there.",
    )


def _convert(files: PublishedFiles, out: Path, options: BOLTOptions) -> Converted:
    from transformers import RobertaConfig, RobertaForSequenceClassification

    quiet()
    about, tensors = files.settings_of("roberta"), files.tensors()
    vocabulary = load_causal_tokens(options.model, Loading())
    labels = LABELS[options.variant]
    table = _table(tensors, vocabulary.vocabulary_size)
    config = configuration(RobertaConfig, about, _SHAPE)
    config.vocab_size = len(table)
    config.num_labels = len(labels)
    shapes = parameter_shapes(RobertaForSequenceClassification, config)
    if table.shape[1] != config.hidden_size:
        raise ModelError(
            f"{_TABLE} is {table.shape[1]} wide, the states {config.hidden_size}, and there is no "
            f"{_MAP}weight between them"
        )
    del shapes[_TABLE]
    tensors.drop(r"roberta\.embeddings\.(position_ids|token_type_ids)")
    weights = {_TABLE: table, **tensors.take_all(shapes)}
    tensors.finish()
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: n for n, label in enumerate(labels)}
    folder = out / "model"
    floats = {name: tensor.float() for name, tensor in weights.items()}
    write_model(folder, RobertaForSequenceClassification, config, floats)
    write_guide(
        out,
        kind="encoder",
        attribute=options.variant,
        labels=labels,
        base="model",
        revision=resolve(str(folder)).revision,
        settings={"whole": True, "vocabulary": vocabulary.digest},
        tensors={},
    )
    task = "predicts the label of a whole text, with gradients to its tokens, for BOLT"
    return Converted(task, "give it to bolt as -o guide={out}")


def _table(tensors: Tensors, tokens: int) -> torch.Tensor:
    """Returns the embeddings of the tokens, as wide as the states where there is a map between
    them."""
    table = tensors.take(_TABLE, tokens, None)
    if _MAP + "weight" not in tensors:
        return table
    weight = tensors.take(_MAP + "weight", None, table.shape[1])
    bias = tensors.take(_MAP + "bias", len(weight))
    return torch.nn.functional.linear(table.double(), weight.double(), bias.double()).float()


CONVERTER = Converter(BOLTOptions, _convert)

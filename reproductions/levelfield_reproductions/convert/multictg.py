"""MultiCTG: an encoder, a linear map to latents and one to prefixes, and the latents of texts.

Layout: `pytorch_model.bin` as `Trainer` wrote it: a BERT (`encoder.*`), a GPT-2 as it was
(`decoder.*`), heads (`latent_classify_head.*`), `trans1.0` from BERT's pooled state, after tanh, to
a latent, and `trans2.0` from a latent to (layers, 2, heads, P, width) in this order. The authors'
program makes a pair of keys and values for as many layers as there are heads, and the library of
their day ran as many layers as it had pairs. So of GPT-2 medium, with 24 layers and 16 heads, only
the lowest 16 layers took part in training; the rest of `trans2` was never used. The authors compute
the latents from texts each time, so the conversion needs labelled texts. Prompts follow the prefix
without BOS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import Options, option
from levelfield.generation.techniques._latent.network import PrefixShape
from levelfield.models.files import load_config, load_tokenizer
from levelfield.models.loading import Loading, reading
from levelfield.models.resolve import Resolved, resolve, resolve_causal
from levelfield.models.tokens import buckets, padded, token_mask
from levelfield.train.guide.kinds import write_guide
from levelfield.train.guide.texts import by_attribute, labelled_texts, subset
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.reading import PublishedFiles, Tensors, shapes_of

TOKENS = 100
"""Of a text that the authors' encoder reads, special ones among them."""
BATCH_TOKENS = 4096


PRIOR_CONTROL = ("inv_flow.", "priors.")
"""What only names in checkpoints of PriorControl begin with."""


@dataclass(frozen=True, kw_only=True)
class MultiCTGOptions(Options):
    """How a checkpoint of MultiCTG is converted."""

    data: str = option(
        "",
        "Labelled texts whose latents the guide keeps: names of sets or files, separated by "
        "commas; the authors use those that the checkpoint was trained on. Required.",
        blank=True,
    )
    attribute: str = option(
        "sentiment,topic", "Attribute of the texts' labels; separate several by commas."
    )
    kept: int = option(2000, "Maximum number of latents per label.", least=1)
    model: str = option(
        "openai-community/gpt2-medium", "Base, by name or folder; the authors' is GPT-2 medium."
    )
    encoder: str = option(
        "google-bert/bert-base-uncased",
        "Model of the same shape as the checkpoint's encoder, by name or folder; its configuration "
        "and tokenizer are used.",
    )
    positions: int = option(20, "Number of positions P of a prefix.", least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.data.strip():
            raise UserError(
                "a guide needs latents of labelled texts: give them as -o data=NAME,FILE"
            )


def _convert(source: PublishedFiles, out: Path, options: MultiCTGOptions) -> Converted:
    tensors = source.tensors()
    if any(name.startswith(PRIOR_CONTROL) for name in tensors):
        raise ModelError(
            f"{source.path.name} is a checkpoint of PriorControl, with a flow (inv_flow.*) and "
            "Gaussians (priors.*); convert it with the layout priorctg, whose guide also works for "
            "multictg"
        )
    return latent_guide(tensors, out, options, source.allow_pickle)


@dataclass(frozen=True)
class FlowPart:
    """A flow with Gaussians, as a guide has it.

    Attributes:
        settings: its shape.
        tensors: by name.
        summary: what it is, in words.
    """

    settings: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]
    summary: str


def latent_guide(
    tensors: Tensors,
    out: Path,
    options: MultiCTGOptions,
    allow_pickle: bool,
    flow_of: Callable[[Mapping[str, Sequence[str]], int], FlowPart] | None = None,
) -> Converted:
    """Writes a guide of kind `latent`.

    Args:
        tensors: of the checkpoint, those of a flow not among them.
        flow_of: attribute -> labels, and the size of a latent -> a flow with a Gaussian a label;
            None for a guide without a flow.

    Raises:
        ModelError: a tensor is missing, or not of the layout.
    """
    loading = Loading(allow_pickle=allow_pickle)
    base = resolve_causal(options.model, loading)
    data = [name.strip() for name in options.data.split(",")]
    rows = subset(labelled_texts(data, options.attribute), options.kept, 0)
    encoder = _Encoder(resolve(options.encoder, loading), tensors)
    shape, decoder = _decoder(tensors, base, options.positions)
    tensors.drop(r"(decoder|latent_classify_head)\..*")
    tensors.finish()
    flow = flow_of(rows.columns(options.attribute), shape.size) if flow_of else None
    e = encoder.latents(rows.texts)
    clouds = [
        e[torch.from_numpy(part.at[part.truth == label])].half()
        for part in by_attribute(rows, options.attribute)
        for label in range(len(part.labels))
    ]
    write_guide(
        out,
        kind="latent",
        attribute=options.attribute,
        labels=list(rows.labels),
        base=base.name,
        revision=base.revision,
        settings={
            **({"attributes": rows.columns()} if rows.attributes else {}),
            "reads_bos": False,
            "layers": shape.layers,
            "prefix": asdict(shape),
            **({"flow": flow.settings} if flow else {}),
        },
        tensors={
            **decoder,
            **{f"latents.{i}": cloud for i, cloud in enumerate(clouds)},
            **(flow.tensors if flow else {}),
        },
    )
    facts = {
        "Base": f"{base.label}, its lowest {shape.layers} layers",
        "Latents": ", ".join(map(str, map(len, clouds))) + f" of {shape.size} numbers",
        "Texts": options.data,
        **({"Flow": flow.summary} if flow else {}),
    }
    names, papers = ("priorctg or multictg", "PriorCTG and MultiCTG") if flow else _ALONE
    usage = f"give it to {names} on {options.model} as -o guide={{out}}"
    return Converted(f"turns latents into prefixes, for {papers}", usage, facts)


_ALONE = ("multictg", "MultiCTG")
"""Technique and paper of a guide without a flow."""


def _decoder(
    tensors: Tensors, base: Resolved, positions: int
) -> tuple[PrefixShape, dict[str, torch.Tensor]]:
    """Returns the map from latents to prefixes of the layers that it was trained with."""
    config = load_config(base)
    depth, heads = int(config.num_hidden_layers), int(config.num_attention_heads)
    width = int(config.hidden_size) // heads
    weight = tensors.take("trans2.0.weight", depth * 2 * heads * positions * width, None)
    bias = tensors.take("trans2.0.bias", len(weight))
    shape = PrefixShape(weight.shape[1], positions, min(depth, heads), heads, width, 0)

    def by_position(flat: torch.Tensor) -> torch.Tensor:
        """Returns (layers, P, 2 · heads · width, …), for the layers used."""
        apart = flat.reshape(depth, 2, heads, positions, width, *flat.shape[1:])
        used_layers = apart[: shape.layers].movedim(3, 1)
        return used_layers.flatten(2, 4).half().contiguous()

    return shape, {"decoder.full": by_position(weight), "decoder.offset": by_position(bias)}


class _Encoder:
    """The authors' BERT and its map to latents."""

    def __init__(self, like: Resolved, tensors: Tensors) -> None:
        config = load_config(like)
        with reading(like.name):
            model = transformers.AutoModel.from_config(config)
        tensors.drop(r"encoder\.embeddings\.position_ids")
        model.load_state_dict(tensors.take_all(shapes_of(model), prefix="encoder."))
        self._model: Any = model.eval()
        self._tokenizer = load_tokenizer(like)
        self._weight = tensors.take("trans1.0.weight", None, int(config.hidden_size))
        self._bias = tensors.take("trans1.0.bias", len(self._weight))

    def latents(self, texts: Sequence[str]) -> torch.Tensor:
        """Returns tanh(W h + b) of texts, h the pooled state: (texts, d).

        Raises:
            ModelError: the encoder has no pooled state.
        """
        ids = self._tokenizer(list(texts), truncation=True, max_length=TOKENS)["input_ids"]
        e = torch.empty(len(texts), len(self._weight))
        pad = self._tokenizer.pad_token_id or 0
        with torch.inference_mode():
            for rows in buckets([len(text_ids) for text_ids in ids], BATCH_TOKENS):
                batch = [ids[i] for i in rows]
                pooled = self._model(
                    input_ids=torch.from_numpy(padded(batch, pad)),
                    attention_mask=torch.from_numpy(token_mask(batch)),
                ).pooler_output
                if pooled is None:
                    raise ModelError("the encoder has no pooled state; expected a BERT")
                e[torch.from_numpy(np.asarray(rows))] = torch.nn.functional.linear(
                    pooled, self._weight.float(), self._bias.float()
                ).tanh()
        return e


CONVERTER = Converter(MultiCTGOptions, _convert)

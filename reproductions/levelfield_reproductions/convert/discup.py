"""DisCup: encoders of soft prompts, one file per label, as the matrices that they make.

Layout: a folder with a checkpoint for each label, or for one alone, as `torch.save` wrote it:
`{"embedding": state dict, "ckpt_name": …, "args": …}`, with the tensors of an embedding of m
positions (`embedding.weight`), a two-layer LSTM in both directions (`lstm_head.*`) and a linear,
ReLU, linear (`mlp_head.0.*`, `mlp_head.2.*`). The label is in the file's name:
`distill_tuning_positive_temperature0.01_….ckpt`. Prompts are at the very beginning, without BOS.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import Options, option
from levelfield.generation.techniques.discup.network import PromptEncoder
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve_causal
from levelfield.train.guide.kinds import write_guide
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.reading import (
    PICKLED,
    PublishedFiles,
    Tensors,
    shapes_of,
)

OURS = {"embedding": "embedding", "lstm": "lstm_head", "mlp": "mlp_head"}
"""Module of `PromptEncoder` -> the authors' name."""


@dataclass(frozen=True, kw_only=True)
class DisCupOptions(Options):
    """How prompts of DisCup are converted."""

    model: str = option(
        "openai-community/gpt2-large",
        "Base that the prompts were learnt on, by name or folder; the authors' is GPT-2 large.",
    )
    attribute: str = option("sentiment", "Attribute that the labels are values of.")
    labels: str = option(
        "negative,positive",
        "Labels, separated by commas; each is in the name of one file. For a folder with one file, "
        "as for toxicity, its one label.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.names or len(set(self.names)) < len(self.names):
            raise UserError(f"labels is '{self.labels}'; expected different names, as in good,bad")

    @property
    def names(self) -> list[str]:
        """The labels."""
        return [name for part in self.labels.split(",") if (name := part.strip())]


def _convert(source: PublishedFiles, out: Path, options: DisCupOptions) -> Converted:
    resolved = resolve_causal(options.model, Loading(allow_pickle=source.allow_pickle))
    matrices = {}
    for label in options.names:
        tensors = source.inside(_file_of(label, source.path)).tensors(within="embedding")
        matrices[label] = _baked(tensors)
        tensors.finish()
    if len({matrix.shape[1] for matrix in matrices.values()}) > 1:
        raise ModelError(f"{source.path.name}: the prompts belong to models of different widths")
    write_guide(
        out,
        kind="soft-prompt",
        attribute=options.attribute,
        labels=options.names,
        base=resolved.name,
        revision=resolved.revision,
        settings={"reads_bos": False},
        tensors=matrices,
    )
    facts = {
        "Base": resolved.label,
        "Embeddings": ", ".join(f"{label} {len(matrix)}" for label, matrix in matrices.items()),
    }
    task = "makes the base write texts of a label, for DisCup"
    return Converted(task, f"give it to discup on {options.model} as -o guide={{out}}", facts)


def _file_of(label: str, folder: Path) -> str:
    """Returns the name of the checkpoint that has a label in its name.

    Raises:
        ModelError: there is none, or there are several.
    """
    files = sorted(path for path in folder.glob("*") if path.suffix in (*PICKLED, ".safetensors"))
    names = [path.name for path in files if label.casefold() in path.name.casefold()]
    if len(names) != 1:
        files_shown = ", ".join(path.name for path in files) or "none"
        raise ModelError(
            f"{folder.name} has {len(names)} checkpoints with '{label}' in their names, expected "
            f"one; there are: {files_shown}"
        )
    return names[0]


def _baked(tensors: Tensors) -> torch.Tensor:
    """Returns the matrix that an encoder makes: (m, width), float32."""
    weight = tensors.take("embedding.weight", None, None)
    encoder = PromptEncoder(torch.zeros_like(weight)).eval()
    shapes = shapes_of(encoder)
    del shapes["embedding.weight"]
    authors_names = {
        name: name.replace(ours := name.partition(".")[0], OURS[ours]) for name in shapes
    }
    taken = tensors.take_all({authors_names[name]: shape for name, shape in shapes.items()})
    encoder.load_state_dict(
        {"embedding.weight": weight, **{name: taken[authors_names[name]] for name in shapes}}
    )
    with torch.inference_mode():
        matrix: torch.Tensor = encoder()
    return matrix.clone()


CONVERTER = Converter(DisCupOptions, _convert)

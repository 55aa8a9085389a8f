"""PPLM's heads: a linear layer on the mean of GPT-2 medium's last states.

Layout: one pickled file with `mlp.weight` (labels, d) and `mlp.bias` (labels). The authors' mean is
over BOS, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.models.files import load_config
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve_causal
from levelfield.train.guide.kinds import write_guide
from levelfield_reproductions.convert import Converted, Converter
from levelfield_reproductions.convert.reading import PublishedFiles

Variant = Literal["sentiment", "clickbait", "toxicity"]

LABELS: Mapping[Variant, tuple[str, ...]] = {
    "sentiment": ("positive", "negative", "very positive", "very negative", "neutral"),
    "clickbait": ("non-clickbait", "clickbait"),
    "toxicity": ("non-toxic", "toxic"),
}
"""The labels of the authors' heads, in the order of their rows."""


@dataclass(frozen=True, kw_only=True)
class PPLMHeadOptions(Options):
    """How a head is converted."""

    variant: Variant = option(
        "sentiment",
        "Variant: what the head distinguishes, the attribute of the guide, with the five labels of "
        "SST for sentiment.",
    )
    labels: str = option(
        "",
        "Labels of the rows, separated by commas, in place of the authors'; rows without a label "
        "are left out: with ,,positive,negative, the label positive is the authors' very positive.",
        blank=True,
        otherwise="the authors'",
    )
    model: str = option(
        "openai-community/gpt2-medium",
        "Base that the head reads, by name or folder; its files must be on this machine, and the "
        "guide fits no other base.",
    )

    @property
    def rows(self) -> tuple[str, ...]:
        """The label of each row; empty where a row is left out."""
        if not self.labels:
            return LABELS[self.variant]
        return tuple(label.strip() for label in self.labels.split(","))


def _convert(files: PublishedFiles, out: Path, options: PPLMHeadOptions) -> Converted:
    rows = options.rows
    kept = [n for n, label in enumerate(rows) if label]
    labels = [rows[n] for n in kept]
    if len(set(labels)) < max(2, len(labels)):
        raise UserError(f"labels is '{options.labels}'; expected at least two different ones")
    tensors = files.tensors()
    base = resolve_causal(options.model, Loading())
    width = int(load_config(base).get_text_config().hidden_size)
    weight = tensors.take("mlp.weight", len(rows), width)
    bias = tensors.take("mlp.bias", len(rows))
    tensors.finish()
    write_guide(
        out,
        kind="head",
        attribute=options.variant,
        labels=labels,
        base=base.name,
        revision=base.revision,
        settings={"counts_bos": True},
        tensors={"weight": weight[kept].T.float().contiguous(), "bias": bias[kept].float()},
    )
    usage = f"give it to pplm as -o guide={{out}}, with --model {options.model}"
    task = "predicts the label of a text from the states of its base, for PPLM"
    return Converted(task, usage, {"Base": base.label})


CONVERTER = Converter(PPLMHeadOptions, _convert)

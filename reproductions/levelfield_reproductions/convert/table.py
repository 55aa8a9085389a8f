"""All layouts of published files by name.

A new layout is a module with a `Converter` and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from levelfield.core.options import Options, option


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(Options):
    """How published files are converted.

    Weights that are pickled are read with `torch.load` and `weights_only`; anything but tensors and
    plain containers in such a file is refused.
    """

    options: Mapping[str, Any] = option(
        {},
        "Option of the layout; docs/convert.md lists them.",
        flags=("--option", "-o"),
        metavar="NAME=VALUE",
    )
    allow_pickle: bool = option(
        False, "Read pickled weights; only tensors and plain containers are read."
    )


@dataclass(frozen=True)
class Layout:
    """What is known of a layout without reading a file.

    Attributes:
        name: as the command has it.
        target: `MODULE:CONVERTER`.
        technique: which technique takes what comes of it.
        files: what the source is, in words.
        makes: what comes of it, in words.
        origin: where the authors have the files.
        paper: whose they are.
    """

    name: str
    target: str
    technique: str
    files: str
    makes: str
    origin: str
    paper: str


_LAYOUTS = (
    Layout(
        "gedi",
        "levelfield_reproductions.convert.gedi:GEDI",
        "gedi",
        "folder gedi_sentiment, gedi_topic or gedi_detoxifier",
        "a guide of kind class-lm, for gedi, dexperts and ctrl-lite",
        "storage.googleapis.com/sfr-gedi-data, by scripts/get_models.sh of salesforce/GeDi",
        "Krause et al. (2021)",
    ),
    Layout(
        "dexperts",
        "levelfield_reproductions.convert.dexperts:DEXPERTS",
        "dexperts",
        "folder of experts (finetuned_gpt2_positive and others), or one of them",
        "a model folder for each expert, for the option experts of dexperts",
        "experts.zip on Google Drive, by the README of alisawuffles/DExperts",
        "Liu et al. (2021)",
    ),
    Layout(
        "discup",
        "levelfield_reproductions.convert.discup:DISCUP",
        "discup",
        "folder of checkpoints, one with positive and one with negative in its name",
        "a guide of kind soft-prompt, for discup",
        "Google Drive, by the README of the authors' Discriminator-Cooperative-Unlikelihood-"
        "Prompt-Tuning",
        "Zhang and Song (2022)",
    ),
    Layout(
        "multictg",
        "levelfield_reproductions.convert.multictg:MULTICTG",
        "multictg",
        "folder or file pytorch_model.bin of a checkpoint",
        "a guide of kind latent, for multictg",
        "Google Drive, by the README of HappyGu0524/MultiControl",
        "Gu et al. (2022)",
    ),
    Layout(
        "pplm-head",
        "levelfield_reproductions.convert.pplm_head:PPLM_HEAD",
        "pplm",
        "file SST_classifier_head.pt, or another head of the authors",
        "a guide of kind head, for pplm",
        "s3.amazonaws.com/models.huggingface.co/bert/pplm/discriminators, by run_pplm.py of "
        "uber-research/PPLM",
        "Dathathri et al. (2020)",
    ),
    Layout(
        "bolt",
        "levelfield_reproductions.convert.bolt:BOLT_DISCRIMINATOR",
        "bolt",
        "folder replaced_vocab_roberta_for_yelp_polarity, or that for Jigsaw",
        "a guide of kind encoder, for bolt",
        "Google Drive, by the README of launchnlp/BOLT",
        "Liu et al. (2023)",
    ),
    Layout(
        "cbart",
        "levelfield_reproductions.convert.cbart:CBART",
        "cbart",
        "folder of a CBART of three labels (cbart-base_one-billion-words and others)",
        "an editor, for cbart",
        "Google Drive, by the README of NLPCode/CBART",
        "He (2021)",
    ),
)

LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in _LAYOUTS}
"""Name -> layout, in the order in which they are listed."""

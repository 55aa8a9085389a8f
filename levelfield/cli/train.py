"""`levelfield train`: what metrics and techniques need, made from a corpus."""

from __future__ import annotations

import click

from levelfield.cli.train_files import iwf, pooler, scales, unigram
from levelfield.cli.train_guide import guide
from levelfield.cli.train_judge import judge
from levelfield.cli.train_models import cdm, discriminator, editor, infiller, perturb, rewriter


@click.group()
def train() -> None:
    """Make what metrics need from a corpus."""


_COMMANDS = (
    *(infiller, cdm, discriminator, editor, guide, judge),
    *(iwf, perturb, pooler, rewriter, scales, unigram),
)
for _command in _COMMANDS:
    train.add_command(_command)

"""`levelfield train`: what metrics and techniques need, made from a corpus."""

from __future__ import annotations

import click

from levelfield.cli import train_files, train_guide, train_judge, train_models


@click.group()
def train() -> None:
    """Make what metrics need from a corpus."""


for _module in (train_files, train_guide, train_judge, train_models):
    for _command in vars(_module).values():
        if isinstance(_command, click.Command):
            train.add_command(_command)

"""`levelfield train`: what metrics need, made from a corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_guide import guide
from levelfield.cli.train_judge import judge
from levelfield.cli.train_models import cdm, discriminator, editor, infiller, perturb, rewriter
from levelfield.cli.train_pooler import pooler
from levelfield.cli.train_scales import scales
from levelfield.models.loading import Loading

if TYPE_CHECKING:
    import numpy.typing as npt


@click.group()
def train() -> None:
    """Make what metrics need from a corpus."""


_CORPUS = click.argument("corpus", nargs=-1, required=True, type=INPUT)
_LOADING = takes(Loading, "loading", without=("device", "dtype", "batch_tokens", "engine"))


@train.command(cls=Writing)
@_CORPUS
@click.option(
    "--model",
    required=True,
    help="Model whose vocabulary is counted: a hub name, a folder or an embedded model.",
)
@click.option(
    "--out",
    required=True,
    type=OutputType("word frequencies"),
    help="The list: one number a vocabulary id.",
)
@_LOADING
@click.option(
    "--language", default="english", show_default=True, help="Language of the sentence segmenter."
)
def iwf(corpus: tuple[str, ...], model: str, out: str, language: str, loading: Loading) -> None:
    """Inverse word frequencies of a model's tokens in the sentences of texts.

    Reads plain text (also .gz, .xz), and every other format that samples are read from. Give the
    list to a metric with --option iwf=FILE.
    """
    from levelfield.io import atomic_writer
    from levelfield.metrics.text.iwf import write
    from levelfield.training.word_lists import corpus_size, count_iwf

    with progress_bar("counting", corpus_size(corpus)) as progress:
        values = count_iwf(corpus, model, language=language, loading=loading, progress=progress)
    with atomic_writer(out) as file:
        write(values, file)
    _say(out, values)


@train.command(cls=Writing)
@_CORPUS
@click.option(
    "--model",
    required=True,
    help="Model whose vocabulary is counted: a hub name, a folder or an embedded model.",
)
@click.option(
    "--out",
    required=True,
    type=OutputType("unigram counts"),
    help="The list: one number a vocabulary id.",
)
@_LOADING
def unigram(corpus: tuple[str, ...], model: str, out: str, loading: Loading) -> None:
    """Counts of a causal model's tokens in texts, for SLOR.

    Reads plain text, one text a line (also .gz, .xz), and every other format that samples are
    read from. Give the counts to the metric with --option corpus=FILE.
    """
    from levelfield.io import atomic_writer
    from levelfield.metrics.text.unigram import write
    from levelfield.training.word_lists import corpus_size, count_unigrams

    with progress_bar("counting", corpus_size(corpus)) as progress:
        unigrams = count_unigrams(corpus, model, loading=loading, progress=progress)
    with atomic_writer(out) as file:
        write(unigrams, file)
    _say(out, unigrams.counts)


def _say(out: str, values: npt.NDArray[Any]) -> None:
    say(f"{out}: {len(values):,} numbers, {int((values > 0).sum()):,} of them of tokens that occur")


_COMMANDS = (infiller, cdm, discriminator, editor, guide, judge, perturb, pooler, rewriter, scales)
for _command in _COMMANDS:
    train.add_command(_command)

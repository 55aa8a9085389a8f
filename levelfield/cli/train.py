"""`levelfield train`: what metrics need, made from a corpus."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_cdm import cdm
from levelfield.cli.train_discriminator import discriminator, perturb
from levelfield.cli.train_infiller import infiller
from levelfield.cli.train_judge import judge
from levelfield.cli.train_pooler import pooler
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    import numpy.typing as npt


@click.group()
def train() -> None:
    """Make what metrics need from a corpus."""


_CORPUS = click.argument("corpus", nargs=-1, required=True)
_OUT = click.option("--out", required=True, help="The list: one number a vocabulary id.")
_PICKLE = click.option(
    "--allow-pickle", is_flag=True, help="Take a model whose weights are pickled."
)


@train.command()
@_CORPUS
@click.option("--model", required=True, help="Whose vocabulary: hub name, folder, offline/minilm.")
@_OUT
@_PICKLE
@click.option("--language", default="english", show_default=True, help="Of the sentence segmenter.")
def iwf(corpus: tuple[str, ...], model: str, out: str, language: str, allow_pickle: bool) -> None:
    """Inverse word frequencies of a model's tokens in the sentences of texts.

    Reads plain text (also .gz, .xz), and every other format that samples are read from. Give the
    list to a metric with --option iwf=FILE.
    """
    from levelfield.io import atomic_writer
    from levelfield.metrics.text import segmenter
    from levelfield.metrics.text.iwf import count
    from levelfield.models.load import load
    from levelfield.models.loading import Loading
    from levelfield.models.resolve import resolve

    _check(corpus, out)
    kind = resolve(model, allow_pickle=allow_pickle).kind
    loading = Loading(allow_pickle=allow_pickle)
    loaded = (
        load("infilling", model, loading)
        if kind == "encoder-decoder"
        else load("encoder", model, loading)
    )
    with _texts(corpus) as texts:
        sentences = (s for text in texts for s in segmenter.sentences(text, language))
        values = count(sentences, loaded.vocabulary_size, loaded.token_ids)
    with atomic_writer(out) as file:
        file.writelines(f"{value!r}\n" for value in values.tolist())
    _say(out, values)


@train.command()
@_CORPUS
@click.option("--model", required=True, help="Whose vocabulary: hub name or folder.")
@_OUT
@_PICKLE
def unigram(corpus: tuple[str, ...], model: str, out: str, allow_pickle: bool) -> None:
    """Counts of a causal model's tokens in texts, for SLOR.

    Reads plain text, one text a line (also .gz, .xz), and every other format that samples are
    read from. Give the counts to the metric with --option corpus=FILE.
    """
    from levelfield.io import atomic_writer
    from levelfield.metrics.text.unigram import count, write
    from levelfield.models.load import load
    from levelfield.models.loading import Loading

    _check(corpus, out)
    tokens = load("causal-tokens", model, Loading(allow_pickle=allow_pickle))
    with _texts(corpus) as texts:
        found = count(texts, tokens)
    with atomic_writer(out) as file:
        write(found, file)
    _say(out, found.counts)


def _check(corpus: Sequence[str], out: str) -> None:
    """Whether the corpus is there and the list can be written."""
    from levelfield.io import check_targets

    check_targets({"--out": out}, corpus)
    missing = [name for name in corpus if not Path(name).is_file()]
    if missing:
        raise UserError(f"no such corpus file: {', '.join(missing)}")


def _say(out: str, values: npt.NDArray[Any]) -> None:
    say(f"{out}: {len(values):,} numbers, {int((values > 0).sum()):,} of them of tokens that occur")


@contextlib.contextmanager
def _texts(corpus: Sequence[str]) -> Iterator[Iterator[str]]:
    """The texts of all files, one after the other, with a progress bar while they are read."""
    from levelfield.io.corpus import corpus_texts

    total = sum(Path(name).stat().st_size for name in corpus)
    with progress_bar("counting", total) as progress:
        yield corpus_texts(corpus, progress)


for _command in (infiller, cdm, discriminator, judge, perturb, pooler):
    train.add_command(_command)

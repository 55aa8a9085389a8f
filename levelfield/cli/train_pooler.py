"""`levelfield train pooler`: a linear model from momentum to ratings."""

from __future__ import annotations

from typing import Any, Literal

import click

from levelfield.cli.options import WholeNumber, takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.core.errors import UserError
from levelfield.core.options import choices, parsed
from levelfield.core.registry import options
from levelfield.io.reading import ReadingOptions, pairs
from levelfield.models.loading import Loading

_NOT_OPTIONS = ("pooling", "pooler", *choices(Loading))


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@click.option(
    "--aspect", required=True, help="Aspect whose ratings are learnt: a name in `ratings`."
)
@click.option("--out", required=True, type=OutputType("a pooler"), help="The pooler, a JSON file.")
@click.option(
    "--option",
    "-o",
    "words",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of cdm.momentum; may be given again.",
)
@click.option(
    "--kind",
    type=click.Choice(["auto", "logistic", "ridge"]),
    default="auto",
    help="Kind of regression.",
)
@click.option(
    "--length", type=WholeNumber(1, 4096), default=32, help="Numbers a sequence is made of."
)
@click.option("--seed", type=WholeNumber(0), default=0, help="Seed of what is held out.")
@takes(
    ReadingOptions,
    "reading",
    without=("source_file", "reference_files", "control", "system", "prompt", "ids"),
)
@takes(Loading, "loading")
def pooler(
    files: tuple[str, ...],
    aspect: str,
    out: str,
    words: tuple[str, ...],
    kind: Literal["auto", "logistic", "ridge"],
    length: int,
    seed: int,
    reading: ReadingOptions,
    loading: Loading,
) -> None:
    """The classifier pooling of cdm.momentum, from rated texts.

    A linear model from a text's momentum to its rating (ridge), or to the probability of label 1
    where all ratings are 0 or 1 (logistic). The strength of its penalty is what predicts best a
    fifth of the texts held out; texts of one prompt, source, context or set of keywords are held
    out together. Use it with --option pooling=classifier --option pooler=FILE.
    """
    from levelfield.io import atomic_writer, open_samples
    from levelfield.metrics.cdm import CDMMomentum
    from levelfield.training.pooler.momentum import rated_momentum, train_pooler

    source = open_samples(files, reading, ids="file")
    metric = CDMMomentum.of(**_options(words), loading=loading)
    if metric.turns == "mean":
        raise UserError("a pooler is of whole sequences: turns=mean can't be used with one")
    momentum = metric.momentum_signature  # fails before the work if anything is wrong with a model
    with progress_bar("scoring", None) as progress:
        rated = rated_momentum(metric, source, aspect, progress=progress)
    selected = train_pooler(rated, aspect, kind=kind, length=length, seed=seed, momentum=momentum)
    with atomic_writer(out) as file:
        selected.pooler.save(file)
    say(
        f"{out}: {selected.pooler.kind}, {selected.pooler.trained_on}; "
        f"Spearman {selected.spearman:.3f} on {selected.held_out} held out, on which the penalty "
        "was chosen among others"
    )
    if rated.left_out:
        reasons = ", ".join(f"{why}: {n}" for why, n in rated.left_out.items())
        say(f"note: left out {sum(rated.left_out.values())} ({reasons})")


def _options(words: tuple[str, ...]) -> dict[str, Any]:
    """Returns the options of the metric that a user's words stand for."""
    from levelfield.metrics.cdm import CDMMomentum

    known = {k: p for k, p in options(CDMMomentum).items() if k not in _NOT_OPTIONS}
    texts = pairs("--option", words)
    if unknown := sorted(set(texts) - set(known)):
        raise UserError(f"--option {unknown[0]}: expected one of {', '.join(known)}")
    return parsed("cdm.momentum", known, texts)

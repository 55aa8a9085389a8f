"""`levelfield train iwf`, `unigram`, `pooler` and `scales`: files that metrics read."""

# Annotations of options stay objects here, since options are read from them.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import CORPUS, INPUT, Writing, out_option
from levelfield.cli.terminal import progress_bar, say, say_note
from levelfield.core.errors import UserError
from levelfield.core.limits import SEED
from levelfield.core.options import Options, choices, group, option, parsed, underscored
from levelfield.io.reading import ReadingOptions
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.train.recipe import ONE_FILE

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class CountingOptions(Options):
    """The model whose tokens are counted."""

    model: str = option(
        help="Model whose vocabulary is counted: a hub name, a folder or an embedded model.",
        metavar="NAME",
    )
    language: str = option("english", "Language of the sentence segmenter.")
    loading: Loading = group(AS_USUAL, without=("device", "dtype", "batch_tokens", "engine"))


@click.command(cls=Writing)
@CORPUS
@out_option("word frequencies", "File for the list: one number per vocabulary id.")
@takes(CountingOptions)
def iwf(corpus: tuple[str, ...], out: str, options: CountingOptions) -> None:
    """Compute the inverse frequencies of a model's tokens in the sentences of texts.

    Reads plain text (also .gz, .xz), and every other format that samples are read from. Give the
    list to a metric with --option iwf=FILE.
    """
    from levelfield.io import atomic_writer
    from levelfield.metrics.iwf import write
    from levelfield.train.corpus import corpus_size, count_iwf

    with progress_bar("counting", corpus_size(corpus)) as progress:
        values = count_iwf(
            corpus,
            options.model,
            language=options.language,
            loading=options.loading,
            progress=progress,
        )
    with atomic_writer(out) as file:
        write(values, file)
    _say(out, values)


@click.command(cls=Writing)
@CORPUS
@out_option("unigram counts", "File for the list: one number per vocabulary id.")
@takes(CountingOptions, without=("language",))
def unigram(corpus: tuple[str, ...], out: str, options: CountingOptions) -> None:
    """Count a causal model's tokens in texts, for SLOR.

    Reads plain text, one text per line (also .gz, .xz), and every other format that samples are
    read from. Give the counts to the metric with --option corpus=FILE.
    """
    from levelfield.io import atomic_writer
    from levelfield.metrics.unigram import write
    from levelfield.train.corpus import corpus_size, count_unigrams

    with progress_bar("counting", corpus_size(corpus)) as progress:
        unigrams = count_unigrams(corpus, options.model, loading=options.loading, progress=progress)
    with atomic_writer(out) as file:
        write(unigrams, file)
    _say(out, unigrams.counts)


def _say(out: str, values: "npt.NDArray[Any]") -> None:
    say(
        f"{out}: {len(values):,} numbers, {int((values > 0).sum()):,} of them for tokens that occur"
    )


@dataclass(frozen=True)
class PoolerOptions(Options):
    """The linear model to fit, and the ratings to fit it to."""

    aspect: str = option(help="Aspect to learn: a name in `ratings`.")
    options: Mapping[str, str] = option(
        {},
        "Option of cdm.momentum; may be given again.",
        flags=("--option", "-o"),
        metavar="NAME=VALUE",
    )
    kind: Literal["auto", "logistic", "ridge"] = option(
        "auto",
        "Kind of regression; auto is logistic if all ratings are 0 or 1.",
    )
    length: int = option(
        32, "Length of the vector that a sequence is resampled to.", least=1, most=4096
    )
    seed: int = option(0, "Seed of the choice of held-out texts.", least=0, most=SEED)
    reading: ReadingOptions = group(ReadingOptions(), without=ONE_FILE)
    loading: Loading = group(AS_USUAL)


@click.command(cls=Writing)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=INPUT)
@out_option("a pooler", "File for the pooler, as JSON.")
@takes(PoolerOptions, "chosen")
def pooler(files: tuple[str, ...], out: str, chosen: PoolerOptions) -> None:
    """Fit the classifier pooling of cdm.momentum to rated texts.

    The model is linear: from a text's momentum to its rating (ridge), or to the probability of
    label 1 if all ratings are 0 or 1 (logistic). Its penalty is the one that best predicts a
    held-out fifth of the texts; texts with the same prompt, source, context or keywords are held
    out together. Use it with --option pooling=classifier --option pooler=FILE.
    """
    from levelfield.core.registry import options
    from levelfield.io import atomic_writer, open_samples
    from levelfield.metrics.cdm import CDMMomentum
    from levelfield.train.pooler import rated_momentum, train_pooler

    apart = ("pooling", "pooler", *choices(Loading))
    accepted = {name: its for name, its in options(CDMMomentum).items() if name not in apart}
    words = underscored(chosen.options)
    if unknown := sorted(words.keys() - accepted.keys()):
        raise UserError(f"--option {unknown[0]}: expected one of {', '.join(accepted)}")
    values = parsed("cdm.momentum", accepted, words)
    source = open_samples(files, chosen.reading, ids="file")
    metric = CDMMomentum.of(**values, loading=chosen.loading)
    if metric.turns == "mean":
        raise UserError("a pooler works on whole sequences; it can't be used with turns=mean")
    with progress_bar("scoring", None) as progress:
        rated = rated_momentum(metric, source, chosen.aspect, progress=progress)
    selected = train_pooler(rated, kind=chosen.kind, length=chosen.length, seed=chosen.seed)
    with atomic_writer(out) as file:
        selected.pooler.save(file)
    say(
        f"{out}: {selected.pooler.kind}, {selected.pooler.trained_on}; "
        f"Spearman {selected.spearman:.3f} on {selected.held_out} held out, which also chose the "
        "penalty"
    )
    if rated.left_out:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in rated.left_out.items())
        say_note(f"left out {sum(rated.left_out.values())} ({reasons})")


Aspect = Literal["coherence", "consistency", "attribute-relevance"]


@dataclass(frozen=True)
class ScalesOptions(Options):
    """What the scales measure, and on how much text."""

    model: str = option("offline/smollm2", "Causal model of the likelihoods.", metavar="NAME")
    encoder: str = option("offline/minilm", "Encoder of the embeddings.", metavar="NAME")
    aspects: tuple[Aspect, ...] = option(
        (), "Aspect to measure; may be given again.", flags=("--aspect",), otherwise="all"
    )
    attribute: str = option("auto", "Attribute: sentiment, topic, or a TOML file.")
    judge: str = option("auto", "Judge of the attribute, or none.")
    language: str = option("english", "Language of the sentence segmenter.")
    passages: int = option(320, "Number of passages from all files together.", least=2)
    seed: int = option(0, "Seed of the draw of passages.", least=0, most=SEED)
    loading: Loading = group(AS_USUAL)


@click.command(cls=Writing)
@CORPUS
@out_option("scales", "File for the scales, as TOML.")
@takes(ScalesOptions, "chosen")
def scales(corpus: tuple[str, ...], out: str, chosen: ScalesOptions) -> None:
    """Compute the scales of composite scores from any text.

    Draws passages from every file of the corpus, degrades half of them, and measures the mean and
    the standard deviation of each component on them. Reads plain text (also .gz, .xz) with empty
    lines between documents, and every other format that samples are read from. Give the file to
    composite metrics with --option scales=FILE.
    """
    from levelfield.core.registry import create
    from levelfield.io import atomic_writer
    from levelfield.metrics.composite.base import CompositeMetric
    from levelfield.train.corpus import corpus_size
    from levelfield.train.scales import measure_scales, reference_text, texts_read, write_scales

    apart = ("aspects", "passages", "seed")
    common = {name: value for name, value in chosen.to_dict().items() if name not in apart}
    names = [f"composite.{aspect}" for aspect in chosen.aspects or get_args(Aspect)]
    # a file of scales serves the option channel, too
    created = create(names, common | {"channel": True}, {})
    metrics = [metric for metric in created if isinstance(metric, CompositeMetric)]
    for metric in metrics:
        _ = metric.models()  # what is wrong with them, before the work
    with progress_bar("drawing", corpus_size(corpus)) as progress:
        reference = reference_text(
            corpus,
            passages=chosen.passages,
            seed=chosen.seed,
            language=chosen.language,
            progress=progress,
        )
    with progress_bar("measuring", texts_read(metrics, reference)) as progress:
        measured = measure_scales(metrics, reference, progress=progress)
    with atomic_writer(out) as file:
        file.write(write_scales(measured, reference, chosen.seed))
    say(f"{out}: {len(measured)} scales from {chosen.passages} passages of {len(corpus)} files")

"""`levelfield train scales`: the scales of composite scores with other models."""

from __future__ import annotations

import click

from levelfield.cli.options import WholeNumber, takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.models.loading import Loading

ASPECTS = ("coherence", "consistency", "attribute-relevance")


@click.command(cls=Writing)
@click.argument("corpus", nargs=-1, required=True, type=INPUT)
@click.option("--out", required=True, type=OutputType("scales"), help="The scales, a TOML file.")
@click.option("--model", default="offline/smollm2", show_default=True, help="A causal model.")
@click.option(
    "--encoder", default="offline/minilm", show_default=True, help="Encoder of the embeddings."
)
@click.option(
    "--aspect",
    "aspects",
    multiple=True,
    type=click.Choice(ASPECTS),
    help="Aspect to measure; may be given again. [default: all]",
)
@click.option(
    "--attribute",
    default="auto",
    show_default=True,
    help="Attribute: sentiment, topic, or a TOML file.",
)
@click.option("--judge", default="auto", show_default=True, help="Judge of the attribute, or none.")
@click.option(
    "--language", default="english", show_default=True, help="Language of the sentence segmenter."
)
@click.option(
    "--passages",
    type=WholeNumber(2),
    default=320,
    show_default=True,
    help="Number of passages, of all files together.",
)
@click.option(
    "--seed", type=WholeNumber(0), default=0, show_default=True, help="Seed of what is drawn."
)
@takes(Loading, "loading")
def scales(
    corpus: tuple[str, ...],
    out: str,
    model: str,
    encoder: str,
    aspects: tuple[str, ...],
    attribute: str,
    judge: str,
    language: str,
    passages: int,
    seed: int,
    loading: Loading,
) -> None:
    """Scales of composite scores, from any text.

    Draws passages from every file of the corpus, degrades half of them, and measures the mean and
    the standard deviation of each component on them. Reads plain text (also .gz, .xz) with empty
    lines between documents, and every other format that samples are read from. Give the file to
    composite metrics with --option scales=FILE.
    """
    from levelfield.core.registry import create
    from levelfield.io import atomic_writer
    from levelfield.metrics.composite.base import CompositeMetric
    from levelfield.training.reference import reference_text
    from levelfield.training.scales import measure_scales, texts_read, write_scales
    from levelfield.training.word_lists import corpus_size

    chosen = {
        **{"model": model, "encoder": encoder, "attribute": attribute, "judge": judge},
        **{"language": language, **loading.to_dict()},
    }
    names = [f"composite.{aspect}" for aspect in aspects or ASPECTS]
    metrics = [one for one in create(names, chosen, {}) if isinstance(one, CompositeMetric)]
    for metric in metrics:
        _ = metric.models(), metric.computation  # what is wrong with them, before the work
    with progress_bar("drawing", corpus_size(corpus)) as progress:
        reference = reference_text(
            corpus, passages=passages, seed=seed, language=language, progress=progress
        )
    with progress_bar("measuring", texts_read(metrics, reference)) as progress:
        measured = measure_scales(metrics, reference, progress=progress)
    with atomic_writer(out) as file:
        file.write(write_scales(measured, reference, seed))
    say(f"{out}: {len(measured)} scales from {passages} passages of {len(corpus)} files")

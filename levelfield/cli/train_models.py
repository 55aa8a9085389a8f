"""`levelfield train infiller`, `editor`, `rewriter`, `perturb`, `discriminator` and `cdm`: models
that are trained step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from levelfield.cli.options import takes
from levelfield.cli.outputs import INPUT, OutputType, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.core.errors import UserError
from levelfield.generation.techniques.cbart.editor_options import EditorSpec
from levelfield.generation.techniques.rewriter.rewriter_options import (
    PairOptions,
    RewardSpec,
    RewriterSpec,
)
from levelfield.train.cdm import PerturbOptions
from levelfield.train.discriminator import DiscriminatorSpec
from levelfield.train.infiller import InfillerSpec
from levelfield.train.recipe import DETAILS, Stepwise

CORPUS = click.argument("corpus", nargs=-1, required=True, metavar="CORPUS...", type=INPUT)
FOLDER = click.option("--out", required=True, type=OutputType(), help="Folder for what is trained.")
SOURCE = click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="TEXT",
    help="Line for the model card that names a source and its licence; may be given again.",
)


def _built(
    build: Callable[..., Any], data: object, spec: Stepwise, out: str, sources: Sequence[str]
) -> Any:
    with progress_bar("training", spec.recipe.steps) as progress:
        return build(data, spec, Path(out), sources=sources, notes=say, progress=progress)


@click.command(cls=Writing)
@CORPUS
@FOLDER
@takes(InfillerSpec, "spec", without=[name for name in DETAILS if name != "embeddings"])
@SOURCE
def infiller(
    corpus: tuple[str, ...], out: str, spec: InfillerSpec, sources: tuple[str, ...]
) -> None:
    """Train a model that fills one gap in a text, for CTRLEval and CDM.

    Reads plain text (also .gz, .xz): documents separated by empty lines, else one a line; dialogues
    with turns joined by </UTT>; and every other format that samples are read from. Without --start
    a model of --width and --layers begins from random weights, and its tokenizer is trained on the
    corpus unless --tokenizer names one. An amateur and an expert need one tokenizer.

    Killed and run again with the same options, it goes on from its last checkpoint.
    """
    from levelfield.train.corpus import corpus_documents
    from levelfield.train.infiller.infilling import build_infiller

    history = _built(build_infiller, lambda: corpus_documents(corpus), spec, out, sources)
    say(f"{out}: held-out loss {history[-1].validation['loss']:.4f} nats a token")


@click.command(cls=Writing)
@CORPUS
@FOLDER
@takes(EditorSpec, "spec", without=DETAILS)
@SOURCE
def editor(corpus: tuple[str, ...], out: str, spec: EditorSpec, sources: tuple[str, ...]) -> None:
    """Train a model that writes sentences around keywords, for the technique cbart.

    Reads plain text (also .gz, .xz): documents separated by empty lines, else one a line; and every
    other format that samples are read from. Its sentences are corrupted, and the model learns to
    mend them: to insert the words that are missing and to replace those that are wrong.

    Killed and run again with the same options, it goes on from its last checkpoint.
    """
    from levelfield.generation.techniques.cbart.editor_training import build_editor
    from levelfield.train.corpus import corpus_documents

    history = _built(build_editor, lambda: corpus_documents(corpus), spec, out, sources)
    figures = history[-1].validation
    say(
        f"{out}: held-out loss {figures['loss']:.4f} nats; told: copy {figures['copy']:.1%}, "
        f"replace {figures['replace']:.1%}, insert {figures['insert']:.1%}; "
        f"gaps filled as they were: {figures['gaps']:.1%}"
    )


@click.command(cls=Writing)
@click.option(
    "--pairs",
    "files",
    multiple=True,
    required=True,
    metavar="FILE",
    type=INPUT,
    help="File of pairs to learn; may be given again.",
)
@click.option("--attribute", required=True, help="Attribute whose labels are in control.ATTRIBUTE.")
@FOLDER
@takes(RewriterSpec, "spec", without=(*DETAILS, "rewards"))
@takes(RewardSpec, "rewards", prefix="reward_")
@takes(PairOptions, "chosen", without=("seed",))
@SOURCE
def rewriter(
    files: tuple[str, ...],
    attribute: str,
    out: str,
    spec: RewriterSpec,
    rewards: RewardSpec,
    chosen: PairOptions,
    sources: tuple[str, ...],
) -> None:
    """Train a rewriter: fine-tune an encoder-decoder on pairs of sentences.

    Each pair has `source`, `text`, and the style of `text` in control.ATTRIBUTE. The model learns
    to write the text after the code of its style, so that one model serves several directions.
    Without --model a small new one begins that copies its source.
    With rewards, sampled texts that are better than the greedy one become likelier, and worse ones
    less likely; begin them from a rewriter that has learnt its pairs (--model FOLDER).

    Leaves a model folder with a card that has figures on held-out pairs; use it with --technique
    rewriter --model FOLDER. A run that was killed goes on when it is started again.
    """
    from levelfield.generation.techniques.rewriter.rewriter_training import build_rewriter
    from levelfield.generation.techniques.rewriter.sentence_pairs import rewriting_pairs

    pairs = rewriting_pairs(files, attribute, chosen, seed=spec.recipe.seed)
    say(f"{len(pairs.train):,} pairs to learn from, {len(pairs.test):,} held out")
    about = _built(build_rewriter, pairs, spec.replace(rewards=rewards), out, sources)
    figures = {name: value for name, value in about.figures.items() if value is not None}
    say(f"{out}: {', '.join(f'{name} {value:.4g}' for name, value in figures.items())}")


@click.command(cls=Writing)
@CORPUS
@click.option(
    "--out", required=True, type=OutputType("negatives"), help="File for the negatives, as JSONL."
)
@takes(PerturbOptions, "chosen")
def perturb(corpus: tuple[str, ...], out: str, chosen: PerturbOptions) -> None:
    """Make negatives for a discriminator: the texts of a corpus, spoilt by rules.

    A document of plain text is a block of lines between empty lines, or a line where there are no
    empty ones. Negation is by rules for English.
    """
    from levelfield.io import atomic_writer
    from levelfield.train.cdm.perturb import write_perturbed
    from levelfield.train.corpus import corpus_documents

    kinds = [kind.strip() for kind in chosen.kinds.split(",") if kind.strip()]
    total = sum(Path(name).stat().st_size for name in corpus if Path(name).is_file())
    with progress_bar("perturbing", total) as progress, atomic_writer(out) as file:
        texts = corpus_documents(corpus, progress)
        counts = write_perturbed(texts, kinds, file, seed=chosen.seed, times=chosen.times)
        if not counts.negatives:
            raise UserError(
                f"the corpus has {counts.unchanged:,} texts, of which none can be perturbed by "
                f"{chosen.kinds}"
            )
    applied = ", ".join(f"{kind}: {n:,}" for kind, n in counts.kinds.items())
    say(f"{out}: {counts.negatives:,} negatives ({applied})")
    if counts.unchanged:
        say(f"note: texts in which nothing can be perturbed: {counts.unchanged:,}")


@click.command(cls=Writing)
@click.argument("negatives", nargs=-1, required=True, metavar="NEGATIVES...", type=INPUT)
@FOLDER
@takes(DiscriminatorSpec, "spec", without=(*DETAILS, "inner", "head"))
@SOURCE
def discriminator(
    negatives: tuple[str, ...], out: str, spec: DiscriminatorSpec, sources: tuple[str, ...]
) -> None:
    """Train a classifier that tells human texts from negatives, for discriminator.score.

    NEGATIVES are JSONL files of {"positive", "negative"}, as `levelfield train perturb` and the
    sampler of CDM make them; a text is a string, or a list of turns. Random weights need a higher
    --learning-rate, say 5e-4. Stopped and run again, it goes on from its last checkpoint.
    """
    from levelfield.train.discriminator.discrimination import build_discriminator

    history = _built(build_discriminator, list(map(Path, negatives)), spec, out, sources)
    last = history[-1].validation
    say(f"{out}: accuracy {last['accuracy']:.3f}, AUC {last['auc']:.3f} on held-out pairs")


@click.command(cls=Writing)
@click.argument("plan", metavar="PLAN.toml", type=INPUT)
@FOLDER
def cdm(plan: str, out: str) -> None:
    """Train generative CDM: two infillers, negatives, and the discriminator that is the metric.

    Trains what PLAN.toml does not name a model for, in this order: the amateur, the expert,
    negatives from log p⁻ ∝ log p_a − γ (log p_e − log p_a), and a discriminator, for
    discriminator.score. Killed and run again, it goes on where it was.
    """
    from levelfield.train.cdm.plan import load_cdm_plan
    from levelfield.train.cdm.run import run_cdm

    history = run_cdm(load_cdm_plan(Path(plan)), Path(out), notes=say, bar=progress_bar)
    figures = history[-1].validation
    say(f"{out}/discriminator: " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))

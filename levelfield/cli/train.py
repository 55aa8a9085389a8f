"""`levelfield train`: models and files that metrics and techniques need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import Word, takes, takes_given
from levelfield.cli.outputs import CORPUS, INPUT, Writing, files_option, out_option
from levelfield.cli.terminal import console, progress_bar, say, say_note
from levelfield.cli.train_files import iwf, pooler, scales, unigram
from levelfield.core.errors import UserError
from levelfield.core.options import Options, choices, underscored
from levelfield.generation.table import TECHNIQUES
from levelfield.generation.techniques.cbart.editor_options import EditorSpec
from levelfield.generation.techniques.rewriter.rewriter_options import (
    PairOptions,
    RewardSpec,
    RewriterSpec,
)
from levelfield.io.reading import pairs
from levelfield.models.guides import TRAINED_FOR
from levelfield.models.small.shapes import Settings
from levelfield.train.cdm import PerturbOptions
from levelfield.train.discriminator import DiscriminatorSpec
from levelfield.train.guide.kinds import GuideSpec
from levelfield.train.guide.settings import GuideData
from levelfield.train.guide.table import SETTINGS, settings_of
from levelfield.train.infiller import InfillerSpec
from levelfield.train.judge import JudgeSpec, Tuning
from levelfield.train.judge.command import JudgeOptions
from levelfield.train.recipe import DETAILS, Stepwise

if TYPE_CHECKING:
    from levelfield.train.figures import Figures
    from levelfield.train.labelled import LabelledTexts


@click.group()
def train() -> None:
    """Train models and build files that metrics need."""


for _command in (iwf, pooler, scales, unigram):
    train.add_command(_command)

FOLDER = out_option("", "Folder for the trained model.")
SOURCE = click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="TEXT",
    help="Line of the model card that names a source and its licence; may be given again.",
)


def _built(
    build: Callable[..., Any], data: object, spec: Options, out: str, sources: Sequence[str]
) -> Any:
    steps = spec.recipe.steps if isinstance(spec, Stepwise) else None
    with progress_bar("training", steps) as progress:
        return build(data, spec, Path(out), sources=sources, notes=say, progress=progress)


def _say_texts(texts: LabelledTexts) -> None:
    say(f"{len(texts.train):,} texts to train on, {len(texts.test):,} held out")
    for name, value in texts.facts.items():
        say(f"{name.lower()}: {value}")


@train.command(cls=Writing)
@CORPUS
@FOLDER
@takes(InfillerSpec, "spec", without=[name for name in DETAILS if name != "embeddings"])
@SOURCE
def infiller(
    corpus: tuple[str, ...], out: str, spec: InfillerSpec, sources: tuple[str, ...]
) -> None:
    """Train a model that fills one gap in a text, for CTRLEval and CDM.

    Reads plain text (also .gz, .xz): documents separated by empty lines, else one a line; dialogues
    with turns joined by </UTT>; and every other format that samples are read from. Without --start,
    a model of --width and --layers starts from random weights, and its tokenizer is trained on the
    corpus unless --tokenizer names one. An amateur and an expert need the same tokenizer. If the
    command is killed, run it again with the same options to resume from its last checkpoint.
    """
    from levelfield.train.corpus import corpus_documents
    from levelfield.train.infiller.infilling import build_infiller

    history = _built(build_infiller, lambda: corpus_documents(corpus), spec, out, sources)
    say(f"{out}: held-out loss {history[-1].validation['loss']:.4f} nats per token")


@train.command(cls=Writing)
@CORPUS
@FOLDER
@takes(EditorSpec, "spec", without=DETAILS)
@SOURCE
def editor(corpus: tuple[str, ...], out: str, spec: EditorSpec, sources: tuple[str, ...]) -> None:
    """Train a model that writes sentences around keywords, for the technique cbart.

    Reads plain text (also .gz, .xz): documents separated by empty lines, else one a line; and every
    other format that samples are read from. Its sentences are corrupted, and the model learns to
    repair them: to insert missing words and to replace wrong ones. If the command is killed, run it
    again with the same options to resume from its last checkpoint.
    """
    from levelfield.generation.techniques.cbart.training import build_editor
    from levelfield.train.corpus import corpus_documents

    history = _built(build_editor, lambda: corpus_documents(corpus), spec, out, sources)
    figures = history[-1].validation
    say(
        f"{out}: held-out loss {figures['loss']:.4f} nats; actions recognised: "
        f"copy {figures['copy']:.1%}, replace {figures['replace']:.1%}, "
        f"insert {figures['insert']:.1%}; "
        f"gaps filled with the original words: {figures['gaps']:.1%}"
    )


@train.command(cls=Writing)
@files_option("--pairs", "files", help="File of pairs to learn from; may be given again.")
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
    Without --model, a small new one starts by copying its source. With rewards, sampled texts that
    are better than the greedy one become likelier, and worse ones less likely; use them with a
    rewriter that has already learnt its pairs (--model FOLDER).

    Writes a model folder with a card that has figures on held-out pairs; use it with --technique
    rewriter --model FOLDER. A run that was killed resumes when it is started again.
    """
    from levelfield.generation.techniques.rewriter.sentence_pairs import rewriting_pairs
    from levelfield.generation.techniques.rewriter.training import build_rewriter

    pairs = rewriting_pairs(files, attribute, chosen, seed=spec.recipe.seed)
    say(f"{len(pairs.train):,} pairs to learn from, {len(pairs.test):,} held out")
    about = _built(build_rewriter, pairs, spec.replace(rewards=rewards), out, sources)
    figures = {name: value for name, value in about.figures.items() if value is not None}
    say(f"{out}: {', '.join(f'{name} {value:.4g}' for name, value in figures.items())}")


@train.command(cls=Writing)
@CORPUS
@out_option("negatives", "File for the negatives, as JSONL.")
@takes(PerturbOptions, "chosen")
def perturb(corpus: tuple[str, ...], out: str, chosen: PerturbOptions) -> None:
    """Make negatives for a discriminator: texts of a corpus, degraded by rules.

    A document of plain text is a block of lines between empty lines, or a single line if there are
    no empty ones. Negation uses rules for English.
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
                f"none of the {counts.unchanged:,} texts of the corpus can be perturbed by "
                f"{chosen.kinds}"
            )
    applied = ", ".join(f"{kind}: {n:,}" for kind, n in counts.kinds.items())
    say(f"{out}: {counts.negatives:,} negatives ({applied})")
    if counts.unchanged:
        say_note(f"texts in which nothing can be perturbed: {counts.unchanged:,}")


@train.command(cls=Writing)
@click.argument("negatives", nargs=-1, required=True, metavar="NEGATIVES...", type=INPUT)
@FOLDER
@takes(DiscriminatorSpec, "spec", without=(*DETAILS, "inner", "head"))
@SOURCE
def discriminator(
    negatives: tuple[str, ...], out: str, spec: DiscriminatorSpec, sources: tuple[str, ...]
) -> None:
    """Train a classifier of human texts and negatives, for discriminator.score.

    NEGATIVES are JSONL files of {"positive", "negative"}, as `levelfield train perturb` and the
    sampler of CDM make them; a text is a string, or a list of turns. Random weights need a higher
    --learning-rate, such as 5e-4. If the command is stopped, run it again to resume from its last
    checkpoint.
    """
    from levelfield.train.discriminator.discrimination import build_discriminator

    history = _built(build_discriminator, list(map(Path, negatives)), spec, out, sources)
    last = history[-1].validation
    say(f"{out}: accuracy {last['accuracy']:.3f}, AUC {last['auc']:.3f} on held-out pairs")


@train.command(cls=Writing)
@click.argument("plan", metavar="PLAN.toml", type=INPUT)
@FOLDER
def cdm(plan: str, out: str) -> None:
    """Train generative CDM: two infillers, negatives and a discriminator.

    Trains the parts that PLAN.toml does not name a model for, in this order: the amateur, the
    expert, negatives from log p⁻ ∝ log p_a − γ (log p_e − log p_a), and a discriminator, for
    discriminator.score. If the command is killed, run it again to resume.
    """
    from levelfield.train.cdm.plan import load_cdm_plan
    from levelfield.train.cdm.stages import run_cdm

    history = run_cdm(load_cdm_plan(Path(plan)), Path(out), notes=say, bar=progress_bar)
    figures = history[-1].validation
    say(f"{out}/discriminator: " + ", ".join(f"{k} {v:.3f}" for k, v in figures.items()))


_KINDS = {
    name: kind
    for kind, first in TRAINED_FOR.items()
    for name in (first, *(n for n, e in TECHNIQUES.items() if e.guide == kind))
}
"""Technique -> the kind of guide that it needs; of a kind first the one that names it."""
_GUIDE_NAMES = (
    *("lam", "layers", "rank", "width", "dropout"),
    *("tokens", "epochs", "batch", "learning_rate"),
)


@train.command(cls=Writing)
@click.option(
    "--technique",
    required=True,
    type=click.Choice(list(_KINDS)),
    help="Technique to train the guide for.",
)
@files_option(
    "--data",
    help="Data set or file of labelled texts; may be given again.",
    metavar="NAME|FILE",
)
@FOLDER
@takes(GuideSpec, "words", without=("kind", "settings"), as_words=True)
@takes_given({TRAINED_FOR[kind]: cls for kind, cls in SETTINGS.items()}, "settings", _GUIDE_NAMES)
@click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of this kind of guide without an option of its own; may be given again.",
)
@takes(GuideData, "chosen", without=("seed",))
@SOURCE
def guide(
    technique: str,
    data: tuple[str, ...],
    out: str,
    words: dict[str, Any],
    settings: dict[str, Any],
    options: tuple[str, ...],
    chosen: GuideData,
    sources: tuple[str, ...],
) -> None:
    """Train a guide on a base model, for techniques such as gedi, fudge and pplm.

    The texts of --data have their label in control.ATTRIBUTE. The guide is a low-rank adapter on
    the base, a few megabytes; the guide of fudge is a small network on the base's embeddings.
    Writes a folder with a card that has figures on held-out texts; give it to a technique as
    guide=FOLDER. A run that was killed resumes when it is started again.
    """
    kind = _KINDS[technique]
    complete = settings_of(kind, {**settings, **underscored(pairs("--option", options))})
    spec = GuideSpec.of(kind=kind, settings=complete, **words)
    from levelfield.train.guide.kinds import build_guide
    from levelfield.train.guide.texts import guide_texts

    texts = guide_texts(data, spec.attribute, chosen, seed=spec.seed)
    _say_texts(texts)
    trained = _built(build_guide, texts, spec, out, sources)
    figures = trained.settings["figures"]
    say(f"{out}: {', '.join(f'{name} {value:g}' for name, value in figures.items())}")


_ENDS = choices(JudgeOptions)["ends"]
_OF_ARCHITECTURES = {"fasttext": Settings, "textcnn": JudgeSpec, "transformer": Tuning}
_JUDGE_NAMES = (
    *("epochs", "vocabulary", "case", "half", "ngrams"),
    *("quantize", "start", "learning_rate", "layers", "depth", "l2"),
)


@train.command(cls=Writing)
@click.argument("files", nargs=-1, metavar="[FILE...]", type=INPUT)
@FOLDER
@takes(JudgeOptions, without=("ends", "settings"))
@click.option(
    *_ENDS.flags,
    "ends",
    type=(Word(_ENDS), Word(_ENDS)),
    metavar="LOWEST HIGHEST",
    help=f"{_ENDS.rule.help}  [default: {_ENDS.rule.otherwise}]",
)
@takes_given(_OF_ARCHITECTURES, "settings", _JUDGE_NAMES)
@SOURCE
def judge(
    files: tuple[str, ...],
    out: str,
    options: JudgeOptions,
    ends: tuple[float, float] | None,
    settings: dict[str, Any],
    sources: tuple[str, ...],
) -> None:
    """Train a judge of a style: TextCNN, fastText, linear head or encoder.

    FILEs are read as `levelfield score` reads them; the label of a text is its control.ATTRIBUTE.
    Instead of files, --recipe names data sets and settings: sentiment, sentiment-nltk, topic or
    formality, followed by -textcnn, -fasttext, -linear or -transformer. --model sets another
    encoder for the last two, and --learning-rate the rate of the last one.

    Writes a model folder with a card and test.json: accuracy, macro F1, confusion and calibration
    on held-out texts. Use it with --metric control --option judges=FOLDER.
    """
    from levelfield.train.judge.architectures import build_judge

    options = options.replace(ends=ends, settings=settings)
    spec, texts = options.spec(files), options.texts(files)
    _say_texts(texts)
    _show_judge(out, _built(build_judge, texts, spec, out, sources))


def _show_judge(out: str, figures: Figures) -> None:
    from rich.table import Table

    rho = figures.spearman
    rank = "" if rho is None else f", Spearman {rho:.3f} with the ratings"
    say(
        f"{out}: accuracy {figures.accuracy:.3f}, macro F1 {figures.macro_f1:.3f}, "
        f"calibration error {figures.ece:.3f}, Brier score {figures.brier:.3f}{rank}"
        f" on {figures.n:,} held-out texts"
    )
    table = Table("true label", *(f"predicted: {label}" for label in figures.labels))
    for label, row in zip(figures.labels, figures.confusion, strict=True):
        table.add_row(label, *(f"{n:,}" for n in row))
    console().print(table)

"""`levelfield train guide`: what a technique of controlled generation learns on a base."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from levelfield.cli.options import takes, takes_given
from levelfield.cli.outputs import INPUT, Writing
from levelfield.cli.terminal import progress_bar, say
from levelfield.cli.train_models import FOLDER, SOURCE
from levelfield.io.reading import pairs
from levelfield.train.guide.kinds import GuideSpec
from levelfield.train.guide.settings import SETTINGS, TECHNIQUES, GuideData, settings_of

_SETTINGS = {technique: SETTINGS[kind] for technique, kind in TECHNIQUES.items()}
_DISTINCT = {cls: technique for technique, cls in reversed(_SETTINGS.items())}
_NAMES = (
    *("lam", "layers", "rank", "width", "dropout"),
    *("tokens", "epochs", "batch", "learning_rate"),
)


@click.command(cls=Writing)
@click.option(
    "--technique",
    required=True,
    type=click.Choice(list(TECHNIQUES)),
    help="Technique that the guide is for.",
)
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="NAME|FILE",
    type=INPUT,
    help="Labelled texts: a data set or a file; may be given again.",
)
@FOLDER
@takes(GuideSpec, "words", without=("kind", "settings"), as_words=True)
@takes_given({name: cls for cls, name in reversed(_DISTINCT.items())}, "settings", _NAMES)
@click.option(
    "--option",
    "-o",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of this kind of guide that has no option of its own; may be given again.",
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
    the base, a few megabytes; that of fudge is a small network on the base's embeddings. Leaves a
    folder with a card that has figures on held-out texts; give it to a technique as guide=FOLDER. A
    run that was killed goes on when it is started again.
    """
    kind = TECHNIQUES[technique]
    complete = settings_of(kind, {**settings, **pairs("--option", options)})
    spec = GuideSpec.of(kind=kind, settings=complete, **words)
    from levelfield.train.guide.build import build_guide
    from levelfield.train.guide.texts import guide_texts

    texts = guide_texts(data, spec.attribute, chosen, seed=spec.seed, sources=sources)
    say(f"{len(texts.train):,} texts to train on, {len(texts.test):,} held out")
    for name, value in texts.facts.items():
        say(f"{name.lower()}: {value}")
    with progress_bar("training", None) as progress:
        trained = build_guide(texts, spec, Path(out), notes=say, progress=progress)
    figures = trained.settings["figures"]
    say(f"{out}: {', '.join(f'{name} {value:g}' for name, value in figures.items())}")

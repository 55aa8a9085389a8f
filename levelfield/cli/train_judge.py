"""`levelfield train judge`: a small classifier of a style, a sentiment, a topic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from levelfield.cli.options import pairs
from levelfield.cli.terminal import console, progress_bar, say
from levelfield.cli.train_infiller import SOURCE
from levelfield.core.errors import UserError

if TYPE_CHECKING:
    from levelfield.core.sample import Sample
    from levelfield.training.judge import Architecture, Spec
    from levelfield.training.judge_recipes import Prepared
    from levelfield.training.judged import Figures
    from levelfield.training.labelled import Labelled, Scale


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option("--out", required=True, help="The folder of the judge.")
@click.option("--recipe", help="Data sets and settings by name, instead of FILEs.")
@click.option("--attribute", help="Whose labels are learnt: control.ATTRIBUTE of the samples.")
@click.option(
    "--arch",
    type=click.Choice(["textcnn", "fasttext", "linear", "transformer"]),
    help="[default: textcnn]",
)
@click.option("--held-out", "held_out", multiple=True, metavar="FILE", help="To try it on.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Of the texts to try it on, where no file is held out. [default: 0.1]",
)
@click.option("--rating", metavar="ASPECT", help="Learn from ratings of this aspect, not labels.")
@click.option("--low", help="Label of the lowest rating. [default: low]")
@click.option("--high", help="Label of the highest rating. [default: high]")
@click.option(
    "--range", "ends", type=(float, float), help="Lowest and highest rating. [default: those given]"
)
@click.option("--format", "format", help="Of the files; else their suffix says it.")
@click.option(
    "--map", "mapping", multiple=True, metavar="FIELD=COLUMN", help="Our field, your column."
)
@click.option("--epochs", type=click.IntRange(1), help="Passes over the texts; not linear.")
@click.option("--vocabulary", type=click.IntRange(1), help="Words known at most: textcnn.")
@click.option("--case", is_flag=True, help="Read which words have capitals: textcnn, fasttext.")
@click.option("--half", is_flag=True, help="Save weights in half precision: textcnn.")
@click.option("--ngrams", type=click.IntRange(1), help="Most words of an n-gram: fasttext.")
@click.option("--quantize", is_flag=True, help="Make the model small: fasttext.")
@click.option("--model", help="Encoder: linear, transformer. [default: offline/minilm]")
@click.option(
    "--learning-rate",
    type=click.FloatRange(0, min_open=True),
    help="Of textcnn and transformer. [default: 1e-3, 1e-4]",
)
@click.option("--l2", type=click.FloatRange(0), help="Weight of the squared norm: linear.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, mps.")
@click.option("--allow-pickle", is_flag=True, help="Take an encoder whose weights are pickled.")
@SOURCE
def judge(files: tuple[str, ...], out: str, recipe: str | None, **given: Any) -> None:
    """A judge of a style: a TextCNN, fastText, a linear head on an encoder, a fine-tuned encoder.

    FILEs are read as `levelfield score` reads them; a text's label is its control.ATTRIBUTE. Or
    --recipe names data sets and settings: sentiment, sentiment-nltk, topic or formality, with
    -textcnn, -fasttext, -linear or -transformer behind it. --model gives the last two another
    encoder, and --learning-rate the last one its rate.

    Leaves a model folder with a card and test.json: accuracy, macro F1, confusion and calibration
    on held-out texts. Use it with --metric control --option judges=FOLDER.
    """
    from dataclasses import replace

    from levelfield.training.judge import build_judge
    from levelfield.training.judge_recipes import prepare, spec_of

    if bool(recipe) == bool(files):
        raise UserError("expected either FILEs with labels or --recipe NAME")
    if recipe:
        _check_alone(given)
        spec = replace(spec_of(recipe), seed=given["seed"], device=given["device"])
        spec = _on(spec, recipe, given)
        texts = prepare(recipe)
    else:
        _check_together(given)
        spec, texts = _spec(given), _texts(files, given)
    say(f"{len(texts.train):,} texts to train on, {len(texts.test):,} held out")
    for name, value in texts.facts.items():
        say(f"{name.lower()}: {value}")
    with progress_bar("training", None) as progress:
        found = build_judge(
            texts.train,
            texts.test,
            spec,
            Path(out),
            sources=(*texts.sources, *given["sources"]),
            facts=texts.facts,
            notes=say,
            progress=progress,
        )
    _show(out, found)


_FOR_FILES = ("attribute", "arch", "held_out", "share", "rating", "low", "high", "ends", "format",
              "mapping", "epochs", "vocabulary", "case", "half", "ngrams", "quantize",
              "l2")  # fmt: skip
_NAMES = {"ends": "range", "mapping": "map"}


def _check_alone(given: dict[str, Any]) -> None:
    """A recipe says everything but the seed and the encoder."""
    if also := [name for name in _FOR_FILES if given[name] not in (None, (), False)]:
        raise UserError(f"--recipe says what --{_name(also[0])} would: leave one out")


def _on(spec: Spec, recipe: str, given: dict[str, Any]) -> Spec:
    """A recipe's spec, on another encoder if one is named."""
    from dataclasses import replace

    from levelfield.training.judge import ON_ENCODERS

    about = [name for name in ("learning_rate", "allow_pickle") if given[name]]
    if not given["model"]:
        if about:
            raise UserError(f"--{_name(about[0])} beside --recipe is of another --model NAME")
        return spec
    if spec.architecture not in ON_ENCODERS:
        raise UserError(f"--model is the encoder, and {recipe} has none")
    spec = replace(spec, start=given["model"], allow_pickle=given["allow_pickle"])
    if not given["learning_rate"]:
        return spec
    if spec.architecture != "transformer":
        raise UserError(f"--learning-rate says nothing to {recipe}")
    return replace(spec, tuning=replace(spec.tuning, learning_rate=given["learning_rate"]))


def _name(parameter: str) -> str:
    """An option as it is written."""
    return _NAMES.get(parameter, parameter.replace("_", "-"))


def _check_together(given: dict[str, Any]) -> None:
    """What says nothing beside the others is the user's mistake."""
    if given["held_out"] and given["share"] is not None:
        raise UserError("--share is of the texts where no file is held out; leave out --held-out")
    if not given["rating"]:
        for name in ("low", "high", "ends"):
            if given[name] is not None:
                raise UserError(f"--{_name(name)} is of ratings: it needs --rating ASPECT")


def _spec(given: dict[str, Any]) -> Spec:
    from dataclasses import replace

    from levelfield.training.judge import Spec

    arch: Architecture = given["arch"] or "textcnn"
    own = {
        "textcnn": ("case", "epochs", "vocabulary", "half", "learning_rate"),
        "fasttext": ("case", "epochs", "ngrams", "quantize"),
        "linear": ("model", "l2", "allow_pickle"),
        "transformer": ("model", "epochs", "learning_rate", "allow_pickle"),
    }
    options = {n for names in own.values() for n in names}
    said = {name: given[name] for name in options if given[name] not in (None, False)}
    if foreign := sorted(set(said) - set(own[arch])):
        raise UserError(f"--{_name(foreign[0])} is no option of --arch {arch}")
    if "model" in said:
        said["start"] = said.pop("model")
    spec = Spec(
        given["attribute"] or given["rating"] or "",
        arch,
        seed=given["seed"],
        device=given["device"],
    )
    if not spec.attribute:
        raise UserError("expected --attribute NAME: whose labels are learnt")
    if arch == "fasttext":
        spec = replace(spec, case=said.pop("case", False))
        return replace(spec, fasttext=replace(spec.fasttext, **said))
    if arch == "transformer":
        tuned = {name: said.pop(name) for name in ("epochs", "learning_rate") if name in said}
        spec = replace(spec, tuning=replace(spec.tuning, **tuned))
    return replace(spec, **said)


def _texts(files: Sequence[str], given: dict[str, Any]) -> Prepared:
    from levelfield.io import open_samples
    from levelfield.training.judge_recipes import prepared

    def read(names: Sequence[str]) -> list[Sample]:
        source = open_samples(
            names, format=given["format"], mapping=pairs("--map", given["mapping"]), ids="any"
        )
        source.check()
        return list(source)

    samples, others = read(files), read(given["held_out"]) if given["held_out"] else None
    if given["rating"]:
        from levelfield.training.labelled import from_ratings

        scale = _scale(samples, given)
        rows = from_ratings(samples, scale)
        test = from_ratings(others, scale) if others is not None else None
    else:
        rows, test = _by_labels(samples, others, given["attribute"])
    return prepared(rows, test, (), share=given["share"] or 0.1, seed=given["seed"])


def _by_labels(
    samples: Sequence[Sample], others: Sequence[Sample] | None, attribute: str
) -> tuple[Labelled, Labelled | None]:
    from levelfield.training.labelled import from_controls

    rows = from_controls(samples, attribute)
    return rows, from_controls(others, attribute, rows.labels) if others is not None else None


def _scale(samples: Sequence[Sample], given: dict[str, Any]) -> Scale:
    from levelfield.training.labelled import Scale

    aspect = given["rating"]
    values = [value for s in samples for value in s.ratings.get(aspect, {}).values()]
    if not values:
        raise UserError(
            f"no sample has a rating of {aspect} (--map ratings.{aspect}=COLUMN names your column)"
        )
    least, most = given["ends"] or (min(values), max(values))
    return Scale(aspect, given["low"] or "low", given["high"] or "high", least, most)


def _show(out: str, found: Figures) -> None:
    from rich.table import Table

    rank = "" if found.spearman is None else f", Spearman {found.spearman:.3f} with the ratings"
    say(
        f"{out}: accuracy {found.accuracy:.3f}, macro F1 {found.macro_f1:.3f}, calibration error "
        f"{found.ece:.3f}, Brier score {found.brier:.3f}{rank} on {found.n:,} held-out texts"
    )
    table = Table("right label", *(f"given: {label}" for label in found.labels))
    for label, row in zip(found.labels, found.confusion, strict=True):
        table.add_row(label, *(f"{n:,}" for n in row))
    console().print(table)

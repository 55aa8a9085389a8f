"""From labelled texts to a judge's folder."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from levelfield.core.progress import Progress, no_progress
from levelfield.models.files import quiet
from levelfield.models.torch.loading import pick_device
from levelfield.training.builder import Workplace
from levelfield.training.card import Card, write_card
from levelfield.training.figures import Figures, figures, read_figures, write_figures
from levelfield.training.folder import close, opened, run_of
from levelfield.training.judge.architectures import architecture_named
from levelfield.training.judge.spec import JudgeSpec
from levelfield.training.labelled import Labelled


def build_judge(
    train: Labelled,
    test: Labelled,
    spec: JudgeSpec,
    out: Path,
    *,
    sources: Sequence[str],
    facts: Mapping[str, str] = {},
    notes: Callable[[str], object] = lambda _: None,
    progress: Progress = no_progress,
) -> Figures:
    """Trains a judge, tests it on held-out texts, and leaves a model folder with a card at `out`.

    The folder's `test.json` has the figures. A run that was killed is run again (TextCNN and a
    transformer go on from their last checkpoint), and a folder that holds the finished model of the
    same run is left as it is. Equal texts, spec and seed give equal models on one CPU.

    Args:
        train: what the judge learns from.
        test: what the figures are of; nothing is chosen by it.
        sources: for the card: what the texts are and their licence, a line each.
        facts: more rows for the card.
        progress: called with steps done.

    Raises:
        UserError, ModelError: nothing to train on, a folder with something else in it, an encoder
            or a library that is missing.
    """
    quiet()
    device = pick_device(spec.device)
    architecture = architecture_named(spec.architecture)
    architecture.check()
    run = run_of(spec, f"{train.digest} {test.digest}")
    if opened(out, run) is not None:
        notes(f"{out} holds this model already")
        return read_figures(out)
    judge, history = architecture.train(train, spec, Workplace(out, device, notes, progress))
    of_test = figures(judge.probabilities(test.texts)[0], test)
    write_figures(of_test, out)
    write_card(_card(out, spec, train, of_test, sources, facts), out)
    close(out, run, history)
    return of_test


def _card(
    out: Path,
    spec: JudgeSpec,
    train: Labelled,
    test: Figures,
    sources: Sequence[str],
    facts: Mapping[str, str],
) -> Card:
    on = f"on {test.n:,} held-out texts"
    rows = {
        "Attribute": spec.attribute,
        "Labels": ", ".join(train.labels),
        "Architecture": architecture_named(spec.architecture).describe(train, spec),
        "Trained on": f"{len(train):,} different texts",
        **facts,
        "Accuracy": f"{test.accuracy:.4f} {on}",
        "Macro F1": f"{test.macro_f1:.4f}",
        **({} if test.spearman is None else {"Spearman": f"{test.spearman:.4f} with the ratings"}),
        "Calibration error": f"{test.ece:.4f} (10 bins of equally many texts)",
        "Brier score": f"{test.brier:.4f} (from 0 to 2)",
        "Without words": f"{test.undecided:,}, counted as wrong",
        **{
            f"Confusion, {label}": ", ".join(
                f"{n:,} as {predicted}" for n, predicted in zip(row, test.labels, strict=True)
            )
            for label, row in zip(test.labels, test.confusion, strict=True)
        },
        "Seed": str(spec.seed),
        "Made with": f"PyTorch {torch.__version__}, Python {platform.python_version()}",
    }
    return Card(out.name, f"judges the {spec.attribute} of texts", rows, tuple(sources))

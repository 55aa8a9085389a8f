"""From labelled texts to a judge's folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from levelfield.training.builder import Account, Trained, Workplace, build
from levelfield.training.figures import Figures, figures, read_figures, write_figures
from levelfield.training.judge import JudgeSpec
from levelfield.training.judge.architectures import architecture_of
from levelfield.training.labelled import Labelled, LabelledTexts


def build_judge(
    train: Labelled,
    test: Labelled,
    spec: JudgeSpec,
    out: Path,
    *,
    facts: Mapping[str, str] = {},
    **account: Unpack[Account],
) -> Figures:
    """Trains a judge, tests it on held-out texts, and leaves a model folder with a card at `out`.

    The folder's `test.json` has the figures. Equal texts, spec and seed give equal models on one
    CPU.

    Args:
        train: what the judge learns from.
        test: what the figures are of; nothing is chosen by it.
        facts: more rows for the card.
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: an encoder or a library that is missing, and as of `build`.
    """
    architecture = architecture_of(spec)
    architecture.check()

    def learn(spec: JudgeSpec, place: Workplace) -> Trained:
        judge, history = architecture.train(train, spec, place)
        tried = figures(judge.probabilities(test.texts)[0], test)
        write_figures(tried, out)
        rows = {
            "Attribute": spec.attribute,
            "Labels": ", ".join(train.labels),
            "Architecture": architecture.describe(train, spec),
            "Trained on": f"{len(train):,} different texts",
            **facts,
            **tried.facts(),
        }
        return Trained(f"judges the {spec.attribute} of texts", rows, history)

    build(learn, spec, LabelledTexts(train, test, {}, ()).digest, out, **account)
    return read_figures(out)

"""From labelled texts to a guide's folder."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from levelfield.core.progress import Progress, no_progress
from levelfield.models.files import quiet
from levelfield.models.guides import Guide, guide_named
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve_causal
from levelfield.models.torch.loading import pick_device
from levelfield.training.builder import Workplace
from levelfield.training.card import Card, write_card
from levelfield.training.folder import close, opened, run_of
from levelfield.training.guide.folder import write_guide
from levelfield.training.guide.kinds import GuideSpec, TrainedGuide, guide_training
from levelfield.training.labelled import LabelledTexts


def build_guide(
    texts: LabelledTexts,
    spec: GuideSpec,
    out: Path,
    *,
    notes: Callable[[str], object] = lambda _: None,
    progress: Progress = no_progress,
) -> Guide:
    """Trains a guide, tests it on held-out texts, and leaves its folder with a card at `out`.

    A run that was killed is run again and goes on from its last checkpoint; a folder that holds the
    finished guide of the same run is left as it is. Equal texts, spec and seed give equal bytes on
    one CPU.

    Args:
        progress: called with steps done.

    Raises:
        UserError, ModelError: nothing to train on, a folder with something else in it, a base that
            is missing or no causal model.
    """
    quiet()
    device = pick_device(spec.device)
    resolved = resolve_causal(spec.start, Loading(allow_pickle=spec.allow_pickle))
    run = run_of(spec, f"{texts.train.digest} {texts.test.digest}")
    if opened(out, run) is not None:
        notes(f"{out} holds this guide already")
        return guide_named.__wrapped__(str(out))
    trained = guide_training(spec.kind).train(texts, spec, Workplace(out, device, notes, progress))
    write_guide(
        out,
        kind=spec.kind,
        attribute=spec.attribute,
        labels=texts.train.labels,
        base=resolved.name,
        revision=resolved.revision,
        settings=trained.settings,
        tensors=trained.tensors,
    )
    write_card(_card(out.name, resolved.label, texts, spec, trained), out)
    close(out, run, trained.history)
    return guide_named.__wrapped__(str(out))


def _card(
    name: str, base: str, texts: LabelledTexts, spec: GuideSpec, trained: TrainedGuide
) -> Card:
    facts: Mapping[str, str] = {
        "Kind": spec.kind,
        "Attribute": spec.attribute,
        "Labels": ", ".join(texts.train.labels),
        "Base": base,
        "Texts": f"{len(texts.train):,} different ones to learn from, {len(texts.test):,} held out",
        **texts.facts,
        **trained.facts,
        "Seed": str(spec.seed),
        "Made with": f"PyTorch {torch.__version__}, Python {platform.python_version()}",
    }
    return Card(name, guide_training(spec.kind).summary, facts, texts.sources)

"""Guides of kind `head`: P(label of a text) by a linear layer on the mean of the base's states.

The base is frozen and reads each text once; the layer is the regularised logistic regression on
what it made of them (Dathathri et al. 2020, "PPLM", section 4.3, with its best layer in place of
one that some epochs of Adam lead to).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from levelfield.core.arrays import Singles
from levelfield.core.progress import Progress, no_progress
from levelfield.generation.techniques._head.network import mean_states
from levelfield.generation.techniques._head.settings import HeadSettings
from levelfield.generation.techniques._training.guide_tasks import calibration_fact
from levelfield.models.small.heads import Head, fit_head
from levelfield.models.tokens import buckets
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train.builder import Workplace
from levelfield.train.checkpoint import TrainingState, read_checkpoint, write_checkpoint
from levelfield.train.figures import figures
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, LabelledTexts

EVERY = 512
"""Texts between checkpoints."""
BATCH_TOKENS = 2048
"""This many tokens are read at once."""


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = HeadSettings(**spec.settings)
    base = language_model(spec.start, spec.loading)
    train, ids = readable(texts.train, base, settings.tokens)
    test, test_ids = readable(texts.test, base, settings.tokens)
    place.notes(f"{base.label} reads {len(train):,} texts to learn from, {len(test):,} held out")
    low = spec.precision == "bfloat16"
    whole = [*ids, *test_ids]
    states = text_states(base, whole, place.checkpoint, low=low, progress=place.progress)
    head = fit_head(states[: len(ids)], train.targets, train.times, settings.l2)
    tensors = {
        "weight": torch.from_numpy(head.weight).half(),
        "bias": torch.from_numpy(head.bias).half(),
    }
    kept = Head(*(tensor.float().numpy() for tensor in tensors.values()))
    test_figures = held_out_figures(kept, states[len(ids) :], test)
    facts = {
        "Network": f"a linear layer on the mean of the base's last states, {head.weight.size:,} "
        "weights, stored as float16",
        "Training": f"logistic regression by L-BFGS, L2 {settings.l2:g}, on texts of at most "
        f"{settings.tokens} tokens, read with products in {'bfloat16' if low else 'float32'}",
        "Accuracy": f"{test_figures['accuracy']:.4f} on {test_figures['texts']:,} held-out texts",
        "Loss": f"{test_figures['nats']:.4f} nats a text",
        "Calibration error": calibration_fact(test_figures["ece"]),
    }
    return TrainedGuide({"figures": test_figures}, tensors, facts, [])


def held_out_figures(head: Head, states: Singles, rows: Labelled) -> dict[str, float]:
    """How well labels of held-out texts are predicted; `nats` is the mean −log P of the label."""
    log_p = torch.from_numpy(head.log_odds(states)).log_softmax(-1).numpy()
    test_figures = figures(np.exp(log_p), rows)
    return {
        "texts": len(rows),
        "accuracy": round(test_figures.accuracy, 4),
        "nats": round(float(-(rows.targets * log_p).sum() / len(rows)), 4),
        "ece": round(test_figures.ece, 4),
    }


def text_states(
    base: LanguageModel,
    texts: Sequence[Sequence[int]],
    folder: Path,
    *,
    low: bool = False,
    progress: Progress = no_progress,
) -> Singles:
    """Returns the mean state of each text: (texts, d). A run that was killed goes on in its folder.

    Args:
        texts: ids, at least one each.
        folder: of the checkpoint; it is there.
        low: multiply in bfloat16.
    """
    run = _identity(base, texts, low)
    checkpoint = read_checkpoint(folder, run)
    batches = list(buckets([len(text) + 1 for text in texts], BATCH_TOKENS))
    if checkpoint:
        states, done = checkpoint.tensors["states"], int(checkpoint.about["batches"])
    else:
        width = base.model.get_input_embeddings().weight.shape[1]
        states, done = torch.zeros(len(texts), width), 0
    progress(sum(map(len, batches[:done])))
    unsaved = 0
    for n, rows in enumerate(batches[done:], start=done + 1):
        with torch.autocast(base.device.type, torch.bfloat16, enabled=low):
            states[torch.from_numpy(rows)] = mean_states(base, [texts[i] for i in rows]).cpu()
        progress(len(rows))
        unsaved += len(rows)
        if unsaved >= EVERY or n == len(batches):
            write_checkpoint(folder, run, TrainingState({"states": states}, {"batches": str(n)}))
            unsaved = 0
    array: Singles = states.numpy()
    return array


def _identity(base: LanguageModel, texts: Sequence[Sequence[int]], low: bool) -> str:
    return hashlib.sha256(f"head {base.label} {low} {list(map(list, texts))}".encode()).hexdigest()


TRAINING = GuideTraining(
    train=_train,
    summary="predicts the label of a text from the base's own states, for PPLM",
)

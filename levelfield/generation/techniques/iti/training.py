"""Guides of kind `heads`: for each label and attention head, how what it leaves differs.

    v_c = σ θ̂,   θ = mean over texts with label c − mean over the other labels of the same

θ̂ is θ at length 1, and σ the standard deviation of all texts along it (Li et al. 2023,
"Inference-Time Intervention: Eliciting Truthful Answers from a Language Model", section 4.2, the
direction of means). The base reads each text twice, and nothing is learnt by gradients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from levelfield.core.arrays import Floats
from levelfield.generation.techniques._steering.intervention import taken_heads
from levelfield.generation.techniques._steering.training import (
    POOLED,
    POOLS,
    StateReading,
    accuracies,
    contrasts,
    label_means,
)
from levelfield.generation.techniques.iti.settings import HeadsSettings
from levelfield.models.torch.language_model import language_model
from levelfield.train.builder import Workplace
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide
from levelfield.train.guide.texts import readable, subset
from levelfield.train.labelled import Labelled, LabelledTexts


def unit(vectors: Floats) -> Floats:
    """Returns vectors at length 1; those of length 0 as they are."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Floats = vectors / np.where(length > 0, length, 1)
    return scaled


def deviations(
    reading: StateReading, rows: Labelled, ids: Sequence[Sequence[int]], directions: Floats
) -> Floats:
    """Returns σ of all texts along each direction: (labels, heads, width) -> (labels, heads)."""
    theta, times = torch.from_numpy(directions), torch.from_numpy(rows.times).double()
    total = torch.zeros(directions.shape[:2], dtype=torch.float64)
    squares = torch.zeros_like(total)
    for batch, states in reading.batches(ids):
        along = torch.einsum("thw,chw->tch", states, theta)
        weights = times[torch.from_numpy(batch), None, None]
        total += (weights * along).sum(0)
        squares += (weights * along**2).sum(0)
    mean = total / times.sum()
    sigma: Floats = (squares / times.sum() - mean**2).clamp(min=0).sqrt().numpy()
    return sigma


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = HeadsSettings(**spec.settings)
    base = language_model(spec.start, spec.loading)
    heads = int(base.model.config.get_text_config().num_attention_heads)
    train, ids = readable(subset(texts.train, settings.texts, spec.seed), base, settings.tokens)
    test, test_ids = readable(texts.test, base, settings.tokens)
    place.notes(f"{base.label} reads {len(train):,} texts to learn from, {len(test):,} held out")
    low = spec.precision == "bfloat16"
    pool = POOLS[settings.states]
    reading = StateReading(base, pool, low, place.progress, take=taken_heads, parts=heads)
    means, _ = label_means(reading, train, ids, place.checkpoint)
    directions = unit(contrasts(means))
    sigma = deviations(reading, train, ids, directions)
    shares = accuracies(reading, test, test_ids, means)
    vectors = torch.from_numpy(sigma[..., None] * directions).half()
    best = np.sort(shares)[::-1]
    facts = {
        "Vectors": f"one for each of {len(shares)} attention heads and {len(train.labels)} labels, "
        f"{vectors.numel():,} numbers, stored as float16",
        "Training": f"differences of means of {len(train):,} texts of at most {settings.tokens} "
        f"tokens, {POOLED[settings.states]}, times the deviation along them, read with products "
        f"in {'bfloat16' if low else 'float32'}",
        "Accuracy": f"{best[0]:.4f} on {len(test):,} held-out texts, by the best head; "
        f"{best[min(len(best), 48) - 1]:.4f} by the 48th",
    }
    about = {
        "heads": heads,
        "accuracies": [round(float(share), 4) for share in shares],
        "figures": {"texts": len(test), "accuracy": round(float(best[0]), 4)},
    }
    return TrainedGuide(about, dict(zip(train.labels, vectors, strict=True)), facts, [])


TRAINING = GuideTraining(
    train=_train,
    summary="points from the attention-head outputs of other texts to those of a label, for ITI",
)

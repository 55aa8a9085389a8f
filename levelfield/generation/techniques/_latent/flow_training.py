"""The second stage of a guide of kind `latent`: an invertible flow that makes every label a
Gaussian.

Gu et al. 2023, "Controllable Text Generation via Probability Density Estimation in the Latent
Space", section 3.2. On frozen latents e of label k, with ε = f(e), the loss is
−(log N(ε; μ_k, σ_k²) + log |det dε/de|) / d, and the cross-entropy of the labels of k's attribute
by a small network on ε.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from levelfield.generation.techniques._latent.network import Flow, FlowShape
from levelfield.generation.techniques._training.guide_tasks import GuideTask
from levelfield.train.builder import STAGE
from levelfield.train.guide.texts import AttributeRows
from levelfield.train.loop import Loss, Passes, fit, seeded
from levelfield.train.recipe import Recipe

FLOW_STAGE = f"{STAGE}flow"
"""The folder of this stage's checkpoint."""
BATCH, LEARNING_RATE = 100, 1e-3
NOISE, NOISY = 1e-3, 0.2
"""Standard deviation of what is added to latents, and the share of steps in which it is."""
HEAD = 128
"""Width of the network that tells labels by ε."""

Latents = Sequence[tuple[AttributeRows, torch.Tensor]]
"""The texts of each attribute and their latents, (n, d)."""


@dataclass(frozen=True)
class FlowSettings:
    """How a flow is trained: its size, and for how many steps."""

    shape: FlowShape
    steps: int

    def recipe(self, seed: int) -> Recipe:
        """Returns the rate rises over a twentieth of the steps and falls to a tenth."""
        return Recipe(
            steps=self.steps,
            learning_rate=LEARNING_RATE,
            warmup=self.steps // 20,
            decay=1.0,
            seed=seed,
            every=max(1, self.steps // 4),
        )


class LearntFlow(nn.Module):
    """A flow with a head for labels."""

    def __init__(self, shape: FlowShape, labels: int, seed: int) -> None:
        super().__init__()
        with seeded(seed):
            self.flow = Flow(shape, labels)
            self.head = nn.Sequential(
                nn.Linear(shape.size, HEAD), nn.ReLU(), nn.Linear(HEAD, labels)
            )


@dataclass(frozen=True, eq=False)
class FlowTask(GuideTask):
    """What a flow learns.

    Attributes:
        latents: (n, d); a text with labels of two attributes is there twice.
        label: (n,) of all labels.
        same: (labels, labels), which labels are of one attribute.
        read: names what made the latents.
    """

    latents: torch.Tensor
    label: torch.Tensor
    same: torch.Tensor
    seed: int
    read: str

    @classmethod
    def of(cls, latents: Latents, seed: int, read: str) -> FlowTask:
        """Returns the task of latents by attribute."""
        e = torch.cat([e_of_part for _, e_of_part in latents])
        label = np.concatenate([part.block.start + part.truth for part, _ in latents])
        attribute = torch.tensor([n for n, (part, _) in enumerate(latents) for _ in part.labels])
        same = attribute[:, None] == attribute
        return cls(e, torch.from_numpy(label), same, seed, read)

    @property
    def identity(self) -> str:
        digest = hashlib.sha256(self.latents.numpy().tobytes() + self.label.numpy().tobytes())
        return f"flow {digest.hexdigest()} {self.read}"

    def loss(self, model: LearntFlow, step: int) -> Loss:
        """Returns the sum over the latents of a step."""
        rows = torch.from_numpy(self._passes.rows(step))
        e, label = self.latents[rows], self.label[rows]
        if float(torch.rand(())) < NOISY:
            e = e + NOISE * torch.randn(e.shape)
        epsilon, log_det = model.flow(e)
        log_p = model.flow.log_density(epsilon).gather(1, label[:, None])[:, 0] + log_det
        logits = model.head(epsilon).masked_fill(~self.same[label], -torch.inf)
        total = -log_p.sum() / e.shape[1] + F.cross_entropy(logits, label, reduction="sum")
        return Loss(total, len(rows))

    @functools.cached_property
    def _passes(self) -> Passes:
        n = len(self.label)
        return Passes(np.ones(n, np.intp), [1] * n, BATCH, self.seed)


def train_flow(
    train: Latents, test: Latents, settings: FlowSettings, seed: int, read: str, folder: Path
) -> tuple[Flow, dict[str, float]]:
    """A flow of these latents, and its figures on held-out ones: `density-accuracy-A`, the share
    of texts whose label has the highest density among those of attribute A, and `flow-nats`, the
    mean −log density of a latent under its label, a dimension.
    """
    model = LearntFlow(settings.shape, sum(len(part.labels) for part, _ in train), seed)
    fit(model, FlowTask.of(train, seed, read), settings.recipe(seed), folder)
    figures, nats, n = {}, 0.0, 0
    with torch.inference_mode():
        for part, e in test:
            epsilon, log_det = model.flow(e)
            log_p = model.flow.log_density(epsilon)[:, part.block] + log_det[:, None]
            truth = torch.from_numpy(part.truth)
            right = float((log_p.argmax(1) == truth).double().mean())
            figures[f"density-accuracy-{part.attribute}"] = round(right, 4)
            nats -= float(log_p.double().gather(1, truth[:, None]).sum()) / settings.shape.size
            n += len(e)
    return model.flow, {**figures, "flow-nats": round(nats / max(1, n), 4)}

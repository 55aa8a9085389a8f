"""PriorCTG: a prefix from a latent that is drawn from a density of the labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.techniques._latent.guidance import LatentTechnique, normal
from levelfield.generation.techniques._latent.latents import Flow, LatentModel, flow_clouds

TIME = 5.025
"""½ ∫ β(t) dt from 0 to 1, β(t) = 0.1 + 19.9 t."""


@dataclass(frozen=True, kw_only=True)
class PriorCTG(LatentTechnique):
    """The base after the prefix of a latent that is drawn from a density of the wanted labels.

    An invertible flow f maps latents to a space in which every label is a diagonal Gaussian
    N(μ_k, σ_k²). A request draws ε = μ + λ σ n there, n ~ N(0, I), with μ = Σ α_j μ_j and
    σ² = Σ (clip(α_j, 0, 1) σ_j)², and takes the latent f⁻¹(ε). Of one attribute, α is 1 for the
    wanted label and 0 for others, or, extended by x, 1 + x for the wanted one and −x / (C − 1) for
    each of the other C − 1; of several attributes these are multiplied with the attributes' shares
    w_a / Σ w. Gu et al. (2023), "Controllable Text Generation via Probability Density Estimation in
    the Latent Space", section 3.

    Controls attributes that there is a guide of kind `latent` for; several at once where one guide
    has them all.
    """

    name: ClassVar[str] = "priorctg"
    reach: ClassVar[float] = 14.0
    spread: float = option(
        0.6,
        "Spread λ of the draw; 0 draws nothing. The authors use 0.6 for one attribute and 0.1 to "
        "0.5 for pairs.",
        least=0,
    )
    ode: bool = option(
        False,
        "Follow dz/dt = −½ β(t) ∇ Σ w_k log N(z; μ_k, σ_k²) from t = 1 to 0, which leads from ε "
        "to where the labels' densities are jointly highest; in closed form.",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            **super().choices,
            **self._shown("spread"),
            "extension": self._extension_label,
            "ode": "yes" if self.ode else "no",
            "weights": self.weights or "equal",
        }

    def refusal(self, control: Control) -> str:
        if reason := super().refusal(control):
            return reason
        if control and "flow" not in (guide := self._own_guide(control)).settings:
            return f"{self.name}: guide {guide.name} has no flow"
        return ""

    def _latent(self, control: Control, numbers: torch.Generator) -> torch.Tensor:
        learnt = self._learnt(control)
        assert learnt.flow is not None
        with torch.inference_mode():
            alpha = self._alpha(learnt, control)
            mean, sd = mixed(learnt.flow, alpha)
            epsilon = mean + self.spread * sd * normal(len(mean), numbers)
            if self.ode:
                epsilon = settled(epsilon, learnt.flow, self._shares(learnt, control))
            return learnt.flow.inverse(epsilon[None])[0]

    def _shares(self, learnt: LatentModel, control: Control) -> torch.Tensor:
        """w_a / Σ w at the wanted labels, 0 at others: (labels,)."""
        parts = self._wanted(control)
        shares = torch.zeros(len(learnt.latents), dtype=torch.float64)
        for attribute, label, weight in parts:
            shares[learnt.column(attribute, label)] = weight / sum(w for *_, w in parts)
        return shares

    def _alpha(self, learnt: LatentModel, control: Control) -> torch.Tensor:
        """α of every label of the guide: (labels,)."""
        shares = self._shares(learnt, control)
        alpha = shares.clone()
        for attribute, label, _ in self._wanted(control):
            x = self._extension(flow_clouds(learnt, attribute), label)
            labels = learnt.guide.attributes[attribute]
            share = shares[learnt.column(attribute, label)]
            for other in labels:
                alpha[learnt.column(attribute, other)] = (
                    share * (1 + x) if other == label else -share * x / (len(labels) - 1)
                )
        return alpha


def mixed(flow: Flow, alpha: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Σ α_j μ_j and the square root of Σ (clip(α_j, 0, 1) σ_j)²: (d,) each.

    Args:
        alpha: (labels,), float64.
    """
    mean = alpha @ flow.mean.double()
    sd = (alpha.clip(0, 1)[:, None] * flow.sd.double()).square().sum(0).sqrt()
    return mean, sd


def settled(z: torch.Tensor, flow: Flow, weights: torch.Tensor) -> torch.Tensor:
    """z(0) of dz/dt = −½ β(t) ∇ Σ w_k log N(z; μ_k, σ_k²), with z(1) = z.

    The equation is linear: z(0) = z* + (z(1) − z*) exp(−5.025 P), P = Σ w / σ², z* = Σ (w μ / σ²)
    / P.

    Args:
        z: (d,), float64.
        weights: w, (labels,), not all 0.
    """
    precision = weights[:, None] / flow.sd.double().square()
    P = precision.sum(0)
    best = (precision * flow.mean.double()).sum(0) / P
    return best + (z - best) * torch.exp(-TIME * P)

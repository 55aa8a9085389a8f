"""Techniques with latent prefixes, a latent a request: MultiCTG and PriorCTG."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.contract import Request
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.technique import Prompted
from levelfield.generation.techniques.latent.latents import (
    Clouds,
    Flow,
    LatentModel,
    Wanted,
    centres,
    flow_clouds,
    latent_clouds,
    latent_model,
    scaled_extension,
)
from levelfield.models.guides import Guide, GuideKind
from levelfield.models.torch.draws import stream
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True, kw_only=True)
class LatentTechnique(GuidedTechnique, abc.ABC):
    """A technique that puts the prefix of a latent before each prompt.

    The base reads keys and values of P virtual positions, BOS and the prompt, and writes as ever;
    a prefix costs no pass. Without a control there is no prefix. Attributes that are asked for
    together are of one guide, whose latents share a space. Probabilities (`log_probs`) are given
    the latent that the request has with that seed.

    Raises:
        UserError: a weight is not a number above 0.
    """

    guide_kind: ClassVar[GuideKind] = "latent"
    knob: ClassVar[str] = "extension"
    reach: ClassVar[float]
    weights: str = option(
        "",
        "Weights w of attributes, if several are requested, as in sentiment=2,topic=1; 1 for "
        "attributes that are not named. Only requested attributes count.",
        metavar="ATTR=NUMBER,...",
    )
    extension: float | None = option(
        None,
        "Distance x past the wanted label, away from the attribute's others, in units of the "
        "distance between it and them; 0 for none, as in MultiCTG. PriorCTG's authors try 0.2 for "
        "sentiment and 0.3 for topics.",
        least=0,
        otherwise="as far as clouds that lie close together require, at most 3",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._weight_of  # noqa: B018  (which checks them)

    def refusal(self, control: Control) -> str:
        if reason := super().refusal(control):
            return reason
        guides = {self._guide(attribute).name: attribute for attribute in control}
        if len(guides) > 1:
            owners = " and ".join(
                f"{attribute} (guide {name})" for name, attribute in guides.items()
            )
            return (
                f"{self.name}: {owners} have latents of their own; train one guide for both with "
                f"--attribute {','.join(control)}"
            )
        return ""

    @property
    def _weight_of(self) -> Mapping[str, float]:
        weights = {}
        for part in filter(str.strip, self.weights.split(",")):
            attribute, _, number = part.partition("=")
            try:
                weights[attribute.strip()] = float(number)
            except ValueError:
                weights[attribute.strip()] = math.nan
        for attribute, weight in weights.items():
            if not (math.isfinite(weight) and weight > 0):
                raise UserError(
                    f"weights={self.weights}: expected ATTRIBUTE=NUMBER, separated by commas, "
                    f"numbers above 0; {attribute} has none"
                )
        return weights

    def _labels(self, attribute: str) -> tuple[str, tuple[str, ...]]:
        guide = self._guide(attribute)
        return f"guide {guide.name}", guide.attributes[attribute]

    def _wanted(self, control: Control) -> Wanted:
        """Attribute, label and weight of each attribute of a control, sorted by name."""
        return tuple(
            (attribute, self._wanted_label(attribute, control), self._weight_of.get(attribute, 1.0))
            for attribute in sorted(control)
        )

    @property
    def _extension_label(self) -> str:
        """How signatures name the extension."""
        return "scaled" if self.extension is None else f"{self.extension:g}"

    def _extension(self, clouds: Clouds, label: str) -> float:
        """Returns how far past a label of an attribute a latent goes."""
        if self.extension is not None:
            return self.extension
        return scaled_extension(clouds.separation(label), self.reach)

    def _own_guide(self, control: Control) -> Guide:
        return self._guide(min(control))

    def _learnt(self, control: Control) -> LatentModel:
        return latent_model(self._own_guide(control), self.model, self.loading)

    def _writer(self, control: Control) -> LanguageModel:
        return self._learnt(control).writer if control else self.base

    def _start(self, request: Request) -> list[int]:
        if not request.control:
            return super()._start(request)
        # of an empty prompt BOS is read: after a prefix alone there is no next token
        begins = self.bos is not False and self._own_guide(request.control).reads_bos
        return [self.base.bos_id] if begins else []

    def _virtual(self, control: Control) -> int:
        return self._learnt(control).decoder.shape.positions if control else 0

    def _cache(self, prompted: Sequence[Prompted], seed: int) -> torch.Tensor | None:
        controls = [entry.request.control for entry in prompted]
        if not controls[0]:  # requests of a batch have the same attributes
            return None
        latents = [
            self._latent(entry.request.control, stream(seed, entry.request.id, self.name))
            for entry in prompted
        ]
        return self._learnt(controls[0]).prefix(torch.stack(latents))

    @abc.abstractmethod
    def _latent(self, control: Control, numbers: torch.Generator) -> torch.Tensor:
        """Returns the latent of a request, (d,).

        Args:
            numbers: random ones of this request.
        """


def normal(size: int, numbers: torch.Generator) -> torch.Tensor:
    """Independent standard normal numbers, (size,), float64: Φ⁻¹ of uniform ones, which are the
    same on every machine."""
    u = torch.empty(size, dtype=torch.float64).uniform_(generator=numbers)
    numbers_of: torch.Tensor = torch.special.ndtri(u.clamp_(min=torch.finfo(u.dtype).tiny))
    return numbers_of


@dataclass(frozen=True, kw_only=True)
class MultiCTG(LatentTechnique):
    """The base after the prefix of a latent in the intersection of the wanted labels.

    Labels are clouds of latents of labelled texts. The technique searches for points near the
    clouds of all wanted labels (`intersection_centres`), once for each combination of labels. A
    request uses one of the best n at random, plus a little noise, and the guide's decoder turns it
    into keys and values before the prompt. Gu et al. (2022), "A Distributional Lens for
    Multi-Aspect Controllable Text Generation", section 3.

    Controls attributes that there is a guide of kind `latent` for; several at once where one guide
    has them all.
    """

    name: ClassVar[str] = "multictg"
    reach: ClassVar[float] = 7.0
    neighbours: int = option(
        200,
        "Number K of a label's latents that are averaged near a point; all if a label has fewer.",
        least=1,
    )
    centres: int = option(10, "Number n of best points, one of which a request takes.", least=1)
    noise: float = option(1e-3, "Standard deviation of the noise added to the point.", least=0)

    @property
    def choices(self) -> Mapping[str, str]:
        shown = self._shown("neighbours", "centres", "noise")
        rest = {"weights": self.weights or "equal", "extension": self._extension_label}
        return {**super().choices, **shown, **rest}

    def _latent(self, control: Control, numbers: torch.Generator) -> torch.Tensor:
        best = centres(
            self._own_guide(control),
            self._wanted(control),
            self.neighbours,
            self.centres,
            self.model,
            self.loading,
        )
        which = torch.empty((), dtype=torch.float64).uniform_(generator=numbers)
        centre = best[min(int(which * len(best)), len(best) - 1)]
        return centre + self._away(control) + self.noise * normal(len(centre), numbers)

    def _away(self, control: Control) -> torch.Tensor:
        """Σ_a w_a / Σ w · x_a · (mean of the wanted label − mean of the attribute's others)."""
        learnt, parts = self._learnt(control), self._wanted(control)
        total = sum(weight for *_, weight in parts)
        steps = []
        for attribute, label, weight in parts:
            clouds = latent_clouds(learnt, attribute)
            steps.append(weight / total * self._extension(clouds, label) * clouds.away(label))
        return torch.stack(steps).sum(0)


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

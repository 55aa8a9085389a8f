"""Base of the techniques with a prefix of keys and values that is made from a latent."""

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
from levelfield.generation.techniques._latent.latents import (
    Clouds,
    LatentModel,
    Wanted,
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

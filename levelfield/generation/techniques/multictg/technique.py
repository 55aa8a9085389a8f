"""MultiCTG: a prefix from a point where the latents of the labels meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.techniques._latent.guidance import LatentTechnique, normal
from levelfield.generation.techniques._latent.latents import centres, latent_clouds


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

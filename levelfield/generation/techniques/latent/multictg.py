"""MultiCTG: a prefix from where the latents of all wanted labels meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.techniques.latent.latent import LatentTechnique, normal
from levelfield.generation.techniques.latent.latents import centres


@dataclass(frozen=True, kw_only=True)
class MultiCTG(LatentTechnique):
    """The base behind the prefix of a latent in the intersection of the wanted labels.

    Labels are clouds of latents of labelled texts. Points are sought that are near the clouds of
    all wanted labels (`intersection_centres`), once for each combination of labels. A request takes
    one of the best n at random, plus a little noise, and the guide's decoder turns it into keys and
    values before the prompt. Gu et al. (2022), "A Distributional Lens for Multi-Aspect
    Controllable Text Generation", section 3.

    Controls attributes that there is a guide of kind `latent` for; several at once where one guide
    has them all.
    """

    name: ClassVar[str] = "multictg"
    neighbours: int = option(
        200,
        "Number K of a label's latents that are averaged near a point; all of a label that has "
        "fewer.",
        least=1,
    )
    centres: int = option(10, "Number n of best points, one of which a request takes.", least=1)
    noise: float = option(1e-3, "Standard deviation of the noise added to the point.", least=0)

    @property
    def choices(self) -> Mapping[str, str]:
        shown = self._shown("neighbours", "centres", "noise")
        return {**super().choices, **shown, "weights": self.weights or "equal"}

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
        return centre + self.noise * normal(len(centre), numbers)

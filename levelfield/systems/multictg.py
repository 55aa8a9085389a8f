"""MultiCTG: a prefix from where the latents of all wanted labels meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from levelfield.core.errors import UserError
from levelfield.core.sample import Control
from levelfield.generation.latent import centres
from levelfield.systems.latent import LatentTechnique, normal


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

    Args:
        neighbours: K, latents of a label that the mean near a point is of.
        centres: n, the best points, one of which a request takes.
        noise: standard deviation of what is added to it.
        weights: of attributes, as in `sentiment=2,topic=1`.
        guide: which guides: names or folders with commas between them, each of other attributes;
            empty for those that come with the package.
        model, batch, loading: as of every technique
            (`LocalTechnique`).

    Raises:
        UserError: an option out of range.
    """

    name: ClassVar[str] = "multictg"
    neighbours: int = 200
    centres: int = 10
    noise: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("neighbours", "centres"):
            if (value := getattr(self, option)) < 1:
                raise UserError(f"{option} is {value}; expected a whole number of at least 1")
        if self.noise < 0:
            raise UserError(f"noise is {self.noise:g}; expected at least 0")

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            **super().choices,
            "neighbours": str(self.neighbours),
            "centres": str(self.centres),
            "noise": f"{self.noise:g}",
            "weights": self.weights or "equal",
        }

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

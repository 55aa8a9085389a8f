"""An invertible flow between latents and a space in which every label is a Gaussian.

Gu et al. 2023, "Controllable Text Generation via Probability Density Estimation in the Latent
Space", section 3.2. Blocks are affine couplings (Dinh et al. 2017, "Density estimation using Real
NVP", section 3.2), each followed by a fixed rotation, so that every number meets every other.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from levelfield.core.errors import UserError

LARGEST = 2.0
"""|s| of a coupling, the logarithm of what it multiplies with, stays below this."""


@dataclass(frozen=True)
class FlowShape:
    """The size of a flow.

    Attributes:
        size: d of the latents, at least 2.
        blocks: couplings.
        width: of the hidden layer of a coupling's network.
    """

    size: int
    blocks: int = 8
    width: int = 128

    def __post_init__(self) -> None:
        if self.size < 2 or self.blocks < 1 or self.width < 1:
            raise UserError(
                f"a flow of {self.blocks} blocks of width {self.width} on {self.size} numbers: "
                "expected at least 1 block, a width of 1 and 2 numbers"
            )


class Coupling(nn.Module):
    """y = Q (x_1, x_2 · exp s(x_1) + t(x_1)), with x_1 the first half of x and Q a rotation.

    s and t are two halves of what a network of one hidden layer (LeakyReLU 0.1) makes of x_1; its
    last layer begins at 0, so a new block is its rotation. log |det dy/dx| = Σ s.
    """

    rotation: torch.Tensor

    def __init__(self, shape: FlowShape) -> None:
        super().__init__()
        self._first = shape.size // 2
        second = shape.size - self._first
        last = nn.Linear(shape.width, 2 * second)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        self.net = nn.Sequential(nn.Linear(self._first, shape.width), nn.LeakyReLU(0.1), last)
        Q, R = torch.linalg.qr(torch.randn(shape.size, shape.size, dtype=torch.float64))
        self.register_buffer("rotation", Q * R.diagonal().sign())  # exact, whatever computes

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """y: (rows, d), and log |det dy/dx|: (rows,)."""
        first, second = x[:, : self._first], x[:, self._first :]
        s, t = self._scale_shift(first)
        y = torch.cat([first, second * s.exp() + t], dim=1)
        return y @ self.rotation.T.to(y), s.sum(1)

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """x: (rows, d)."""
        x = y @ self.rotation.to(y)
        first, second = x[:, : self._first], x[:, self._first :]
        s, t = self._scale_shift(first)
        return torch.cat([first, (second - t) * (-s).exp()], dim=1)

    def _scale_shift(self, first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        raw, t = self.net(first).chunk(2, dim=1)
        return LARGEST * (raw / LARGEST).tanh(), t


class Flow(nn.Module):
    """ε = f(e), an invertible map of (rows, d), and a diagonal Gaussian N(μ_k, σ_k²) a label.

    Args:
        labels: how many there are.
    """

    def __init__(self, shape: FlowShape, labels: int) -> None:
        super().__init__()
        self.shape = shape
        self.blocks = nn.ModuleList(Coupling(shape) for _ in range(shape.blocks))
        self.mean = nn.Parameter(torch.zeros(labels, shape.size))
        self.log_sd = nn.Parameter(torch.zeros(labels, shape.size))

    @property
    def sd(self) -> torch.Tensor:
        """σ: (labels, d)."""
        return self.log_sd.exp()

    def forward(self, e: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """ε: (rows, d), and log |det dε/de|: (rows,)."""
        total = e.new_zeros(len(e))
        for block in self.blocks:
            e, log_det = block(e)
            total = total + log_det
        return e, total

    def inverse(self, epsilon: torch.Tensor) -> torch.Tensor:
        """e: (rows, d)."""
        for block in reversed(self.blocks):
            assert isinstance(block, Coupling)
            epsilon = block.inverse(epsilon)
        return epsilon

    def log_density(self, epsilon: torch.Tensor) -> torch.Tensor:
        """log N(ε; μ_k, σ_k²): (rows, labels)."""
        z = (epsilon[:, None] - self.mean) / self.sd
        constant = 0.5 * torch.log(torch.tensor(2 * torch.pi, dtype=epsilon.dtype))
        return -(0.5 * z.square() + self.log_sd + constant).sum(-1)

"""Networks of latents: texts as vectors, vectors as keys and values, and a flow of vectors.

Gu et al. 2022, "A Distributional Lens for Multi-Aspect Controllable Text Generation", section 3.1:
an encoder's vector of a text becomes a latent e = tanh(W x + b), and a linear map turns e into
keys and values of P virtual positions in every layer of a frozen causal model.

Gu et al. 2023, "Controllable Text Generation via Probability Density Estimation in the Latent
Space", section 3.2: an invertible flow leads to a space in which every label is a Gaussian. Its
blocks are affine couplings (Dinh et al. 2017, "Density estimation using Real NVP", section 3.2),
each followed by a fixed rotation, so that every number meets every other; those of the authors'
checkpoint also scale and shift every number before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from levelfield.core.errors import UserError
from levelfield.models.torch.caches import cache_of


@dataclass(frozen=True)
class PrefixShape:
    """The size of a prefix and of the latents that it is made from.

    Attributes:
        size: d of a latent.
        positions: P.
        layers: of the causal model.
        heads: of its keys and values.
        width: of a head.
        rank: of the map from latents to a layer's keys and values; 0 for a map of full rank.
    """

    size: int
    positions: int
    layers: int
    heads: int
    width: int
    rank: int

    def __post_init__(self) -> None:
        for name in ("size", "positions", "layers", "heads", "width"):
            if (value := getattr(self, name)) < 1:
                raise UserError(f"{name} is {value}; expected a whole number of at least 1")
        if self.rank < 0:
            raise UserError(f"rank is {self.rank}; expected at least 0 (0 is full rank)")

    @property
    def flat(self) -> int:
        """Numbers of one position in one layer: keys and values of all heads."""
        return 2 * self.heads * self.width


def cache_shape(model: Any) -> tuple[int, int, int]:
    """Layers, heads of keys and values, and width of a head of a causal model."""
    config = model.config.get_text_config()
    heads = int(config.num_attention_heads)
    cache_heads = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or int(config.hidden_size) // heads
    return int(config.num_hidden_layers), int(cache_heads), int(width)


def keys_and_values(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """What a causal model keeps of tokens: (rows, tokens) -> (rows, layers, 2, heads, tokens,
    width)."""
    with torch.inference_mode():
        cache = cache_of(model(input_ids=ids, use_cache=True))
    layers = [torch.stack([layer.keys, layer.values], dim=1) for layer in cache.layers]
    return torch.stack(layers, dim=1).clone()


class PrefixDecoder(nn.Module):
    """Latents (rows, d) -> a prepared cache (rows, layers, 2, heads, P, width).

    Of full rank: D e + c. Of rank r: the state of position p is h_p = W_p e, (r,), and layer l has
    the keys and values U_l h_p + c_lp there; so layers share W, positions share U, and a base of 30
    layers takes a megabyte.

    Args:
        offset: c, keys and values to begin with: (layers, 2, heads, P, width).
    """

    def __init__(self, shape: PrefixShape, offset: torch.Tensor | None = None) -> None:
        super().__init__()
        self.shape = shape
        sizes = (shape.layers, shape.positions, shape.flat)
        if offset is None:
            begin = torch.zeros(sizes)
        else:  # (layers, P, 2, heads, width)
            begin = offset.permute(0, 3, 1, 2, 4).reshape(sizes).float().clone()
        self.offset = nn.Parameter(begin)
        if shape.rank:
            states = torch.randn(shape.positions, shape.rank, shape.size) / shape.size**0.5
            self.states = nn.Parameter(states)
            self.layers = nn.Parameter(torch.zeros(shape.layers, shape.flat, shape.rank))
        else:
            self.full = nn.Parameter(torch.zeros(*sizes, shape.size))

    def forward(self, e: torch.Tensor) -> torch.Tensor:
        """Keys and values of every layer, head and position."""
        shape = self.shape
        if shape.rank:
            states = torch.einsum("prd,nd->npr", self.states, e)
            flat = torch.einsum("lfr,npr->nlpf", self.layers, states)
        else:
            flat = torch.einsum("lpfd,nd->nlpf", self.full, e)
        flat = flat + self.offset
        apart = flat.reshape(*flat.shape[:-1], 2, shape.heads, shape.width)
        return apart.permute(0, 1, 3, 4, 2, 5).contiguous()


class LatentEncoder(nn.Module):
    """Vectors of texts (rows, width) -> latents e = tanh(W (x − m) / s + b): (rows, d).

    Args:
        mean: m, (width,).
        scale: s; (x − m) / s has a length of about 1, so that, W being normal, numbers of a new
            encoder are neither all alike nor all at the ends of tanh.
    """

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, mean: torch.Tensor, scale: float, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float().clone())
        self.register_buffer("scale", torch.tensor(float(scale)))
        self.linear = nn.Linear(len(mean), size)
        nn.init.normal_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Latents, each number between -1 and 1."""
        latents: torch.Tensor = self.linear((x - self.mean) / self.scale).tanh()
        return latents


LARGEST = 2.0
"""|s| of a coupling, the logarithm of what it multiplies with, stays below this."""


@dataclass(frozen=True)
class FlowShape:
    """The size of a flow.

    Attributes:
        size: d of the latents, at least 2.
        blocks: couplings.
        width: of the hidden layer of a coupling's network.
        actnorm: whether each block scales and shifts every number before its rotation (Kingma and
            Dhariwal 2018, "Glow", section 3.1), as flows of PriorControl's authors do.
    """

    size: int
    blocks: int = 8
    width: int = 128
    actnorm: bool = False

    def __post_init__(self) -> None:
        if self.size < 2 or self.blocks < 1 or self.width < 1:
            raise UserError(
                f"a flow of {self.blocks} blocks of width {self.width} on {self.size} numbers: "
                "expected at least 1 block, a width of 1 and 2 numbers"
            )


class Coupling(nn.Module):
    """y = Q (x_1, x_2 · exp s(x_1) + t(x_1)), with x_1 the first half of x and Q a rotation.

    s and t are two halves of what a network of one hidden layer (LeakyReLU 0.1) makes of x_1; its
    last layer begins at 0, so a new block is its rotation. log |det dy/dx| = Σ s. With `actnorm` it
    is y = Q (a · (…) + b), and log |det dy/dx| = Σ s + Σ log a.
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
        self._actnorm = shape.actnorm
        if shape.actnorm:
            self.log_scale = nn.Parameter(torch.zeros(shape.size))
            self.shift = nn.Parameter(torch.zeros(shape.size))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """y: (rows, d), and log |det dy/dx|: (rows,)."""
        first, second = x[:, : self._first], x[:, self._first :]
        s, t = self._scale_shift(first)
        y = torch.cat([first, second * s.exp() + t], dim=1)
        log_det = s.sum(1)
        if self._actnorm:
            y = y * self.log_scale.exp() + self.shift
            log_det = log_det + self.log_scale.sum()
        return y @ self.rotation.T.to(y), log_det

    def inverse(self, y: torch.Tensor) -> torch.Tensor:
        """x: (rows, d)."""
        x = y @ self.rotation.to(y)
        if self._actnorm:
            x = (x - self.shift) * (-self.log_scale).exp()
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

"""Sequential Monte Carlo: several texts a request that grow together, and are weighted by what a
guide expects of them.

Zhao et al. (2024), "Probabilistic Inference in Language Models via Twisted Sequential Monte Carlo",
sections 2 and 3; Lew et al. (2023), "Sequential Monte Carlo Steering of Large Language Models using
Probabilistic Programs", section 2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from levelfield.core.options import Options, option
from levelfield.generation.contract import AnsweringTechnique, Decoding, Request
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.logits.readers import Texts
from levelfield.generation.sampling import Continuation, Growth
from levelfield.generation.technique import InChat, Prompted, text_mask
from levelfield.generation.techniques._future.guidance import FutureGuide, future_label
from levelfield.generation.width import TextRows
from levelfield.models.guides import GuideKind
from levelfield.models.torch.decoding import CausalRows
from levelfield.models.torch.draws import inverse_cdf, stream


@dataclass(frozen=True)
class Particle:
    """One of the texts that grow for a request.

    Attributes:
        row: of the batch that the text is; None once it has ended.
        ids: its tokens.
        steps: tokens drawn, one that ends the text included.
        log_b: Σ_a log B_a(c_a | prompt and text).
        log_w: logarithm of its weight.
    """

    row: int | None
    ids: tuple[int, ...] = ()
    steps: int = 0
    log_b: float = 0.0
    log_w: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ParticleOptions(Options):
    """How particles are weighted and resampled."""

    particles: int = option(
        16, "Number N of texts that grow for a request, one of which is the answer.", least=1
    )
    strength: float = option(
        60.0, "Strength λ, the exponent of the guide's prediction; 0 is the base."
    )
    threshold: float = option(
        0.5,
        "Share of N: if the effective number of particles, 1 / Σ W², falls below it, they are "
        "resampled; 0 weights only whole texts.",
        least=0,
        most=1,
    )


class ParticleCloud:
    """The particles of one request.

    Args:
        row: of the batch that the prompt is.
        budget: the most tokens of a text.
        numbers: random ones of this request.

    Attributes:
        particles: in an order that says nothing.
        passes: rows sent through the base so far, a prompt counting as one, and through guides.
    """

    def __init__(
        self, options: ParticleOptions, row: int, budget: int, numbers: torch.Generator
    ) -> None:
        self._options, self._budget, self._numbers = options, budget, numbers
        self.particles = [Particle(row)] * options.particles
        self.passes = 0

    @property
    def rows(self) -> list[int]:
        """Returns the row of each particle whose text has not ended."""
        return [particle.row for particle in self.particles if particle.row is not None]

    @property
    def log_w(self) -> torch.Tensor:
        """(particles,), float64; the mean of w is an unbiased estimate of Σ_x p(x) Π_a (B_a(c_a |
        x) / B_a(c_a | prompt))^λ."""
        return torch.tensor([p.log_w for p in self.particles], dtype=torch.float64)

    def begin(self, log_b: float, passes: int) -> None:
        """Begins all texts after the prompt.

        Args:
            log_b: of the prompt.
            passes: that reading the prompt took.
        """
        self.particles = [replace(p, log_b=log_b) for p in self.particles]
        self.passes = passes

    def number(self, numbers: Iterator[int]) -> None:
        """Makes the next numbers the rows of the particles that grow."""
        self.particles = [
            p if p.row is None else replace(p, row=next(numbers)) for p in self.particles
        ]

    def extend(self, tokens: Sequence[int], log_b: Sequence[float], growth: Growth) -> None:
        """Gives each particle the token of its row, and its weight the factor (B(new) /
        B(old))^λ; a token that ends a text leaves it as it is."""
        self.particles = [
            p if p.row is None else self._extended(p, tokens[p.row], log_b[p.row], growth)
            for p in self.particles
        ]

    def _extended(self, p: Particle, token: int, log_b: float, growth: Growth) -> Particle:
        if token in growth.ends:
            return replace(p, row=None, steps=p.steps + 1)
        ids = (*p.ids, token)
        has_ended = len(ids) == self._budget or growth.is_over(ids)
        log_w = p.log_w + self._options.strength * (log_b - p.log_b)
        return Particle(None if has_ended else p.row, ids, p.steps + 1, log_b, log_w)

    def resample(self) -> None:
        """Resamples the particles where few of them have most of the weight; all have the mean
        weight then. Nothing happens once all texts have ended."""
        log_w, n = self.log_w, len(self.particles)
        few = self._options.threshold * n
        if self.rows and 1 / log_w.softmax(0).square().sum() < few:
            mean = float(log_w.logsumexp(0)) - math.log(n)
            self.particles = [replace(p, log_w=mean) for p in self.drawn(n)]

    def answer(self) -> Continuation:
        """Draws one of the texts by weight."""
        (particle,) = self.drawn(1)
        return Continuation([*particle.ids], particle.steps, self.passes)

    def drawn(self, n: int) -> list[Particle]:
        """Returns n particles by systematic resampling: a particle of share W is there n W times,
        rounded up or down."""
        u = torch.rand((), dtype=torch.float64, generator=self._numbers)
        places = (u + torch.arange(n)) / n
        W = self.log_w.softmax(0)
        return [self.particles[k] for k in inverse_cdf(W.expand(n, -1), places).tolist()]


def grow_clouds(
    rows: CausalRows,
    base: SteeringProcessor,
    guides: Sequence[FutureGuide],
    clouds: Sequence[ParticleCloud],
    growth: Growth,
) -> None:
    """Extends all particles until their texts have ended.

    The particles of all clouds are rows of one batch. A prompt is read once.

    Args:
        rows: the base after the prompts, one a cloud.
        base: makes log-probabilities of its logits.
        guides: one an attribute, after the prompts.
        growth: of the particles in their order.
    """

    def follow(order: Sequence[int]) -> torch.Tensor:
        """Makes these rows, some of them several times, the rows of the growing particles."""
        kept = torch.tensor(order, device=rows.ids.device)
        if order != [*range(len(rows.ids))]:
            rows.keep(kept)
            base.keep(kept)
            for guide in guides:
                guide.keep(kept)
        numbers = itertools.count()
        for cloud in clouds:
            cloud.number(numbers)
        return kept

    def expected() -> list[float]:
        """Returns Σ_a log B_a(c_a | text) of each row."""
        return torch.stack([guide.log_b_of_texts() for guide in guides]).sum(0).tolist()

    scores = base(rows.ids, rows.logits())
    for cloud, log_b in zip(clouds, expected(), strict=True):
        cloud.begin(log_b, 1 + len(guides))
    scores = scores[follow([row for cloud in clouds for row in cloud.rows])]
    while True:
        tokens = growth.choice(scores)
        for guide in guides:
            guide.read(tokens)
        drawn, log_b_of_rows = tokens.tolist(), expected()
        for cloud in clouds:
            cloud.passes += len(cloud.rows) * len(guides)
            cloud.extend(drawn, log_b_of_rows, growth)
            cloud.resample()
            cloud.passes += len(cloud.rows)
        order = [row for cloud in clouds for row in cloud.rows]
        if not order:
            return
        kept = follow(order)
        growth.choice.keep(order)
        rows.read(tokens[kept])
        scores = base(rows.ids, rows.logits())


@dataclass(frozen=True, kw_only=True)
class SMC(ParticleOptions, InChat, GuidedTechnique):
    """One of N texts of the base that grow together, drawn by weight; texts follow
    p(x) Π_a B_a(c_a | x)^λ / Z as N grows.

    A particle is a text that the base draws token by token. The token x_t multiplies its weight by
    Π_a (B_a(c_a | x_1 … x_t) / B_a(c_a | x_1 … x_t−1))^λ, so that the weight of a text is the twist
    Π_a B_a(c_a | x)^λ. If few particles have most of the weight, they are resampled by weight and
    continue with equal weights. B is what FUDGE adds to the logits, token by token; here whole
    texts are weighted, and no token is excluded. Zhao et al. (2024), "Probabilistic Inference in
    Language Models via Twisted Sequential Monte Carlo", section 3; Lew et al. (2023), "Sequential
    Monte Carlo Steering of Large Language Models using Probabilistic Programs".

    Controls attributes that have a guide of kind `future`, several at once; sentiment by the guide
    that comes with the package.
    """

    name: ClassVar[str] = "smc"
    guide_kind: ClassVar[GuideKind] = "future"
    _without_log_probs: ClassVar[str] = " draws one of several texts, so no token has a probability"

    @property
    def choices(self) -> Mapping[str, str]:
        shown = self._shown("particles", "threshold")
        return {**self._shown("strength"), **super().choices, **shown}

    def _text_rows(self, request: Request, decoding: Decoding) -> TextRows:  # noqa: ARG002
        guides = len(request.control)
        return TextRows(self.particles, (1 + guides) * self.particles)

    log_probs = AnsweringTechnique.log_probs

    @property
    def _no_processor(self) -> str:
        return f"{self.name} has no logits processor; its `generate` writes texts"

    def _continue(
        self, prompted: Sequence[Prompted], decoding: Decoding, seed: int
    ) -> list[Continuation]:
        if not (self.strength and prompted[0].request.control):
            return self.uncontrolled._continue(prompted, decoding, seed)
        return [cloud.answer() for cloud in self._clouds(prompted, decoding, seed)]

    def _clouds(
        self, prompted: Sequence[Prompted], decoding: Decoding, seed: int
    ) -> list[ParticleCloud]:
        """Returns the particles of each request, whose texts have ended."""
        lm, mask = self.base, text_mask(prompted)
        controls = [entry.request.control for entry in prompted]
        particles = [_named(entry, k) for entry in prompted for k in range(self.particles)]
        budget = decoding.max_new_tokens
        clouds = [
            ParticleCloud(self, row, budget, stream(seed, entry.request.id, self.name))
            for row, entry in enumerate(prompted)
        ]
        with torch.inference_mode():
            rows = CausalRows.of(lm.model, [entry.ids for entry in prompted], lm.bos_id, lm.device)
            # requests of a batch have the same attributes
            guides = [future_label(self, name).reader(controls) for name in sorted(controls[0])]
            for guide in guides:
                guide.start(Texts(rows.ids, mask.to(lm.device)))
            base = SteeringProcessor(None, controls, mask=mask, decoding=decoding)
            grow_clouds(rows, base, guides, clouds, self._growth(particles, decoding, seed))
        return clouds


def _named(entry: Prompted, k: int) -> Prompted:
    """Returns what the base reads for particle k, whose random numbers are its own; the first has
    those of the request."""
    id = f"{entry.request.id} (particle {k + 1})" if k else entry.request.id
    return entry._replace(request=replace(entry.request, id=id))

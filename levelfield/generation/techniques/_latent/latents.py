"""Latent prefixes beside a base that writes: a guide's latents, its decoder and its flow.

Gu et al. 2022, "A Distributional Lens for Multi-Aspect Controllable Text Generation"; Gu et al.
2023, "Controllable Text Generation via Probability Density Estimation in the Latent Space".

Gu et al. 2022, "A Distributional Lens for Multi-Aspect Controllable Text Generation", section 3.2.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from levelfield.core.errors import ModelError
from levelfield.generation.guides import KEPT, weights_on_base
from levelfield.generation.techniques._latent.network import Flow as Flow
from levelfield.generation.techniques._latent.network import (
    FlowShape,
    PrefixDecoder,
    PrefixShape,
    cache_shape,
)
from levelfield.models.guides import Guide
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import OFFLINE_LM
from levelfield.models.torch.early_exit import with_lower_layers
from levelfield.models.torch.language_model import LanguageModel

ITERATIONS = 15
CANDIDATES = 1000
"""The number of points kept of each label's seeds, and that of all of them."""
ROWS = 512
"""The number of points whose distances are computed at once."""


def intersection_centres(
    clouds: Sequence[torch.Tensor],
    weights: Sequence[float],
    neighbours: int,
    n: int,
    *,
    iterations: int = ITERATIONS,
    candidates: int = CANDIDATES,
) -> torch.Tensor:
    """Points that are near the latents of every label at once, best first: (at most n, d), float64.

    N_a(q) is the mean of the K latents of label a that are nearest to q, and the score of q is
    −mean_a mean ‖q − x‖² over those latents. Every latent x of a label i is a seed
    q = (x + Σ_{j≠i} N_j(x)) / A; the best seeds of each label, and of those the best, go on. Then
    q ← Σ_a w_a N_a(q) / Σ_a w_a, several times, with the weights of these labels and no others. Of
    one label alone this climbs to where its latents are dense.

    Args:
        clouds: the latents of each label, (n_a, d).
        weights: w, one a label.
        neighbours: K; of a label with fewer latents, all.
        n: points that are returned.
        iterations, candidates: how often points move, and how many do.
    """
    X = [cloud.double() for cloud in clouds]
    seeds = []
    for i, x in enumerate(X):
        others = [_nearest(x, other, neighbours)[0] for j, other in enumerate(X) if j != i]
        q = (x + sum(others)) / len(X)
        seeds.append(_best(q, X, neighbours, candidates))
    q = _best(torch.cat(seeds), X, neighbours, candidates)
    total = sum(weights)
    for _ in range(iterations):
        means = [_nearest(q, x, neighbours)[0] for x in X]
        q = torch.stack([w / total * mean for w, mean in zip(weights, means, strict=True)]).sum(0)
    return _best(q, X, neighbours, n)


def _best(q: torch.Tensor, X: Sequence[torch.Tensor], k: int, n: int) -> torch.Tensor:
    """Returns the n points of the highest score, best first; the first of equals first."""
    distance = torch.stack([_nearest(q, x, k)[1] for x in X]).mean(0)
    return q[distance.argsort(stable=True)[:n]]


def _nearest(q: torch.Tensor, X: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean of the k of X that are nearest to each q, (rows, d), and their mean squared distance,
    (rows,)."""
    k = min(k, len(X))
    means, distances = [], []
    for chunk in torch.split(q, ROWS):
        squared = torch.cdist(chunk, X, compute_mode="donot_use_mm_for_euclid_dist").square()
        near = squared.topk(k, dim=1, largest=False)
        share = torch.zeros_like(squared).scatter_(1, near.indices, 1 / k)
        means.append(share @ X)
        distances.append(near.values.mean(1))
    return torch.cat(means), torch.cat(distances)


COMBINATIONS = 256
"""This many combinations of labels have their intersections kept."""


@dataclass(frozen=True, eq=False)
class LatentModel:
    """A guide of kind `latent` with its weights.

    Attributes:
        guide: what was learnt.
        writer: the model that prefixes are for: the base, or its lower layers where the guide's
            `layers` says so. (The checkpoint that the authors of MultiCTG published was trained
            and run on 16 of GPT-2 medium's 24 layers.)
        decoder: latents -> prefixes.
        latents: label of an attribute -> those of its texts, (n, d).
        flow: between latents and Gaussians; None where the guide has none.
    """

    guide: Guide
    writer: LanguageModel
    decoder: PrefixDecoder
    latents: Mapping[tuple[str, str], torch.Tensor]
    flow: Flow | None

    def prefix(self, e: torch.Tensor) -> torch.Tensor:
        """Latents (rows, d) -> prefixes of the base, (rows, layers, 2, heads, P, width)."""
        with torch.inference_mode():
            prefix: torch.Tensor = self.decoder(e.float())
        return prefix.to(next(self.writer.model.parameters()))

    def column(self, attribute: str, label: str) -> int:
        """Returns the place of a label among those of all attributes."""
        return list(self.latents).index((attribute, label))


@functools.lru_cache(maxsize=KEPT)
def latent_model(guide: Guide, model: str = OFFLINE_LM, loading: Loading = AS_USUAL) -> LatentModel:
    """Returns the latents, decoder and flow of a guide on its base, loaded once a process.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    labels = [(name, label) for name, labels in guide.attributes.items() for label in labels]
    with weights_on_base(
        guide, "latent", model, loading, ("encoder.", "decoder.", "latents.", "flow.")
    ) as (
        base,
        tensors,
    ):
        decoder = PrefixDecoder(PrefixShape(**guide.settings["prefix"]))
        decoder.load_state_dict(_part(tensors, "decoder."))
        latents = {label: tensors[f"latents.{i}"].float() for i, label in enumerate(labels)}
        flow = None
        if (shape := guide.settings.get("flow")) is not None:
            flow = Flow(FlowShape(**shape), len(labels)).double()
            flow.load_state_dict(_part(tensors, "flow."))
            flow.requires_grad_(False).eval()
    layers = int(guide.settings.get("layers", cache_shape(base.model)[0]))
    shorter = with_lower_layers(base.model, layers)
    writer = LanguageModel(shorter, base.tokenizer, base.label, base.tokens, base.ends)
    has, takes = decoder.shape, cache_shape(shorter)
    if (has.layers, has.heads, has.width) != takes:
        raise ModelError(
            f"guide '{guide.name}' has prefixes of {has.layers} layers, {has.heads} heads of "
            f"width {has.width}; the base takes {' · '.join(map(str, takes))}"
        )
    return LatentModel(guide, writer, decoder.requires_grad_(False).eval(), latents, flow)


def _part(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


@dataclass(frozen=True, eq=False)
class Clouds:
    """Where the labels of an attribute lie, each with a diagonal covariance.

    Attributes:
        labels: their names.
        mean: μ of each, (labels, d), float64.
        variance: σ² of each, (labels, d), float64.
    """

    labels: Sequence[str]
    mean: torch.Tensor
    variance: torch.Tensor

    def away(self, label: str) -> torch.Tensor:
        """The mean of a label minus the mean of the others' means: (d,)."""
        is_label = torch.tensor([name == label for name in self.labels])
        return self.mean[is_label][0] - self.mean[~is_label].mean(0)

    def separation(self, label: str) -> float:
        """The length of `away` in standard deviations, those of all labels together: √ Σ_i a_i² /
        σ_i², with σ² the mean of the labels' variances."""
        return float((self.away(label).square() / self.variance.mean(0)).sum().sqrt())


def latent_clouds(model: LatentModel, attribute: str) -> Clouds:
    """Returns the clouds of an attribute's latents."""
    labels = model.guide.attributes[attribute]
    clouds = [model.latents[attribute, label].double() for label in labels]
    means = torch.stack([cloud.mean(0) for cloud in clouds])
    return Clouds(labels, means, torch.stack([cloud.var(0, correction=0) for cloud in clouds]))


def flow_clouds(model: LatentModel, attribute: str) -> Clouds:
    """Returns the Gaussians of an attribute's labels in the space after the flow."""
    assert model.flow is not None
    labels = model.guide.attributes[attribute]
    columns = [model.column(attribute, label) for label in labels]
    flow = model.flow
    return Clouds(labels, flow.mean.double()[columns], flow.sd.double()[columns].square())


FURTHEST = 3.0
"""The most that a label is extended by where nothing says how far."""


def scaled_extension(separation: float, reach: float) -> float:
    """Returns the extension x ≥ 0 with (1 + x) · separation = reach; at most 3.

    Of labels whose clouds are far apart the mean alone tells which is meant; where they lie close
    together, as those of sentiment do, texts of the mean hardly differ.

    >>> scaled_extension(4.0, 14.0)
    2.5
    """
    return min(FURTHEST, max(0.0, reach / separation - 1)) if separation else FURTHEST


Wanted = tuple[tuple[str, str, float], ...]
"""Attribute, label and weight of each attribute that is asked for."""


@functools.lru_cache(maxsize=COMBINATIONS)
def centres(
    guide: Guide, labels: Wanted, neighbours: int, n: int, model: str, loading: Loading
) -> torch.Tensor:
    """The n best points in the intersection of these labels' latents, best first: (n, d), float64;
    searched once a process."""
    learnt = latent_model(guide, model, loading)
    clouds = [learnt.latents[attribute, label] for attribute, label, _ in labels]
    return intersection_centres(clouds, [weight for *_, weight in labels], neighbours, n)

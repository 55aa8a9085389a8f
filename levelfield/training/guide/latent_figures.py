"""How good latents and prefixes are on held-out texts, and what the card says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from levelfield.models.batching import buckets
from levelfield.training.guide.attributes import AttributeRows, by_attribute
from levelfield.training.guide.latent_network import LearntLatent
from levelfield.training.guide.settings import LatentSettings
from levelfield.training.labelled import Labelled
from levelfield.training.recipe import Recipe

TEST_TEXTS, TEST_TOKENS = 256, 2048
"""Perplexities are of so many held-out texts at most; so many tokens are read at once."""


def held_out_figures(
    model: LearntLatent,
    test: Labelled,
    attribute: str,
    ids: Sequence[Sequence[int]],
    e: torch.Tensor,
) -> dict[str, float]:
    """What latents know of labels, and prefixes of texts, on held-out texts.

    `accuracy-A` is of the head for attribute A. `perplexity` is of texts behind the prefixes of
    their own latents, `perplexity-base` without prefixes, `perplexity-label` behind the prefix of
    the mean latent of their label, `perplexity-other` behind that of the next label of the
    attribute; exp of the mean nats a token.

    Args:
        e: latents of the held-out texts.
    """
    figures = {}
    held_out = by_attribute(test, attribute)
    own: list[tuple[int, AttributeRows, int]] = []
    with torch.inference_mode():
        logits = model.head(e.to(model.head.weight)).cpu()
    means = []
    for part in held_out:
        right = logits[torch.from_numpy(part.at), part.block].argmax(1).numpy() == part.truth
        figures[f"accuracy-{part.attribute}"] = round(float(right.mean()), 4)
        own += [(int(i), part, int(label)) for i, label in zip(part.at, part.truth, strict=True)]
        means.append(
            torch.stack(
                [
                    e[torch.from_numpy(part.at[part.truth == label])].mean(0)
                    for label in range(len(part.labels))
                ]
            ).nan_to_num()
        )
    centre = {part.attribute: mean for part, mean in zip(held_out, means, strict=True)}
    some = own[:: max(1, -(-len(own) // TEST_TEXTS))]
    of = {
        "perplexity": torch.stack([e[i] for i, _, _ in some]),
        "perplexity-label": torch.stack([centre[p.attribute][c] for _, p, c in some]),
        "perplexity-other": torch.stack(
            [centre[p.attribute][(c + 1) % len(p.labels)] for _, p, c in some]
        ),
        "perplexity-base": None,
    }
    texts = [ids[i] for i, _, _ in some]
    for name, rows in of.items():
        figures[name] = round(_perplexity(model, rows, texts), 4)
    return figures


def _perplexity(
    model: LearntLatent, e: torch.Tensor | None, texts: Sequence[Sequence[int]]
) -> float:
    nats = 0.0
    with torch.inference_mode():
        for rows in buckets([len(one) for one in texts], TEST_TOKENS):
            some = [texts[i] for i in rows]
            prefix = None
            if e is not None:
                prefix = model.decoder(e[torch.from_numpy(rows)].to(model.head.weight))
            nats += float(model.nats_behind(prefix, some).double().sum())
    return float(np.exp(nats / sum(map(len, texts))))


def facts(
    model: LearntLatent,
    settings: LatentSettings,
    recipe: Recipe,
    of_test: Mapping[str, float],
    texts: int,
) -> dict[str, str]:
    """Rows for the card.

    Args:
        texts: that were learnt from.
    """
    shape = model.decoder.shape
    numbers = sum(p.numel() for m in (model.encoder, model.decoder) for p in m.parameters())
    rank = f"of rank {shape.rank}" if shape.rank else "of full rank"
    accuracies = [
        f"{name.removeprefix('accuracy-')} {value:.4f}"
        for name, value in of_test.items()
        if name.startswith("accuracy-")
    ]
    by_density = [
        f"{name.removeprefix('density-accuracy-')} {value:.4f}"
        for name, value in of_test.items()
        if name.startswith("density-accuracy-")
    ]
    return {
        "Latents": f"{shape.size} numbers, from embeddings of {settings.encoder}; at most "
        f"{settings.kept:,} a label are kept, as float16",
        "Prefixes": f"{shape.positions} positions in all {shape.layers} layers, by a linear map "
        f"{rank}; with the encoder {numbers:,} parameters, stored as float16",
        "Flow": f"{settings.flow_blocks} affine couplings of width {settings.flow_width}, "
        f"{settings.flow_steps:,} steps; stored as float32",
        "Learnt from": f"{texts:,} of these texts",
        "Training": f"{recipe.steps:,} steps of {settings.batch} texts of at most "
        f"{settings.tokens} tokens, learning rate {settings.learning_rate:g}, products in "
        f"{recipe.precision}",
        "Accuracy": f"{', '.join(accuracies)}, of the head on held-out texts; "
        f"{', '.join(by_density)} of the densities behind the flow",
        "Perplexity": f"{of_test['perplexity']:.1f} behind the prefixes of the texts' own latents, "
        f"{of_test['perplexity-label']:.1f} behind that of their label's mean, "
        f"{of_test['perplexity-other']:.1f} of another label's, {of_test['perplexity-base']:.1f} "
        "without",
    }

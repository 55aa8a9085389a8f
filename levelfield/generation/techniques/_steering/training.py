"""Guides of kind `vector`: for each label and layer, how states of its texts differ from others'.

    v_c = mean of the states of texts with label c − mean over the other labels of the same

(Rimsky et al. 2024, "Steering Llama 2 via Contrastive Activation Addition", section 3, with texts
of a label in place of answers to one question). The base reads each text once, and nothing is
learnt by gradients.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from levelfield.core.arrays import Codes, Floats
from levelfield.core.errors import UserError
from levelfield.core.progress import Progress
from levelfield.generation.techniques._steering.settings import VectorSettings
from levelfield.models.tokens import buckets, padded, token_mask
from levelfield.models.torch.decoder_layers import decoder_layers
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train.builder import Workplace
from levelfield.train.checkpoint import TrainingState, read_checkpoint, write_checkpoint
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide
from levelfield.train.guide.texts import readable, subset
from levelfield.train.labelled import Labelled, LabelledTexts

EVERY = 512
"""Texts between checkpoints."""
BATCH_TOKENS = 2048
"""This many tokens are read at once."""

Pool = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""States (texts, tokens, width) and which tokens are real (texts, tokens) -> (texts, width)."""


def mean_state(states: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Returns the mean over the tokens of each text."""
    return (states * real[..., None]).sum(1) / real.sum(1, keepdim=True)


def last_state(states: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Returns the state of each text's last token."""
    rows = torch.arange(len(states), device=states.device)
    return states[rows, real.sum(1).long() - 1]


POOLS: dict[str, Pool] = {"mean": mean_state, "last": last_state}


Take = Callable[[LanguageModel, Callable[[int, torch.Tensor], None]], list[RemovableHandle]]
"""Base, and what receives (layer, states of a batch) as the base reads -> hooks to remove."""


def take_states(
    base: LanguageModel, receive: Callable[[int, torch.Tensor], None]
) -> list[RemovableHandle]:
    """What each layer leaves: (texts, tokens, width)."""

    def record(layer: int, _: Any, __: Any, output: Any) -> None:
        receive(layer, output[0] if isinstance(output, tuple) else output)

    _, layers = decoder_layers(base.model)
    return [
        layer.register_forward_hook(functools.partial(record, n)) for n, layer in enumerate(layers)
    ]


def layer_states(
    base: LanguageModel, texts: Sequence[Sequence[int]], pool: Pool, take: Take = take_states
) -> torch.Tensor:
    """Returns the state that each layer leaves of each text: (texts, layers, width), float32.

    Args:
        texts: ids without BOS, at least one each.
        pool: makes one state of those of a text's tokens, BOS not among them.
        take: which states of a layer.
    """
    opening = base.opening
    rows = torch.from_numpy(padded([[*opening, *text] for text in texts], base.bos_id))
    real = torch.from_numpy(token_mask(texts)).float().to(base.device)
    pooled: dict[int, torch.Tensor] = {}

    def receive(layer: int, states: torch.Tensor) -> None:
        pooled[layer] = pool(states[:, len(opening) :].float(), real)

    handles = take(base, receive)
    try:
        with torch.inference_mode():
            # padding follows the texts, where a causal model does not see it
            base.model.base_model(input_ids=rows.to(base.device), use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack([pooled[n] for n in sorted(pooled)], dim=1)


@dataclass(frozen=True)
class StateReading:
    """How a base reads texts.

    Attributes:
        base: of the guide.
        pool: makes one state of those of a text's tokens.
        low: whether products are in bfloat16.
        progress: receives the number of texts read.
        take: which states of a layer.
        parts: number of equal parts of a layer's states that count as layers of their own.
    """

    base: LanguageModel
    pool: Pool
    low: bool
    progress: Progress
    take: Take = take_states
    parts: int = 1

    def batches(
        self, texts: Sequence[Sequence[int]], begin: int = 0
    ) -> Iterator[tuple[Codes, torch.Tensor]]:
        """Yields places of texts, and their states: (texts, layers, width), float64.

        Args:
            begin: number of batches to leave out at the beginning.
        """
        batches = list(buckets([len(text) + 1 for text in texts], BATCH_TOKENS))
        self.progress(sum(map(len, batches[:begin])))
        for rows in batches[begin:]:
            kind = self.base.device.type
            with torch.autocast(kind, torch.bfloat16, enabled=self.low):
                states = layer_states(self.base, [texts[i] for i in rows], self.pool, self.take)
            part_states = states.reshape(len(states), states.shape[1] * self.parts, -1)
            yield rows, part_states.cpu().double()
            self.progress(len(rows))


def label_means(
    reading: StateReading, rows: Labelled, ids: Sequence[Sequence[int]], folder: Path
) -> tuple[Floats, Floats]:
    """Returns the mean state of each label's texts, (labels, layers, width), and the mean length
    of all texts' states, (layers,). A run that was killed goes on in its folder.

    Args:
        ids: of the texts, at least one each.
        folder: of the checkpoint; it is there.
    """
    how = f"{reading.take.__name__} {reading.pool.__name__} {reading.low}"
    label = f"{how} {reading.base.label} {rows.digest}"
    run = hashlib.sha256(f"{label} {list(map(list, ids))}".encode()).hexdigest()
    checkpoint = read_checkpoint(folder, run) or TrainingState({}, {"batches": "0"})
    kept, done = checkpoint.tensors, int(checkpoint.about["batches"])
    weights = torch.from_numpy(rows.targets * rows.times[:, None])
    times = torch.from_numpy(rows.times).double()
    unsaved = 0
    for n, (batch, states) in enumerate(reading.batches(ids, done), start=done + 1):
        places = torch.from_numpy(batch)
        sums = torch.einsum("tc,tlw->clw", weights[places], states)
        lengths = times[places] @ states.norm(dim=-1)
        kept = {"sums": kept.get("sums", 0) + sums, "lengths": kept.get("lengths", 0) + lengths}
        unsaved += len(batch)
        if unsaved >= EVERY:
            write_checkpoint(folder, run, TrainingState(kept, {"batches": str(n)}))
            unsaved = 0
    means = kept["sums"] / weights.sum(0)[:, None, None]
    return means.numpy(), (kept["lengths"] / times.sum()).numpy()


def contrasts(means: Floats) -> Floats:
    """Returns v_c of each label: (labels, layers, width) -> the same."""
    others = (means.sum(0) - means) / (len(means) - 1)
    vectors: Floats = means - others
    return vectors


def accuracies(
    reading: StateReading, rows: Labelled, ids: Sequence[Sequence[int]], means: Floats
) -> Floats:
    """Returns the share of texts whose state h has its greatest (h − m̄) · v_c at the right label,
    m̄ being the mean of the labels' means: (layers,)."""
    middle, vectors = torch.from_numpy(means.mean(0)), torch.from_numpy(contrasts(means))
    truth = torch.from_numpy(rows.targets.argmax(1))
    right = torch.zeros(means.shape[1], dtype=torch.float64)
    for batch, states in reading.batches(ids):
        sides = torch.einsum("tlw,clw->tlc", states - middle, vectors)
        places = torch.from_numpy(batch)
        right += (sides.argmax(-1) == truth[places, None]).double().sum(0)
    shares: Floats = (right / len(rows)).numpy()
    return shares


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = VectorSettings(**spec.settings)
    base = language_model(spec.start, spec.loading)
    depth = len(decoder_layers(base.model)[1])
    layer = 2 * depth // 3 if settings.layer is None else settings.layer
    if layer >= depth:
        raise UserError(f"layer={layer}: {base.label} has the layers 0 to {depth - 1}")
    train, ids = readable(subset(texts.train, settings.texts, spec.seed), base, settings.tokens)
    test, test_ids = readable(texts.test, base, settings.tokens)
    place.notes(f"{base.label} reads {len(train):,} texts to learn from, {len(test):,} held out")
    low = spec.precision == "bfloat16"
    reading = StateReading(base, POOLS[settings.states], low, place.progress)
    means, norms = label_means(reading, train, ids, place.checkpoint)
    vectors = torch.from_numpy(contrasts(means)).half()
    shares = accuracies(reading, test, test_ids, means)
    lengths = vectors.float().norm(dim=-1).mean(0).numpy()
    facts = {
        "Vectors": f"one for each of {depth} layers and {len(train.labels)} labels, "
        f"{vectors.numel():,} numbers, stored as float16",
        "Training": f"differences of mean states of {len(train):,} texts of at most "
        f"{settings.tokens} tokens, {POOLED[settings.states]}, read with products in "
        f"{'bfloat16' if low else 'float32'}",
        "Accuracy": f"{shares[layer]:.4f} on {len(test):,} held-out texts, by layer {layer}; "
        f"best {shares.max():.4f}, by layer {shares.argmax()}",
        "Length": f"{lengths[layer]:.4g} in layer {layer}, where states have {norms[layer]:.4g}",
    }
    about = {
        "layers": [*range(depth)],
        "layer": layer,
        "norms": [round(float(norm), 4) for norm in norms],
        "accuracies": [round(float(share), 4) for share in shares],
        "figures": {"texts": len(test), "accuracy": round(float(shares[layer]), 4)},
    }
    return TrainedGuide(about, dict(zip(train.labels, vectors, strict=True)), facts, [])


POOLED = {"mean": "each the mean over its tokens", "last": "each that of its last token"}

TRAINING = GuideTraining(
    train=_train,
    summary="points from the states of other texts to those of a label, for CAA and ablation",
)

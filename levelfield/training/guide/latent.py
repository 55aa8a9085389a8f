"""Guides of kind `latent`: texts as latents, latents as prefixes, and a flow between latents and
Gaussians; one guide serves MultiCTG and PriorCTG.

Gu et al. 2022, "A Distributional Lens for Multi-Aspect Controllable Text Generation", section 3.1.
Every step reads texts of one attribute a, in turn. With e the latents of the batch, its loss is
0.5 · L_R + 0.2 · L_C + 0.3 · 10 · L_G:
L_R, nats a token of the texts, each behind the prefix of its own latent, on the frozen base;
L_C, cross-entropy of the labels by a linear head on e;
L_G = Σ_b ‖mean(e) − mean(e_b)‖² / d over the other attributes b, with e_b the latents of b's last
batch, which are encoded anew, without gradients.
Where L_C is below 0.1, its weight is 0.05 and what it loses goes to L_R.

Before that, encoder and head learn from L_C and L_G of all texts at once: they read vectors that do
not change, so hundreds of such steps cost less than a few with the base.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from levelfield.core.arrays import Bools, Codes, Singles
from levelfield.core.errors import UserError
from levelfield.generation.language_model import LanguageModel, language_model
from levelfield.models.loading import Loading
from levelfield.models.torch.flow import FlowShape
from levelfield.training.builder import Workplace
from levelfield.training.guide.attributes import AttributeRows, at_most, by_attribute
from levelfield.training.guide.flow import FLOW_STAGE, FlowSettings, train_flow
from levelfield.training.guide.kinds import GuideSpec, GuideTraining, TrainedGuide
from levelfield.training.guide.latent_figures import facts, held_out_figures
from levelfield.training.guide.latent_network import LearntLatent
from levelfield.training.guide.passes_over import passes_over
from levelfield.training.guide.settings import LatentSettings
from levelfield.training.guide.texts import columns, readable
from levelfield.training.guide.vectors import sentence_vectors
from levelfield.training.labelled import Labelled, LabelledTexts
from levelfield.training.loop import Loss, fit
from levelfield.training.passes import Passes

RECONSTRUCTION, LABELS, GAP = 0.5, 0.2, 3.0
"""Weights of L_R, L_C and L_G."""
LEARNT, LABELS_LEARNT = 0.1, 0.05
"""L_C below which it counts as learnt, and its weight then."""
EVERY = 25
"""Steps between checkpoints."""


@dataclass(frozen=True, eq=False)
class LatentTask:
    """What latents and prefixes learn.

    Attributes:
        rows: texts and their labels.
        parts: the texts of each attribute.
        ids: of each text, at least one.
        vectors: of each text: (texts, width).
        read: names what made ids and vectors.
    """

    rows: Labelled
    parts: Sequence[AttributeRows]
    ids: Sequence[Sequence[int]]
    vectors: torch.Tensor
    settings: LatentSettings
    seed: int
    read: str

    @property
    def identity(self) -> str:
        return f"latent {self.rows.digest} {self.read} {self.settings}"

    def loss(self, model: LearntLatent, step: int) -> Loss:
        """The loss of the batch of a step, times its texts."""
        part = self.parts[step % len(self.parts)]
        rows = self._batch(step)
        e = model.encoder(self._of(part, rows))
        noisy = e + self.settings.noise * torch.randn(e.shape).to(e)
        texts = [self.ids[i] for i in part.at[rows]]
        reconstruction = model.nats(noisy, texts).sum() / sum(map(len, texts))
        targets = torch.from_numpy(part.targets[rows]).to(e)
        of_labels = F.cross_entropy(model.head(noisy)[:, part.block], targets)
        gap = e.new_zeros(())
        for earlier in range(max(0, step - len(self.parts) + 1), step):
            other = self.parts[earlier % len(self.parts)]
            with torch.no_grad():
                centre = model.encoder(self._of(other, self._batch(earlier))).mean(0)
            gap = gap + F.mse_loss(e.mean(0), centre)
        weight = LABELS_LEARNT if float(of_labels.detach()) < LEARNT else LABELS
        total = (RECONSTRUCTION + LABELS - weight) * reconstruction + weight * of_labels + GAP * gap
        return Loss(total * len(rows), len(rows))

    def validation(self, _: Any) -> Mapping[str, float]:
        """Nothing: held-out texts decide nothing, and are tried once, at the end."""
        return {}

    def _batch(self, step: int) -> Codes:
        """Which texts of its attribute a step reads."""
        turn, which = divmod(step, len(self.parts))
        return self._passes[which].rows(turn)

    def _of(self, part: AttributeRows, rows: Codes) -> torch.Tensor:
        return self.vectors[torch.from_numpy(part.at[rows])]

    @functools.cached_property
    def _passes(self) -> list[Passes]:
        return [
            Passes(
                self.rows.times[part.at],
                [len(self.ids[i]) for i in part.at],
                self.settings.batch,
                self.seed + n,
            )
            for n, part in enumerate(self.parts)
        ]


def flow_shape(settings: LatentSettings) -> FlowShape:
    """Returns the size of the flow of the second stage."""
    return FlowShape(settings.size, settings.flow_blocks, settings.flow_width)


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = LatentSettings(**spec.settings)
    base = language_model(spec.start, spec.loading)
    some = at_most(texts.train, settings.texts, spec.seed)
    train, ids, vectors = _read(some, base, settings, spec.loading, place, "train")
    test, test_ids, test_vectors = _read(texts.test, base, settings, spec.loading, place, "test")
    recipe = passes_over(train, settings, spec, every=EVERY)
    place.notes(f"{recipe.steps:,} steps of {settings.batch} texts on {base.label}")
    parts = by_attribute(train, spec.attribute)
    to_device = torch.from_numpy(vectors).to(base.device)
    model = LearntLatent(base, to_device, len(train.labels), settings, spec.seed)
    learn_labels(model, parts, to_device, settings)
    read = f"{base.label} {spec.attribute}"
    task = LatentTask(train, parts, ids, to_device, settings, spec.seed, read)
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    kept = {"encoder": model.encoder, "decoder": model.decoder}
    halves = {f"{n}.{k}": p.detach().half() for n, m in kept.items() for k, p in named(m).items()}
    for name, module in kept.items():  # what is kept is what is tried
        module.load_state_dict({k: halves[f"{name}.{k}"] for k in module.state_dict()})
    e, of_test = latents(model, vectors), latents(model, test_vectors)
    flow, flow_figures = train_flow(
        [(part, e[part.at]) for part in parts],
        [(part, of_test[part.at]) for part in by_attribute(test, spec.attribute)],
        FlowSettings(flow_shape(settings), settings.flow_steps),
        spec.seed,
        f"{task.identity} {recipe}",
        place.checkpoint / FLOW_STAGE,
    )
    tensors = {name: tensor.cpu() for name, tensor in halves.items()}
    tensors |= {f"latents.{i}": X for i, X in enumerate(_clouds(parts, e, settings.kept, spec))}
    tensors |= {f"flow.{name}": p.contiguous() for name, p in named(flow).items()}
    of_prefixes = held_out_figures(model, test, spec.attribute, test_ids, of_test)
    figures = {"texts": len(test), **of_prefixes, **flow_figures}
    about = {
        **({"attributes": columns(train)} if train.of else {}),
        "encoder": settings.encoder,
        "prefix": asdict(model.decoder.shape),
        "flow": asdict(flow.shape),
        "figures": figures,
    }
    return TrainedGuide(
        about, tensors, facts(model, settings, recipe, figures, len(train)), history
    )


def learn_labels(
    model: LearntLatent,
    parts: Sequence[AttributeRows],
    vectors: torch.Tensor,
    settings: LatentSettings,
) -> None:
    """Trains encoder and head on all texts at once: the mean over attributes of 0.2 · L_C, and 3 ·
    L_G between every two of them. The same weights each time, so a run that goes on has them, too.
    """
    learnt = [*model.encoder.parameters(), *model.head.parameters()]
    optimizer = torch.optim.AdamW(learnt, lr=settings.learning_rate, weight_decay=0.01)
    of_parts = [(part, vectors[torch.from_numpy(part.at)]) for part in parts]
    targets = [torch.from_numpy(part.targets).to(vectors) for part in parts]
    for _ in range(settings.head_steps):
        latents_of = [model.encoder(x) for _, x in of_parts]
        of_labels = torch.stack(
            [
                F.cross_entropy(model.head(e)[:, part.block], target)
                for (part, _), e, target in zip(of_parts, latents_of, targets, strict=True)
            ]
        ).mean()
        means = [e.mean(0) for e in latents_of]
        gaps = [F.mse_loss(a, b) for a, b in itertools.combinations(means, 2)]
        optimizer.zero_grad()
        gap = sum(gaps, of_labels.new_zeros(()))
        torch.autograd.backward(LABELS * of_labels + GAP * gap)
        optimizer.step()
    optimizer.zero_grad()


def _read(
    rows: Labelled,
    base: LanguageModel,
    settings: LatentSettings,
    loading: Loading,
    place: Workplace,
    name: str,
) -> tuple[Labelled, list[list[int]], Singles]:
    """Texts that both the base and the encoder can read: with labels, ids and vectors."""
    some, ids = readable(rows, base, settings.tokens)
    file = place.checkpoint / f"stage-vectors-{name}.safetensors"
    vectors = sentence_vectors(some.texts, settings.encoder, loading, file, place.notes)
    whole: Bools = np.array([np.isfinite(vector).all() for vector in vectors], np.bool_)
    return some.only(whole), [ids[i] for i in np.flatnonzero(whole)], vectors[whole]


def named(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What a module keeps, by name."""
    return dict(module.state_dict())


def latents(model: LearntLatent, vectors: Singles) -> torch.Tensor:
    """Latents as they are kept: (texts, d), float32 with the precision of float16."""
    with torch.inference_mode():
        e: torch.Tensor = model.encoder(torch.from_numpy(vectors).to(model.head.weight.device))
    return e.half().float().cpu().clone()


def _clouds(
    parts: Sequence[AttributeRows], e: torch.Tensor, kept: int, spec: GuideSpec
) -> list[torch.Tensor]:
    """X of every label: (at most `kept`, d), float16; some of its texts, drawn by the seed."""
    clouds: list[torch.Tensor] = []
    for part in parts:
        sure = part.targets.max(axis=1) > 0.5
        for label in range(len(part.labels)):
            mine = part.at[sure & (part.truth == label)]
            if not len(mine):
                raise UserError(f"no text to train on has the label {part.labels[label]}")
            drawn = np.random.default_rng([spec.seed, len(clouds)]).permutation(mine)[:kept]
            clouds.append(e[torch.from_numpy(np.sort(drawn))].half().contiguous())
    return clouds


LATENT = GuideTraining(
    train=_train,
    summary="turns texts into latents and latents into prefixes, for MultiCTG and PriorCTG",
)

"""Guides of kind `latent`: texts as latents, latents as prefixes, and a flow between latents and
Gaussians; one guide serves MultiCTG and PriorCTG.

Gu et al. 2022, "A Distributional Lens for Multi-Aspect Controllable Text Generation", section 3.1.
Every step reads texts of one attribute a, in turn. With e the latents of the batch, its loss is
0.5 · L_R + 0.2 · L_C + 0.3 · 10 · L_G:
L_R, nats per token of the texts, each after the prefix of its own latent, on the frozen base;
L_C, cross-entropy of the labels by a linear head on e;
L_G = Σ_b ‖mean(e) − mean(e_b)‖² / d over the other attributes b, with e_b the latents of b's last
batch, which are encoded again, without gradients.
Where L_C is below 0.1, its weight is 0.05 and what it loses goes to L_R.

Before that, encoder and head learn from L_C and L_G of all texts at once: they read vectors that do
not change, so hundreds of such steps cost less than a few with the base.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch.nn import functional as F

from levelfield.core.arrays import Bools, Codes, Singles
from levelfield.core.errors import UserError
from levelfield.generation.techniques._latent.flow_training import (
    FLOW_STAGE,
    FlowSettings,
    train_flow,
)
from levelfield.generation.techniques._latent.network import (
    FlowShape,
    LatentEncoder,
    PrefixDecoder,
    PrefixShape,
    cache_shape,
    keys_and_values,
)
from levelfield.generation.techniques._latent.settings import LatentSettings
from levelfield.generation.techniques._training.guide_tasks import (
    GuideTask,
    scored_after_opening,
    text_nats,
    training_fact,
)
from levelfield.io.writing import file_replacement
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.tokens import buckets, padded
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.causal import body_and_head
from levelfield.models.torch.decoding import prefix_cache
from levelfield.models.torch.encoder import load_encoder
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train.builder import Workplace
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide, passes_over
from levelfield.train.guide.texts import AttributeRows, by_attribute, readable, subset
from levelfield.train.labelled import Labelled, LabelledTexts
from levelfield.train.loop import Loss, Passes, fit, seeded
from levelfield.train.recipe import Recipe

LEAST = 1e-3
"""The least distance of vectors from their mean; with one text only, it would be 0."""


class LearntLatent(torch.nn.Module):
    """An encoder of vectors, a decoder into prefixes of a base, and a head for the labels.

    Prefixes begin as what the base keeps of P BOS tokens, so that it writes as after the end of
    another text.

    Args:
        base: its weights stay as they are.
        vectors: of all texts, (texts, width).
        labels: of all attributes.
    """

    def __init__(
        self,
        base: LanguageModel,
        vectors: torch.Tensor,
        labels: int,
        settings: LatentSettings,
        seed: int,
    ) -> None:
        super().__init__()
        base.model.requires_grad_(False)
        shape = PrefixShape(
            settings.size, settings.positions, *cache_shape(base.model), settings.rank
        )
        begin = torch.tensor([[base.bos_id] * settings.positions], device=base.device)
        with seeded(seed):
            mean = vectors.mean(0).cpu()
            spread = float((vectors.cpu() - mean).norm(dim=1).mean())
            self.encoder = LatentEncoder(mean, max(spread, LEAST), settings.size)
            self.decoder = PrefixDecoder(shape, keys_and_values(base.model, begin)[0].cpu())
            self.head = torch.nn.Linear(settings.size, labels)
        self.to(base.device)
        self._tokens, self._cache = base.tokens, functools.partial(prefix_cache, base.model)
        few = torch.tensor([[base.bos_id] * 2], device=base.device)
        self._body, self._logits, _ = body_and_head(base.model, few)

    def nats(self, e: torch.Tensor, texts: Sequence[Sequence[int]]) -> torch.Tensor:
        """−log P(text | prefix of e), the sum over the tokens of each text, without BOS over all
        but the first: (rows,)."""
        return self.nats_after(self.decoder(e), texts)

    def scored(self, texts: Sequence[Sequence[int]]) -> int:
        """Returns how many tokens of texts `nats` counts, 1 at least."""
        return max(1, sum(len(text) - self._tokens.unscored for text in texts))

    def nats_after(
        self, prefix: torch.Tensor | None, texts: Sequence[Sequence[int]]
    ) -> torch.Tensor:
        """−log P(text | prefix): (rows,); None for no prefix."""
        rows, scored = scored_after_opening(self._tokens, texts)
        ids = torch.from_numpy(padded(rows, self._tokens.bos_id)).to(self.head.weight.device)
        states = self._body(ids, **with_cache(self._cache(prefix)))
        return text_nats(self._logits, states, scored, [0] * len(texts))


TEST_TEXTS, TEST_TOKENS = 256, 2048
"""The most held-out texts that perplexities are of, and the number of tokens read at once."""


def held_out_figures(
    model: LearntLatent,
    test: Labelled,
    attribute: str,
    ids: Sequence[Sequence[int]],
    e: torch.Tensor,
) -> dict[str, float]:
    """What latents know of labels, and prefixes of texts, on held-out texts.

    `accuracy-A` is of the head for attribute A. `perplexity` is of texts after the prefixes of
    their own latents, `perplexity-base` without prefixes, `perplexity-label` after the prefix of
    the mean latent of their label, `perplexity-other` after that of the next label of the
    attribute; exp of the mean nats per token.

    Args:
        e: latents of the held-out texts.
    """
    figures = {}
    held_out = by_attribute(test, attribute)
    labelled: list[tuple[int, AttributeRows, int]] = []
    with torch.inference_mode():
        logits = model.head(e.to(model.head.weight)).cpu()
    means = []
    for part in held_out:
        right = logits[torch.from_numpy(part.at), part.block].argmax(1).numpy() == part.truth
        figures[f"accuracy-{part.attribute}"] = round(float(right.mean()), 4)
        pairs = zip(part.at, part.truth, strict=True)
        labelled += [(int(i), part, int(label)) for i, label in pairs]
        means.append(
            torch.stack(
                [
                    e[torch.from_numpy(part.at[part.truth == label])].mean(0)
                    for label in range(len(part.labels))
                ]
            ).nan_to_num()
        )
    centre = {part.attribute: mean for part, mean in zip(held_out, means, strict=True)}
    sample = labelled[:: max(1, -(-len(labelled) // TEST_TEXTS))]
    latents_by_figure = {
        "perplexity": torch.stack([e[i] for i, _, _ in sample]),
        "perplexity-label": torch.stack([centre[p.attribute][c] for _, p, c in sample]),
        "perplexity-other": torch.stack(
            [centre[p.attribute][(c + 1) % len(p.labels)] for _, p, c in sample]
        ),
        "perplexity-base": None,
    }
    texts = [ids[i] for i, _, _ in sample]
    for name, rows in latents_by_figure.items():
        figures[name] = round(_perplexity(model, rows, texts), 4)
    return figures


def _perplexity(
    model: LearntLatent, e: torch.Tensor | None, texts: Sequence[Sequence[int]]
) -> float:
    nats = 0.0
    with torch.inference_mode():
        for rows in buckets([len(text) for text in texts], TEST_TOKENS):
            batch = [texts[i] for i in rows]
            prefix = None
            if e is not None:
                prefix = model.decoder(e[torch.from_numpy(rows)].to(model.head.weight))
            nats += float(model.nats_after(prefix, batch).double().sum())
    return float(np.exp(nats / model.scored(texts)))


def facts(
    model: LearntLatent,
    settings: LatentSettings,
    recipe: Recipe,
    figures: Mapping[str, float],
    texts: int,
) -> dict[str, str]:
    """Rows for the card.

    Args:
        texts: that were learnt from.
    """
    shape = model.decoder.shape
    numbers = sum(p.numel() for m in (model.encoder, model.decoder) for p in m.parameters())
    rank = f"of rank {shape.rank}" if shape.rank else "of full rank"
    accuracies, by_density = (
        ", ".join(
            f"{name.removeprefix(prefix)} {value:.4f}"
            for name, value in figures.items()
            if name.startswith(prefix)
        )
        for prefix in ("accuracy-", "density-accuracy-")
    )
    return {
        "Latents": f"{shape.size} numbers, from embeddings of {settings.encoder}; at most "
        f"{settings.kept:,} a label are kept, as float16",
        "Prefixes": f"{shape.positions} positions in all {shape.layers} layers, by a linear map "
        f"{rank}; with the encoder {numbers:,} parameters, stored as float16",
        "Flow": f"{settings.flow_blocks} affine couplings of width {settings.flow_width}, "
        f"{settings.flow_steps:,} steps; stored as float32",
        "Learnt from": f"{texts:,} of these texts",
        "Training": training_fact(settings, recipe),
        "Accuracy": f"{accuracies}, of the head on held-out texts; "
        f"{by_density} of the densities after the flow",
        "Perplexity": f"{figures['perplexity']:.1f} after the prefixes of the texts' own latents, "
        f"{figures['perplexity-label']:.1f} after that of their label's mean, "
        f"{figures['perplexity-other']:.1f} of another label's, {figures['perplexity-base']:.1f} "
        "without",
    }


def sentence_vectors(
    texts: Sequence[str],
    encoder: str,
    loading: Loading,
    file: Path,
    notes: Callable[[str], object] = lambda _: None,
) -> Singles:
    """Embeddings of texts, (texts, width), of length 1; NaN for a text without tokens.

    Args:
        file: where they are kept, so that a run that goes on need not compute them again.
    """
    label = resolve(encoder, loading).label
    digest = hashlib.sha256(repr((label, tuple(texts))).encode("utf-8", "surrogatepass"))
    name = digest.hexdigest()
    if file.is_file():
        with safetensors.safe_open(file, "pt") as stored:
            if (stored.metadata() or {}).get("texts") == name:
                vectors: Singles = stored.get_tensor("vectors").numpy()
                return vectors
    notes(f"{len(texts):,} texts are read by {label}")
    vectors, _ = load_encoder(encoder, loading).sentences(texts)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file_replacement(file) as path:
        tensors = {"vectors": torch.from_numpy(vectors)}
        path.write_bytes(safetensors.torch.save(tensors, {"texts": name}))
    return vectors


RECONSTRUCTION, LABELS, GAP = 0.5, 0.2, 3.0
"""Weights of L_R, L_C and L_G."""
LEARNT, LABELS_LEARNT = 0.1, 0.05
"""L_C below which it counts as learnt, and its weight then."""
EVERY = 25
"""Steps between checkpoints."""


@dataclass(frozen=True, eq=False)
class LatentTask(GuideTask):
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
        """Returns the loss of the batch of a step, times its texts."""
        part = self.parts[step % len(self.parts)]
        rows = self._batch(step)
        e = model.encoder(self._of(part, rows))
        noisy = e + self.settings.noise * torch.randn(e.shape).to(e)
        texts = [self.ids[i] for i in part.at[rows]]
        reconstruction = model.nats(noisy, texts).sum() / model.scored(texts)
        targets = torch.from_numpy(part.targets[rows]).to(e)
        label_loss = F.cross_entropy(model.head(noisy)[:, part.block], targets)
        gap = e.new_zeros(())
        for earlier in range(max(0, step - len(self.parts) + 1), step):
            other = self.parts[earlier % len(self.parts)]
            with torch.no_grad():
                centre = model.encoder(self._of(other, self._batch(earlier))).mean(0)
            gap = gap + F.mse_loss(e.mean(0), centre)
        weight = LABELS_LEARNT if float(label_loss.detach()) < LEARNT else LABELS
        total = (
            (RECONSTRUCTION + LABELS - weight) * reconstruction + weight * label_loss + GAP * gap
        )
        return Loss(total * len(rows), len(rows))

    def _batch(self, step: int) -> Codes:
        """Returns which texts of its attribute a step reads."""
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
    sample = subset(texts.train, settings.texts, spec.seed)
    train, ids, vectors = _read(sample, base, settings, spec.loading, place, "train")
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
    e, test_latents = latents(model, vectors), latents(model, test_vectors)
    flow, flow_figures = train_flow(
        [(part, e[part.at]) for part in parts],
        [(part, test_latents[part.at]) for part in by_attribute(test, spec.attribute)],
        FlowSettings(flow_shape(settings), settings.flow_steps),
        spec.seed,
        f"{task.identity} {recipe}",
        place.checkpoint / FLOW_STAGE,
    )
    tensors = {name: tensor.cpu() for name, tensor in halves.items()}
    tensors |= {f"latents.{i}": X for i, X in enumerate(_clouds(parts, e, settings.kept, spec))}
    tensors |= {f"flow.{name}": p.contiguous() for name, p in named(flow).items()}
    prefix_figures = held_out_figures(model, test, spec.attribute, test_ids, test_latents)
    figures = {"texts": len(test), **prefix_figures, **flow_figures}
    about = {
        **({"attributes": train.columns()} if train.attributes else {}),
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
    part_vectors = [(part, vectors[torch.from_numpy(part.at)]) for part in parts]
    targets = [torch.from_numpy(part.targets).to(vectors) for part in parts]
    for _ in range(settings.head_steps):
        latents_of = [model.encoder(x) for _, x in part_vectors]
        label_loss = torch.stack(
            [
                F.cross_entropy(model.head(e)[:, part.block], target)
                for (part, _), e, target in zip(part_vectors, latents_of, targets, strict=True)
            ]
        ).mean()
        means = [e.mean(0) for e in latents_of]
        gaps = [F.mse_loss(a, b) for a, b in itertools.combinations(means, 2)]
        optimizer.zero_grad()
        gap = sum(gaps, label_loss.new_zeros(()))
        torch.autograd.backward(LABELS * label_loss + GAP * gap)
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
    kept, ids = readable(rows, base, settings.tokens)
    file = place.checkpoint / f"stage-vectors-{name}.safetensors"
    vectors = sentence_vectors(kept.texts, settings.encoder, loading, file, place.notes)
    whole: Bools = np.array([np.isfinite(vector).all() for vector in vectors], np.bool_)
    return kept.only(whole), [ids[i] for i in np.flatnonzero(whole)], vectors[whole]


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


TRAINING = GuideTraining(
    train=_train,
    summary="turns texts into latents and latents into prefixes, for MultiCTG and PriorCTG",
)

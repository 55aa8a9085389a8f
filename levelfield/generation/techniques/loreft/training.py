"""Guides of kind `reft`: for each label, low-rank edits of the states that some layers leave.

    h ← h + Rᵀ (W h + b − R h),   the rows of R orthonormal

They learn to make texts of the label likely: the loss of a text x of T tokens is −(1 / T)
log P(x) under the edits of its label (Wu et al. 2024, "ReFT: Representation Finetuning for
Language Models", section 3.2). The base's weights stay as they are. W begins at R and b at 0, where
an edit changes nothing; the authors draw W. P(x) is given BOS where the base reads it, else given
the first token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from levelfield.core.arrays import Codes, Floats
from levelfield.core.errors import UserError
from levelfield.generation.techniques._steering.intervention import LowRankEdit, low_rank_edits
from levelfield.generation.techniques._steering.vectors import layer_numbers
from levelfield.generation.techniques._training.guide_tasks import (
    TextTask,
    scored_after_opening,
    text_nats,
    training_fact,
)
from levelfield.generation.techniques.loreft.settings import ReftSettings
from levelfield.models.tokens import buckets, padded
from levelfield.models.torch.causal import body_and_head
from levelfield.models.torch.decoder_layers import decoder_layers
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train.builder import Workplace
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide, passes_over
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, LabelledTexts
from levelfield.train.loop import Loss, fit
from levelfield.train.recipe import Recipe

EVERY = 25
"""Steps between checkpoints."""
TEST_TOKENS = 2048
"""This many tokens of held-out texts are read at once."""


def orthonormal(matrices: torch.Tensor) -> torch.Tensor:
    """Returns matrices whose rows are orthonormal and span what those of the given ones do: (…,
    rank, width) -> the same."""
    q, r = torch.linalg.qr(matrices.mT)
    signs = r.diagonal(dim1=-2, dim2=-1).sign()  # else a row may turn round from step to step
    rows: torch.Tensor = (q * signs[..., None, :]).mT
    return rows


class LearntEdits(torch.nn.Module):
    """Edits of some layers, for each of some labels.

    Args:
        base: its weights stay as they are.
        layers: whose states are edited.
        seed: of R.
    """

    def __init__(
        self, base: LanguageModel, labels: int, layers: Sequence[int], rank: int, seed: int
    ) -> None:
        super().__init__()
        base.model.requires_grad_(False)
        self._base, self._layers = [base], layers  # no module of this one: it is not saved
        width = int(base.model.config.get_text_config().hidden_size)
        random = torch.Generator().manual_seed(seed)
        begin = torch.randn(labels, len(layers), rank, width, generator=random)
        self._free = torch.nn.Parameter(begin.to(base.device) / width**0.5)
        self._source = torch.nn.Parameter(orthonormal(self._free.detach()))
        self._bias = torch.nn.Parameter(torch.zeros(labels, len(layers), rank, device=base.device))
        few = torch.tensor([[base.bos_id]], device=base.device)
        _, self._head, is_whole = body_and_head(base.model, few)
        self._body = [base.model if is_whole else base.model.base_model]

    def tensors(self, label: int) -> dict[str, torch.Tensor]:
        """Returns R and W, (layers, rank, width), and b, (layers, rank), of a label."""
        return {
            "R": orthonormal(self._free[label]),
            "W": self._source[label],
            "b": self._bias[label],
        }

    def log_p(
        self, texts: Sequence[Sequence[int]], edits: Mapping[int, LowRankEdit]
    ) -> torch.Tensor:
        """Returns log P(x) under edits, the sum over the tokens of each text: (texts,)."""
        base = self._base[0]
        rows, scored = scored_after_opening(base.tokens, texts)
        ids = torch.from_numpy(padded(rows, base.bos_id)).to(base.device)
        with low_rank_edits(base.model, edits, 1.0).on():
            # padding follows the texts, where a causal model does not see it
            states = self._body[0](input_ids=ids, use_cache=False)[0]
        return -text_nats(self._head, states, scored, [0] * len(texts))

    def scored(self, texts: Sequence[Sequence[int]]) -> list[int]:
        """Returns how many tokens of each text `log_p` counts, taken as 1 at least."""
        unscored = self._base[0].tokens.unscored
        return [max(1, len(text) - unscored) for text in texts]

    def edits(self, tensors: Mapping[str, torch.Tensor]) -> dict[int, LowRankEdit]:
        """Returns the edits of a label by layer, of what `tensors` returns."""
        each = zip(*(tensors[name] for name in ("R", "W", "b")), strict=True)
        return {layer: LowRankEdit(*edit) for layer, edit in zip(self._layers, each, strict=True)}


@dataclass(frozen=True)
class Representation(TextTask):
    """What edits learn: texts of each label.

    Attributes:
        rows: texts and their labels.
        ids: of each text, at least one.
        read: names what made the ids and the edits.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    batch: int
    seed: int
    read: str

    @property
    def identity(self) -> str:
        return f"reft {self.rows.digest} {self.read} {self.batch}"

    def loss(self, model: LearntEdits, step: int) -> Loss:
        """Returns the sum over the texts of a step, in nats per token."""
        rows = self._passes.rows(step)
        shares = self.rows.targets[rows]
        nats = [
            self._label_nats(model, label, rows[shares[:, label] > 0])
            for label in np.flatnonzero(shares.any(0)).tolist()
        ]
        return Loss(torch.stack(nats).sum(), len(rows))

    def _label_nats(self, model: LearntEdits, label: int, rows: Codes) -> torch.Tensor:
        texts = [self.ids[i] for i in rows]
        log_p = model.log_p(texts, model.edits(model.tensors(label)))
        shares = self.rows.targets[rows, label] / model.scored(texts)
        return -(torch.from_numpy(shares).to(log_p) * log_p).sum()


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = ReftSettings(**spec.settings)
    labels = texts.train.labels
    base = language_model(spec.start, spec.loading)
    depth = len(decoder_layers(base.model)[1])
    edited = settings.edited_layers
    layers = layer_numbers(edited) if edited else tuple(range(depth))
    if layers[-1] >= depth:
        raise UserError(f"edited_layers={edited}: {base.label} has the layers 0 to {depth - 1}")
    train, ids = readable(texts.train, base, settings.tokens)
    test, test_ids = readable(texts.test, base, settings.tokens)
    recipe = passes_over(train, settings, spec, every=EVERY)
    place.notes(f"{recipe.steps:,} steps of {settings.batch} texts on {base.label}")
    model = LearntEdits(base, len(labels), layers, settings.rank, spec.seed)
    task = Representation(train, ids, settings.batch, spec.seed, f"{base.label} {settings}")
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    kept = [
        {name: tensor.detach().half().cpu() for name, tensor in model.tensors(n).items()}
        for n in range(len(labels))
    ]
    test_figures = held_out_figures(model, kept, test, test_ids)
    tensors = {
        f"{label}.{name}": tensor.contiguous()
        for label, edits in zip(labels, kept, strict=True)
        for name, tensor in edits.items()
    }
    about = {"layers": [*layers], "figures": test_figures}
    return TrainedGuide(about, tensors, _facts(settings, recipe, layers, test_figures), history)


def held_out_figures(
    model: LearntEdits,
    kept: Sequence[Mapping[str, torch.Tensor]],
    rows: Labelled,
    ids: Sequence[Sequence[int]],
) -> dict[str, float]:
    """How well texts are predicted under the edits of their own label, of others and of none.

    `perplexity` is exp of the mean nats per token under the text's own label, `perplexity-other`
    under the others, `perplexity-base` under none; `accuracy` is the share of texts that are
    likeliest under their own.

    Args:
        kept: of each label, what `LearntEdits.tensors` returns.
    """
    model.eval()
    log_p: Floats = np.empty((len(ids), len(kept) + 1))
    with torch.inference_mode():
        for batch in buckets([len(text) for text in ids], TEST_TOKENS):
            texts = [ids[i] for i in batch]
            edited = [model.log_p(texts, model.edits(tensors)) for tensors in kept]
            columns = torch.stack([*edited, model.log_p(texts, {})], dim=1)
            log_p[batch] = columns.double().cpu().numpy()
    tokens = sum(model.scored(ids))
    *edited_log_p, base_log_p = log_p.T
    matrix = np.stack(edited_log_p, axis=1)
    own_label, all_labels = float((rows.targets * matrix).sum()), float(matrix.sum())
    nats = [own_label, (all_labels - own_label) / (len(kept) - 1), float(base_log_p.sum())]
    perplexity, other, without = np.exp(-np.array(nats) / tokens).round(4).tolist()
    right = matrix.argmax(1) == rows.targets.argmax(1)
    return {
        "texts": len(rows),
        "perplexity": perplexity,
        "perplexity-other": other,
        "perplexity-base": without,
        "accuracy": round(float(right.mean()), 4),
    }


def _facts(
    settings: ReftSettings, recipe: Recipe, layers: Sequence[int], test_figures: Mapping[str, float]
) -> dict[str, str]:
    return {
        "Edits": f"rank {settings.rank} in {len(layers)} layers for each label, stored as float16",
        "Training": training_fact(settings, recipe),
        "Perplexity, own label": f"{test_figures['perplexity']:.2f} on "
        f"{test_figures['texts']:,} held-out texts; "
        f"{test_figures['perplexity-base']:.2f} without edits",
        "Perplexity, other labels": f"{test_figures['perplexity-other']:.2f}",
        "Accuracy": f"{test_figures['accuracy']:.4f}, by the label under which a text is likeliest",
    }


TRAINING = GuideTraining(
    train=_train,
    summary="edits states so that texts of a label become likely, for LoReFT",
)

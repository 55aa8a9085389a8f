"""Guides of kind `class-lm`: a low-rank adapter that learns log P(x | c) for every label c.

The loss of a text x of T tokens and label y is (Krause et al. 2021, "GeDi", section 3.1)
λ · (−1/T) log P(x | y) + (1 − λ) · (−log softmax_c((α / T) log P(x | c) + b_c)[y]).
λ = 1 is the language model of CTRL and DExperts; α and b are learnt beside the adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from levelfield.core.arrays import Floats
from levelfield.generation.techniques._class_lm.network import (
    AdaptedModel,
    Adapter,
    Codes,
    codes_of,
)
from levelfield.generation.techniques._class_lm.settings import ClassLMSettings
from levelfield.generation.techniques._training.guide_tasks import (
    TextTask,
    calibration_fact,
    text_nats,
    training_fact,
)
from levelfield.models.tokens import buckets, padded
from levelfield.models.torch.causal import body_and_head
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train.builder import Workplace
from levelfield.train.figures import figures
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide, passes_over
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, LabelledTexts
from levelfield.train.loop import Loss, fit
from levelfield.train.recipe import Recipe

SCALE = 10.0
"""α before training."""
PACE = 10.0
"""How much faster than the adapter α and b are learnt: they are numbers of that size."""
EVERY = 25
"""Steps between checkpoints."""
TEST_TOKENS = 2048
"""This many tokens of held-out texts are read at once."""


class LearntClassLM(torch.nn.Module):
    """An adapter on a base, with α and b.

    Args:
        base: its weights stay as they are.
        codes: label -> the tokens before the text, after BOS where the base reads that.
    """

    def __init__(
        self, base: LanguageModel, codes: Codes, settings: ClassLMSettings, seed: int
    ) -> None:
        super().__init__()
        base.model.requires_grad_(False)
        self.shape: Mapping[str, Any] = {
            "layers": settings.layers,
            "rank": settings.rank,
            "alpha": 2.0 * settings.rank,
        }
        self.adapter = Adapter(base.model, **self.shape, seed=seed)
        self._codes = [[*base.opening, *codes[label]] for label in codes]
        self._log_scale = torch.nn.Parameter(torch.zeros((), device=base.device))
        self._bias = torch.nn.Parameter(torch.zeros(len(codes), device=base.device))
        few = torch.tensor([self._codes[0]], device=base.device)
        adapted = AdaptedModel(base.model, self.adapter)
        self._body, self._head, _ = body_and_head(adapted, few)

    @property
    def scale(self) -> torch.Tensor:
        """α."""
        return SCALE * (PACE * self._log_scale).exp()

    @property
    def bias(self) -> torch.Tensor:
        """b: (labels,)."""
        return PACE * self._bias

    def log_p(self, texts: Sequence[Sequence[int]], pairs: torch.Tensor) -> torch.Tensor:
        """log P(x | c), the sum over the tokens of each text: (texts, labels).

        Args:
            pairs: (texts, labels), bool: which are computed; the others are 0.
        """
        which = pairs.nonzero().tolist()
        rows = [[*self._codes[c], *texts[i]] for i, c in which]
        device = self._bias.device
        ids = torch.from_numpy(padded([row[:-1] for row in rows], self._codes[0][0]))
        states = self._body(ids.to(device))
        firsts = [len(self._codes[c]) - 1 for _, c in which]
        nats = text_nats(self._head, states, [texts[i] for i, _ in which], firsts)
        cells = torch.tensor([i * pairs.shape[1] + c for i, c in which], device=device)
        sums = torch.zeros(pairs.numel(), device=device).index_add(0, cells, -nats)
        return sums.reshape(pairs.shape)

    def logits(self, log_p: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """(α / T) log P(x | c) + b_c: (texts, labels)."""
        return self.scale / lengths[:, None] * log_p + self.bias


@dataclass(frozen=True)
class ClassConditional(TextTask):
    """What a class-conditional model learns: texts, and the labels by them.

    Attributes:
        rows: texts and their labels.
        ids: of each text, at least one.
        lam: λ.
        read: names what made the ids and the codes.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    lam: float
    batch: int
    seed: int
    read: str

    @property
    def identity(self) -> str:
        return f"class-lm {self.rows.digest} {self.read} {self.lam} {self.batch}"

    def loss(self, model: LearntClassLM, step: int) -> Loss:
        """Returns the sum over the texts of a step, in nats."""
        rows = self._passes.rows(step)
        texts = [self.ids[i] for i in rows]
        targets = torch.from_numpy(self.rows.targets[rows]).float()
        pairs = torch.ones_like(targets).bool() if self.lam < 1 else targets > 0
        log_p = model.log_p(texts, pairs)
        targets = targets.to(log_p.device)
        lengths = torch.tensor([len(text) for text in texts], device=log_p.device)
        return Loss(class_lm_loss(model, log_p, targets, lengths, self.lam), len(texts))


def class_lm_loss(
    model: LearntClassLM,
    log_p: torch.Tensor,
    targets: torch.Tensor,
    lengths: torch.Tensor,
    lam: float,
) -> torch.Tensor:
    """λ · Σ −log P(x | y) / T + (1 − λ) · Σ −log P(y | x), over texts.

    Args:
        log_p: log P(x | c), (texts, labels).
        targets: (texts, labels) share of each label.
        lengths: T, (texts,).
    """
    generative = -(targets * log_p / lengths[:, None]).sum()
    if lam == 1:
        return generative
    discriminative = torch.nn.functional.cross_entropy(
        model.logits(log_p, lengths), targets, reduction="sum"
    )
    return lam * generative + (1 - lam) * discriminative


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = ClassLMSettings(**spec.settings)
    base = language_model(spec.start, spec.loading)
    codes = codes_of(texts.train.labels, base)
    train, ids = readable(texts.train, base, settings.tokens)
    test, test_ids = readable(texts.test, base, settings.tokens)
    recipe = passes_over(train, settings, spec, every=EVERY)
    place.notes(f"{recipe.steps:,} steps of {settings.batch} texts on {base.label}")
    model = LearntClassLM(base, codes, settings, spec.seed)
    task = ClassConditional(
        train, ids, settings.lam, settings.batch, spec.seed, f"{base.label} {settings} {codes}"
    )
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    tensors = {name: p.detach().half().cpu() for name, p in model.adapter.state_dict().items()}
    model.adapter.load_state_dict(tensors)  # what is kept is what is tried
    test_figures = held_out_figures(model, test, test_ids)
    about = {
        "lambda": settings.lam,
        "adapter": model.shape,
        "scale": float(model.scale.detach()),
        "bias": dict(zip(codes, model.bias.detach().tolist(), strict=True)),
        "figures": test_figures,
    }
    return TrainedGuide(about, tensors, _facts(settings, recipe, test_figures, about), history)


def held_out_figures(
    model: LearntClassLM,
    rows: Labelled,
    ids: Sequence[Sequence[int]],
) -> dict[str, float]:
    """How well texts are predicted under their own label and under others, and labels by texts.

    `perplexity` is exp of the mean nats per token under the text's own label, `perplexity-other`
    under the others; `accuracy` and `ece` are of the posterior, as for judges.
    """
    log_p = _all_log_p(model, ids, len(rows.labels))
    lengths = np.array([len(text) for text in ids], np.float64)
    with torch.inference_mode():
        logits = model.logits(
            torch.from_numpy(log_p).to(model.bias), torch.from_numpy(lengths).to(model.bias)
        )
        posterior: Floats = logits.double().softmax(-1).cpu().numpy()
    posterior_figures = figures(posterior, rows)
    log_p_label = float((rows.targets * log_p).sum() / lengths.sum())
    log_p_other = ((1 - rows.targets) * log_p).sum() / (lengths.sum() * (len(rows.labels) - 1))
    return {
        "texts": len(rows),
        "perplexity": round(float(np.exp(-log_p_label)), 4),
        "perplexity-other": round(float(np.exp(-log_p_other)), 4),
        "accuracy": round(posterior_figures.accuracy, 4),
        "ece": round(posterior_figures.ece, 4),
    }


def _all_log_p(model: LearntClassLM, ids: Sequence[Sequence[int]], labels: int) -> Floats:
    log_p = np.empty((len(ids), labels))
    model.eval()
    with torch.inference_mode():
        for rows in buckets([labels * len(text) for text in ids], TEST_TOKENS):
            pairs = torch.ones(len(rows), labels, dtype=torch.bool)
            batch = model.log_p([ids[i] for i in rows], pairs)
            log_p[rows] = batch.double().cpu().numpy()
    return log_p


def _facts(
    settings: ClassLMSettings,
    recipe: Recipe,
    test_figures: Mapping[str, float],
    about: Mapping[str, Any],
) -> dict[str, str]:
    on = f"on {test_figures['texts']:,} held-out texts"
    bias = ", ".join(f"{label} {b:.3f}" for label, b in about["bias"].items())
    return {
        "Adapter": f"rank {settings.rank} on the linear layers of the upper {settings.layers} "
        "layers, stored as float16",
        "Loss": f"λ {settings.lam:g}",
        "Training": training_fact(settings, recipe),
        "Perplexity, own label": f"{test_figures['perplexity']:.2f} {on}",
        "Perplexity, other labels": f"{test_figures['perplexity-other']:.2f}",
        "Accuracy of the posterior": f"{test_figures['accuracy']:.4f}",
        "Calibration error": calibration_fact(test_figures["ece"]),
        "α": f"{about['scale']:.3f}",
        "b": bias,
    }


TRAINING = GuideTraining(
    train=_train,
    summary="predicts text given a label, for GeDi, DExperts and CTRL-lite",
)

"""Guides of kind `future`: P(label of the complete text | its first tokens).

Every beginning of a labelled text has the text's label; the loss of a text of T tokens is
Σ_{t=0…T} −log P(c | x_1 … x_t) (Yang and Klein 2021, "FUDGE", section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from levelfield.generation.techniques._future.network import (
    FutureDiscriminator,
    FutureShape,
    text_rows,
)
from levelfield.generation.techniques._future.settings import FutureSettings
from levelfield.generation.techniques._training.guide_tasks import TextTask, calibration_fact
from levelfield.models.tokens import buckets
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train.builder import Workplace
from levelfield.train.figures import figures
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide, passes_over
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, LabelledTexts
from levelfield.train.loop import Loss, fit, seeded
from levelfield.train.recipe import Recipe

EVERY = 200
"""Steps between checkpoints."""
TEST_TOKENS = 4096
"""This many tokens of held-out texts are read at once."""
PERCENT = (25, 50, 100)
"""Of a held-out text's tokens, after which the discriminator is tried."""


@dataclass(frozen=True)
class FutureLabels(TextTask):
    """What a future discriminator learns: the labels of texts by their beginnings.

    Attributes:
        rows: texts and their labels.
        ids: of each text, at least one.
        bos_id: comes before every text.
        read: names what made the ids.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    bos_id: int
    batch: int
    seed: int
    read: str

    @property
    def identity(self) -> str:
        return f"future {self.rows.digest} {self.read} {self.batch}"

    def loss(self, model: FutureDiscriminator, step: int) -> Loss:
        """Returns the sum over all beginnings of the texts of a step, in nats."""
        rows = self._passes.rows(step)
        device = model.embeddings.device
        ids, real = text_rows([self.ids[i] for i in rows], self.bos_id)
        targets = torch.from_numpy(self.rows.targets[rows]).float()
        token_targets = targets[:, None].expand(*ids.shape, -1)[real]
        logits = model.whole(ids.to(device))[real.to(device)]
        total = torch.nn.functional.cross_entropy(logits, token_targets.to(device), reduction="sum")
        return Loss(total, len(token_targets))


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = FutureSettings(**spec.settings)
    base = language_model(spec.start, spec.loading)
    shape = FutureShape(settings.width, settings.layers, settings.width // 16, settings.dropout)
    train, ids = readable(texts.train, base, settings.tokens)
    test, test_ids = readable(texts.test, base, settings.tokens)
    recipe = passes_over(train, settings, spec, every=EVERY, warmup=1 / 10)
    place.notes(f"{recipe.steps:,} steps of {settings.batch} texts on {base.label}")
    model = _untrained(base, len(train.labels), shape, spec.seed)
    read = f"{base.label} {settings}"
    task = FutureLabels(train, ids, base.bos_id, settings.batch, spec.seed, read)
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    tensors = {name: p.detach().half().cpu() for name, p in model.state_dict().items()}
    model.load_state_dict(tensors)  # what is kept is what is tried
    test_figures = held_out_figures(model, test, test_ids, base.bos_id)
    sizes = {name: n for name, n in asdict(shape).items() if name != "dropout"}
    about = {"shape": sizes, "figures": test_figures}
    return TrainedGuide(about, tensors, _facts(model, settings, recipe, test_figures), history)


def _untrained(
    base: LanguageModel, labels: int, shape: FutureShape, seed: int
) -> FutureDiscriminator:
    """Returns a network with the same weights every time."""
    with seeded(seed):
        model = FutureDiscriminator(base.model.get_input_embeddings().weight, labels, shape)
    return model.to(base.device)


def held_out_figures(
    model: FutureDiscriminator, rows: Labelled, ids: Sequence[Sequence[int]], bos_id: int
) -> dict[str, float]:
    """How well labels are predicted from beginnings of held-out texts.

    `accuracy-25`, `accuracy-50` and `accuracy-100` are after that percentage of a text's tokens,
    rounded up; `nats` (the mean −log P of the label) and `ece` are at the end of the text.
    """
    p = {percent: np.empty((len(rows), len(rows.labels))) for percent in PERCENT}
    model.eval()
    with torch.inference_mode():
        for batch in buckets([len(text) + 1 for text in ids], TEST_TOKENS):
            read, _ = text_rows([ids[i] for i in batch], bos_id)
            posteriors = (
                model.whole(read.to(model.embeddings.device)).double().softmax(-1).cpu().numpy()
            )
            for posterior, i in zip(posteriors, batch, strict=True):
                for percent, after in p.items():
                    after[i] = posterior[math.ceil(percent * len(ids[i]) / 100)]
    tried = {percent: figures(after, rows) for percent, after in p.items()}
    nats = -(rows.targets * np.log(p[100])).sum() / len(rows)
    return {
        "texts": len(rows),
        **{f"accuracy-{percent}": round(figure.accuracy, 4) for percent, figure in tried.items()},
        "nats": round(float(nats), 4),
        "ece": round(tried[100].ece, 4),
    }


def _facts(
    model: FutureDiscriminator,
    settings: FutureSettings,
    recipe: Recipe,
    test_figures: Mapping[str, float],
) -> dict[str, str]:
    parameters = sum(p.numel() for p in model.parameters())
    return {
        "Network": f"causal transformer on the base's input embeddings, {settings.layers} layers "
        f"of width {settings.width}, {parameters:,} parameters, stored as float16",
        "Training": f"{recipe.steps:,} steps of {settings.batch} texts of at most "
        f"{settings.tokens} tokens, every beginning with the label of the text, learning rate "
        f"{settings.learning_rate:g}, dropout {settings.dropout:g}, products in {recipe.precision}",
        "Accuracy": f"{test_figures['accuracy-100']:.4f} at the end of "
        f"{test_figures['texts']:,} held-out texts",
        "After half of the tokens": f"{test_figures['accuracy-50']:.4f}",
        "After a quarter": f"{test_figures['accuracy-25']:.4f}",
        "Loss": f"{test_figures['nats']:.4f} nats at the end of a text",
        "Calibration error": calibration_fact(test_figures["ece"]),
    }


TRAINING = GuideTraining(
    train=_train,
    summary="predicts what the complete text will be from its beginning, for FUDGE",
)

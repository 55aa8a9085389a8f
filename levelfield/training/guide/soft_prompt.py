"""Guides of kind `soft-prompt`: a matrix of embeddings a label, distilled from a discriminator.

Zhang and Song 2022, "DisCup: Discriminator Cooperative Unlikelihood Prompt-tuning for Controllable
Text Generation", section 3. The base stays as it is; `distillation` has the loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch.nn import functional as F

from levelfield.generation.language_model import LanguageModel, language_model
from levelfield.generation.rows import normalised
from levelfield.models.batching import buckets
from levelfield.training.builder import Workplace
from levelfield.training.guide.distillation import (
    CupLoss,
    Distillation,
    LearntPrompts,
)
from levelfield.training.guide.kinds import GuideSpec, GuideTraining, TrainedGuide
from levelfield.training.guide.passes_over import passes_over
from levelfield.training.guide.settings import SoftPromptSettings
from levelfield.training.guide.teachers import Teacher, TextBatch, teacher_of
from levelfield.training.guide.texts import readable
from levelfield.training.labelled import Labelled, LabelledTexts
from levelfield.training.loop import fit
from levelfield.training.recipe import Recipe

EVERY = 25
"""Steps between checkpoints."""
TEST_TEXTS = 128
"""On so many held-out texts at most a guide is tried; each takes five passes or more."""
TEST_TOKENS = 512
"""So many tokens of held-out texts are read at once."""
LIKELY = 0.5
"""Tokens of a larger y speak for the label."""


def objective_of(settings: SoftPromptSettings) -> CupLoss:
    """Returns the loss of a position."""
    return CupLoss(
        settings.candidates,
        settings.temperature,
        settings.anchor,
        settings.unlikelihood,
        settings.normalised,
    )


def beginnings(
    settings: SoftPromptSettings, labels: Sequence[str], attribute: str, base: LanguageModel
) -> list[torch.Tensor]:
    """Returns what the prompt of each label begins with: (m, width of the embeddings) each."""
    layer = base.model.get_input_embeddings()
    starts = []
    for label, m in settings.lengths(labels).items():
        text = settings.start.replace("{label}", label).replace("{attribute}", attribute)
        ids = base.ids(text)
        if ids:
            repeated = [ids[i % len(ids)] for i in range(m)]
            starts.append(layer(torch.tensor(repeated, device=base.device)).detach().float())
        else:
            starts.append(torch.zeros(m, layer.weight.shape[1], device=base.device))
    return starts


def _train(texts: LabelledTexts, spec: GuideSpec, place: Workplace) -> TrainedGuide:
    settings = SoftPromptSettings(**spec.settings)
    labels = texts.train.labels
    settings.lengths(labels)  # refused before anything is loaded
    base = language_model(spec.start, spec.loading)
    teacher = teacher_of(settings.teacher, spec.attribute, labels, spec.start, spec.loading)
    train, ids = readable(texts.train, base, settings.tokens)
    test, test_ids = readable(texts.test, base, settings.tokens)
    recipe = passes_over(train, settings, spec, every=EVERY)
    place.notes(
        f"{recipe.steps:,} steps of {settings.batch} texts on {base.label}, taught by "
        f"{teacher.guide.label}"
    )
    model = LearntPrompts(base, beginnings(settings, labels, spec.attribute, base), spec.seed)
    read = f"{base.label} {settings} {teacher.guide.label}"
    task = Distillation(
        train, ids, teacher, base, objective_of(settings), settings.batch, spec.seed, read
    )
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    with torch.inference_mode():
        matrices = [prompt.half().cpu() for prompt in model.prompts()]
    some = np.linspace(0, len(test) - 1, min(TEST_TEXTS, len(test))).round().astype(np.intp)
    low = recipe.precision == "bfloat16"
    with torch.autocast(base.device.type, torch.bfloat16, enabled=low):
        of_test = held_out_figures(
            model, task, matrices, test.only(some), [test_ids[i] for i in some]
        )
    tensors = {label: matrix.clone() for label, matrix in zip(labels, matrices, strict=True)}
    about = {"teacher": teacher.guide.label, "figures": of_test}
    return TrainedGuide(about, tensors, _facts(settings, recipe, teacher, of_test), history)


def held_out_figures(
    model: LearntPrompts,
    task: Distillation,
    prompts: Sequence[torch.Tensor],
    rows: Labelled,
    ids: Sequence[Sequence[int]],
) -> dict[str, float]:
    """How soft prompts change what the base expects of held-out texts.

    `mass` is the probability of the candidates with y > ½, the mean over positions and labels,
    `mass-base` the same without a prompt; `loss` and `loss-base` are those of the training.
    `perplexity` is exp of the mean nats a token behind the prompt of the text's own label,
    `perplexity-other` behind the others, `perplexity-base` behind none. All are of the second token
    of a text and those after it.
    """
    labels = len(rows.labels)
    mass, loss, nats = np.zeros(2), np.zeros(2), np.zeros(3)
    n, tokens = 0, 0
    model.eval()
    with torch.inference_mode():
        for some in buckets([len(one) + 1 for one in ids], TEST_TOKENS):
            texts = TextBatch.of([ids[i] for i in some], task.base)
            lesson = task.lesson(model, texts)
            own = torch.from_numpy(rows.targets[some]).to(lesson.y)
            is_said = texts.places[:, 1:]  # of a text's last token the next one is not known
            of_base = _of_tokens(lesson.log_p, texts)
            for label, prompt in enumerate(prompts):
                logits = model.logits(texts, prompt.to(task.base.device))
                log_p = normalised(logits)
                for i, (all_log_p, of) in enumerate(((lesson.log_p, None), (log_p, logits))):
                    p = all_log_p.gather(-1, lesson.candidates).exp()
                    mass[i] += float((p * (lesson.y[..., label] > LIKELY)).sum())
                    of_logits = lesson.log_p if of is None else of
                    loss[i] += float(task.objective(of_logits, lesson, label).sum())
                of_tokens = _of_tokens(log_p, texts)
                share = own[:, label, None]
                nats[0] -= float((of_tokens * share).sum())
                nats[1] -= float((of_tokens * (1 - share)).sum())
            nats[2] -= float(of_base.sum())
            n += labels * len(lesson.y)
            tokens += int(is_said.sum())
    per_token = np.array([1, labels - 1, 1]) * max(1, tokens)
    return {
        "texts": len(rows),
        "mass": round(float(mass[1]) / n, 4),
        "mass-base": round(float(mass[0]) / n, 4),
        "loss": round(float(loss[1]) / n, 4),
        "loss-base": round(float(loss[0]) / n, 4),
        **dict(
            zip(
                ("perplexity", "perplexity-other", "perplexity-base"),
                np.exp(nats / per_token).round(4).tolist(),
                strict=True,
            )
        ),
    }


def _of_tokens(log_p: torch.Tensor, texts: TextBatch) -> torch.Tensor:
    """log P of the second token of each text and those after it, 0 behind its end: (texts, tokens −
    1); log_p: (n, vocabulary)."""
    places = texts.places
    of_next = F.pad(texts.tokens[:, 1:], (0, 1))[places]
    everywhere = log_p.new_zeros(places.shape)
    everywhere[places] = log_p.gather(-1, of_next[:, None])[:, 0]
    return everywhere[:, :-1] * places[:, 1:]


def _facts(
    settings: SoftPromptSettings,
    recipe: Recipe,
    teacher: Teacher,
    of_test: Mapping[str, float],
) -> dict[str, str]:
    on = f"on {of_test['texts']:,} held-out texts"
    anchor = f", β {settings.anchor:g}" if settings.anchor else ""
    return {
        "Prompt": f"{settings.prompt} embeddings for each label, stored as float16",
        "Teacher": f"{teacher.guide.label}, of kind {teacher.guide.kind}",
        "Loss": f"{settings.candidates} candidates, τ {settings.temperature:g}{anchor}, "
        f"unlikelihood {settings.unlikelihood:g}, normalised over the {settings.normalised}",
        "Training": f"{recipe.steps:,} steps of {settings.batch} texts of at most "
        f"{settings.tokens} tokens, learning rate {settings.learning_rate:g}, products in "
        f"{recipe.precision}",
        "Probability of tokens that speak for the label": f"{of_test['mass']:.4f} {on}; "
        f"{of_test['mass-base']:.4f} without a prompt",
        "Loss held out": f"{of_test['loss']:.4f}; {of_test['loss-base']:.4f} without a prompt",
        "Perplexity, own label": f"{of_test['perplexity']:.2f}; "
        f"{of_test['perplexity-base']:.2f} without a prompt",
        "Perplexity, other labels": f"{of_test['perplexity-other']:.2f}",
    }


SOFT_PROMPT = GuideTraining(
    train=_train,
    summary="makes the base write texts of a label, for DisCup",
)

"""Guides of kind `soft-prompt`: a matrix of embeddings a label, distilled from a discriminator.

Zhang and Song 2022, "DisCup: Discriminator Cooperative Unlikelihood Prompt-tuning for Controllable
Text Generation", section 3. The base stays as it is; `distillation` has the loss.

After every token of a text, the K likeliest next tokens v of the base get y_v = P(c | text so far,
v) of a teacher. With x the probabilities of the base after the soft prompt of c, the loss of a
position is (Zhang and Song 2022, "DisCup", section 3)

−Σ_v softmax(y / τ)_v log x_v − Σ_v softmax((1 − y) / τ)_v log(1 − x_v).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from levelfield.generation.techniques._training.guide_tasks import TextTask, training_fact
from levelfield.generation.techniques.discup.network import PromptEncoder
from levelfield.generation.techniques.discup.settings import SoftPromptSettings
from levelfield.generation.techniques.discup.teachers import Teacher, TextBatch, teacher_of
from levelfield.models.tokens import buckets
from levelfield.models.torch.caches import with_cache
from levelfield.models.torch.causal import body_and_head
from levelfield.models.torch.decoding import normalised
from levelfield.models.torch.language_model import LanguageModel, language_model
from levelfield.train.builder import Workplace
from levelfield.train.guide.kinds import GuideSpec, GuideTraining, TrainedGuide, passes_over
from levelfield.train.guide.texts import readable
from levelfield.train.labelled import Labelled, LabelledTexts
from levelfield.train.loop import Loss, fit, seeded
from levelfield.train.recipe import Recipe


class LearntPrompts(torch.nn.Module):
    """Prompt encoders, one a label, before a base.

    Args:
        base: its weights stay as they are.
        starts: what each prompt begins with, (m, width of the embeddings).
        seed: of the encoders' weights.
    """

    def __init__(self, base: LanguageModel, starts: Sequence[torch.Tensor], seed: int) -> None:
        super().__init__()
        base.model.requires_grad_(False)
        with seeded(seed):
            encoders = [PromptEncoder(start.cpu()) for start in starts]
        self.encoders = torch.nn.ModuleList(encoders).to(base.device)
        few = torch.tensor([[base.bos_id]], device=base.device)
        _, self._head, is_whole = body_and_head(base.model, few)
        # no module of this one: the base is neither learnt nor saved
        self._body = [base.model if is_whole else base.model.base_model]
        self._config, self._begin = base.model.config, few[:, : len(base.opening)]
        self._embed = [base.model.get_input_embeddings()]

    def prompts(self) -> list[torch.Tensor]:
        """Returns the soft prompt of each label: (m, width of the embeddings)."""
        return [encoder() for encoder in self.encoders]

    def logits(self, texts: TextBatch, prompt: torch.Tensor | None = None) -> torch.Tensor:
        """Of the next token after every token of the texts: (n, vocabulary), float32.

        The prompt is read once for all texts.

        Args:
            prompt: (m, width of the embeddings); None for the base without one.
        """
        from transformers import DynamicCache

        cache = DynamicCache(config=self._config)
        begin = self._embed[0](self._begin)
        if prompt is not None:
            begin = torch.cat([begin, prompt[None].to(begin)], dim=1)
        if begin.shape[1]:
            self._body[0](inputs_embeds=begin, **with_cache(cache), use_cache=True)
            cache.batch_repeat_interleave(len(texts.ids))
        states = self._body[0](input_ids=texts.tokens, **with_cache(cache), use_cache=True)[0]
        return self._head(states[texts.places], slice(None)).float()


@dataclass(frozen=True)
class Lesson:
    """What a teacher says of the base's likeliest next tokens at n positions.

    Attributes:
        candidates: their ids, (n, K).
        log_p: log-probabilities of the base without a prompt: (n, vocabulary).
        y: P(c | text so far, candidate): (n, K, labels).
    """

    candidates: torch.Tensor
    log_p: torch.Tensor
    y: torch.Tensor


@dataclass(frozen=True)
class Distillation(TextTask):
    """What soft prompts learn from a teacher.

    Attributes:
        rows: texts; their labels are not looked at.
        ids: of each text, at least one.
        teacher: knows y.
        base: reads the texts.
        settings: K, τ, β, the weight of the second sum, and the tokens over which x sums to 1: the
            candidates, or the authors' whole vocabulary. The targets are softmax(y / τ + β log p)
            and softmax((1 − y) / τ + β log p), where p are the probabilities of the base without a
            prompt. β = 0 is the authors' loss, which knows no p; with 1 the first target is
            p · exp(y / τ), normalised.
        read: names what made the ids and the lessons.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    teacher: Teacher
    base: LanguageModel
    settings: SoftPromptSettings
    seed: int
    read: str

    @property
    def batch(self) -> int:  # type: ignore[override]
        """Texts a step."""
        return self.settings.batch

    @property
    def identity(self) -> str:
        return f"soft-prompt {self.rows.digest} {self.read}"

    def lesson(self, model: LearntPrompts, texts: TextBatch) -> Lesson:
        """Returns the base's likeliest next tokens and what the teacher says of them."""
        with torch.no_grad():
            log_p = model.logits(texts).log_softmax(-1)
            k = min(self.settings.candidates, log_p.shape[-1])
            candidates = log_p.topk(k, dim=-1).indices
            y = self.teacher.posterior(texts, candidates).float()
            order = [self.teacher.guide.labels.index(label) for label in self.rows.labels]
            return Lesson(candidates, log_p, y[..., order])

    def objective(self, logits: torch.Tensor, lesson: Lesson, label: int) -> torch.Tensor:
        """Returns the loss of each position in nats: logits (n, vocabulary) after a label's prompt
        → (n,)."""
        chosen, y, log_p = self.settings, lesson.y[..., label], lesson.log_p
        if chosen.normalised == "candidates":
            logits, log_p = (tensor.gather(-1, lesson.candidates) for tensor in (logits, log_p))
        else:
            y = torch.zeros_like(logits).scatter(-1, lesson.candidates, y)
        return cup_loss(logits, y, chosen.temperature, chosen.unlikelihood, chosen.anchor * log_p)

    def loss(self, model: LearntPrompts, step: int) -> Loss:
        """Returns the sum over all positions of the texts of a step and all labels, in nats."""
        texts = TextBatch.of([self.ids[i] for i in self._passes.rows(step)], self.base)
        lesson = self.lesson(model, texts)
        each = [
            self.objective(model.logits(texts, prompt), lesson, label)
            for label, prompt in enumerate(model.prompts())
        ]
        together = torch.cat(each)
        return Loss(together.sum(), len(together))


def cup_loss(
    logits: torch.Tensor,
    y: torch.Tensor,
    tau: float,
    unlikelihood: float = 1.0,
    anchor: torch.Tensor | None = None,
) -> torch.Tensor:
    """−Σ softmax(y/τ) log x − w Σ softmax((1−y)·1[y>0]/τ) log(1−x), x = softmax(logits): (n,).

    Args:
        logits, y: (n, tokens); y is 0 for tokens that are not candidates.
        tau: τ.
        unlikelihood: w.
        anchor: added inside the softmaxes of y, (n, tokens); none if None.
    """
    log_x = logits.log_softmax(-1)
    added = torch.zeros_like(y) if anchor is None else anchor
    good = (y / tau + added).softmax(-1)
    bad = ((1 - y) * (y > 0) / tau + added).softmax(-1)
    most = 1 - torch.finfo(log_x.dtype).eps
    log_not = torch.log1p(-log_x.exp().clamp(max=most))
    return -(good * log_x).sum(-1) - unlikelihood * (bad * log_not).sum(-1)


EVERY = 25
"""Steps between checkpoints."""
TEST_TEXTS = 128
"""The most held-out texts that a guide is tried on; each takes five passes or more."""
TEST_TOKENS = 512
"""This many tokens of held-out texts are read at once."""
LIKELY = 0.5
"""Tokens of a larger y speak for the label."""


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
    task = Distillation(train, ids, teacher, base, settings, spec.seed, read)
    history = fit(model, task, recipe, place.checkpoint, progress=place.progress)
    with torch.inference_mode():
        matrices = [prompt.half().cpu() for prompt in model.prompts()]
    sample = np.linspace(0, len(test) - 1, min(TEST_TEXTS, len(test))).round().astype(np.intp)
    low = recipe.precision == "bfloat16"
    with torch.autocast(base.device.type, torch.bfloat16, enabled=low):
        test_figures = held_out_figures(
            model, task, matrices, test.only(sample), [test_ids[i] for i in sample]
        )
    tensors = {label: matrix.clone() for label, matrix in zip(labels, matrices, strict=True)}
    about = {"teacher": teacher.guide.label, "figures": test_figures}
    return TrainedGuide(about, tensors, _facts(settings, recipe, teacher, test_figures), history)


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
    `perplexity` is exp of the mean nats per token after the prompt of the text's own label,
    `perplexity-other` after the others, `perplexity-base` after none. All are of the second token
    of a text and those after it.
    """
    labels = len(rows.labels)
    mass, loss, nats = np.zeros(2), np.zeros(2), np.zeros(3)
    n, tokens = 0, 0
    model.eval()
    with torch.inference_mode():
        for rows_at in buckets([len(text) + 1 for text in ids], TEST_TOKENS):
            texts = TextBatch.of([ids[i] for i in rows_at], task.base)
            lesson = task.lesson(model, texts)
            shares = torch.from_numpy(rows.targets[rows_at]).to(lesson.y)
            is_said = texts.places[:, 1:]  # of a text's last token the next one is not known
            base_log_p = _token_log_p(lesson.log_p, texts)
            for label, prompt in enumerate(prompts):
                logits = model.logits(texts, prompt.to(task.base.device))
                log_p = normalised(logits)
                pairs = ((lesson.log_p, lesson.log_p), (log_p, logits))
                for i, (all_log_p, all_logits) in enumerate(pairs):
                    p = all_log_p.gather(-1, lesson.candidates).exp()
                    mass[i] += float((p * (lesson.y[..., label] > LIKELY)).sum())
                    loss[i] += float(task.objective(all_logits, lesson, label).sum())
                label_log_p = _token_log_p(log_p, texts)
                share = shares[:, label, None]
                nats[0] -= float((label_log_p * share).sum())
                nats[1] -= float((label_log_p * (1 - share)).sum())
            nats[2] -= float(base_log_p.sum())
            n += labels * len(lesson.y)
            tokens += int(is_said.sum())
    per_token = np.array([1, labels - 1, 1]) * max(1, tokens)
    perplexity, other, without = np.exp(nats / per_token).round(4).tolist()
    return {
        "texts": len(rows),
        "mass": round(float(mass[1]) / n, 4),
        "mass-base": round(float(mass[0]) / n, 4),
        "loss": round(float(loss[1]) / n, 4),
        "loss-base": round(float(loss[0]) / n, 4),
        "perplexity": perplexity,
        "perplexity-other": other,
        "perplexity-base": without,
    }


def _token_log_p(log_p: torch.Tensor, texts: TextBatch) -> torch.Tensor:
    """log P of the second token of each text and those after it, 0 after its end: (texts, tokens −
    1); log_p: (n, vocabulary)."""
    places = texts.places
    next_tokens = F.pad(texts.tokens[:, 1:], (0, 1))[places]
    everywhere = log_p.new_zeros(places.shape)
    everywhere[places] = log_p.gather(-1, next_tokens[:, None])[:, 0]
    return everywhere[:, :-1] * places[:, 1:]


def _facts(
    settings: SoftPromptSettings,
    recipe: Recipe,
    teacher: Teacher,
    test_figures: Mapping[str, float],
) -> dict[str, str]:
    on = f"on {test_figures['texts']:,} held-out texts"
    anchor = f", β {settings.anchor:g}" if settings.anchor else ""
    return {
        "Prompt": f"{settings.prompt} embeddings for each label, stored as float16",
        "Teacher": f"{teacher.guide.label}, of kind {teacher.guide.kind}",
        "Loss": f"{settings.candidates} candidates, τ {settings.temperature:g}{anchor}, "
        f"unlikelihood {settings.unlikelihood:g}, normalised over the {settings.normalised}",
        "Training": training_fact(settings, recipe),
        "Probability of tokens that speak for the label": f"{test_figures['mass']:.4f} {on}; "
        f"{test_figures['mass-base']:.4f} without a prompt",
        "Loss held out": f"{test_figures['loss']:.4f}; "
        f"{test_figures['loss-base']:.4f} without a prompt",
        "Perplexity, own label": f"{test_figures['perplexity']:.2f}; "
        f"{test_figures['perplexity-base']:.2f} without a prompt",
        "Perplexity, other labels": f"{test_figures['perplexity-other']:.2f}",
    }


TRAINING = GuideTraining(
    train=_train,
    summary="makes the base write texts of a label, for DisCup",
)

"""What soft prompts learn: the loss of DisCup over the next tokens that a base finds likely.

Behind every token of a text, the K likeliest next tokens v of the base get y_v = P(c | text so far,
v) of a teacher. With x the probabilities of the base behind the soft prompt of c, the loss of a
position is (Zhang and Song 2022, "DisCup", section 3)

−Σ_v softmax(y / τ)_v log x_v − Σ_v softmax((1 − y) / τ)_v log(1 − x_v).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from levelfield.generation.language_model import LanguageModel
from levelfield.models.torch.causal import body_and_head
from levelfield.models.torch.soft_prompt import PromptEncoder
from levelfield.training.guide.settings import Normalised
from levelfield.training.guide.teachers import Teacher, TextBatch
from levelfield.training.labelled import Labelled
from levelfield.training.loop import Loss, seeded
from levelfield.training.passes import Passes


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
        self._config, self._bos = base.model.config, few
        self._embed = [base.model.get_input_embeddings()]

    def prompts(self) -> list[torch.Tensor]:
        """The soft prompt of each label: (m, width of the embeddings)."""
        return [encoder() for encoder in self.encoders]

    def logits(self, texts: TextBatch, prompt: torch.Tensor | None = None) -> torch.Tensor:
        """Of the next token at every position: (n, vocabulary), float32.

        The prompt is read once for all texts.

        Args:
            prompt: (m, width of the embeddings); None for the base without one.
        """
        from transformers import DynamicCache

        cache = DynamicCache(config=self._config)
        begin = self._embed[0](self._bos)
        if prompt is not None:
            begin = torch.cat([begin, prompt[None].to(begin)], dim=1)
        self._body[0](inputs_embeds=begin, past_key_values=cache, use_cache=True)
        cache.batch_repeat_interleave(len(texts.ids))
        states = self._body[0](input_ids=texts.tokens, past_key_values=cache, use_cache=True)[0]
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
class CupLoss:
    """The loss of a position.

    Attributes:
        candidates: K.
        temperature: τ.
        anchor: β. The targets are softmax(y / τ + β log p) and softmax((1 − y) / τ + β log p),
            where p are the probabilities of the base without a prompt. 0 is the authors' loss,
            which knows no p; with 1 the first target is p · exp(y / τ), normalised.
        unlikelihood: weight of the second sum.
        normalised: over which tokens x sums to 1: the candidates, or the authors' whole vocabulary.
    """

    candidates: int = 110
    temperature: float = 0.03
    anchor: float = 1.0
    unlikelihood: float = 1.0
    normalised: Normalised = "vocabulary"

    def __call__(self, logits: torch.Tensor, lesson: Lesson, label: int) -> torch.Tensor:
        """Of each position, in nats: logits (n, vocabulary) behind the prompt of a label → (n,)."""
        y, log_p = lesson.y[..., label], lesson.log_p
        if self.normalised == "candidates":
            logits, log_p = (of.gather(-1, lesson.candidates) for of in (logits, log_p))
        else:
            y = torch.zeros_like(logits).scatter(-1, lesson.candidates, y)
        return cup_loss(logits, y, self.temperature, self.unlikelihood, self.anchor * log_p)


@dataclass(frozen=True)
class Distillation:
    """What soft prompts learn from a teacher.

    Attributes:
        rows: texts; their labels are not looked at.
        ids: of each text, at least one.
        teacher: knows y.
        base: reads the texts.
        objective: the loss of a position.
        batch: texts a step.
        read: names what made the ids and the lessons.
    """

    rows: Labelled
    ids: Sequence[Sequence[int]]
    teacher: Teacher
    base: LanguageModel
    objective: CupLoss
    batch: int
    seed: int
    read: str

    @property
    def identity(self) -> str:
        return f"soft-prompt {self.rows.digest} {self.read}"

    def lesson(self, model: LearntPrompts, texts: TextBatch) -> Lesson:
        """The base's likeliest next tokens and what the teacher says of them."""
        with torch.no_grad():
            log_p = model.logits(texts).log_softmax(-1)
            k = min(self.objective.candidates, log_p.shape[-1])
            candidates = log_p.topk(k, dim=-1).indices
            y = self.teacher.posterior(texts, candidates).float()
            order = [self.teacher.guide.labels.index(label) for label in self.rows.labels]
            return Lesson(candidates, log_p, y[..., order])

    def loss(self, model: LearntPrompts, step: int) -> Loss:
        """The sum over all positions of the texts of a step and all labels, in nats."""
        texts = TextBatch.of([self.ids[i] for i in self._passes.rows(step)], self.base)
        lesson = self.lesson(model, texts)
        each = [
            self.objective(model.logits(texts, prompt), lesson, label)
            for label, prompt in enumerate(model.prompts())
        ]
        together = torch.cat(each)
        return Loss(together.sum(), len(together))

    def validation(self, _: Any) -> Mapping[str, float]:
        """Nothing: held-out texts decide nothing, and are tried once, at the end."""
        return {}

    @functools.cached_property
    def _passes(self) -> Passes:
        lengths = [len(ids) for ids in self.ids]
        return Passes(self.rows.times, lengths, self.batch, self.seed)


def cup_loss(
    logits: torch.Tensor,
    y: torch.Tensor,
    tau: float,
    unlikelihood: float = 1.0,
    anchor: torch.Tensor | None = None,
) -> torch.Tensor:
    """−Σ softmax(y/τ) log x − w Σ softmax((1−y)·1[y>0]/τ) log(1−x), x = softmax(logits): (n,).

    Args:
        logits, y: (n, tokens); y is 0 for tokens that are no candidates.
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

"""Discriminators that teach soft prompts: P(c | x_1 … x_t, v) for likely next tokens v.

A teacher is another guide on the same base. One of kind `class-lm` has the posterior of every next
token from one pass over the texts for each label, one of kind `future` from a pass of its small
network over the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from levelfield.core.errors import ModelError
from levelfield.generation.techniques._class_lm.network import ClassLM, class_lm
from levelfield.generation.techniques._future.network import FutureModel, future_model, text_rows
from levelfield.models.guides import Guide, GuideKind, guide_for, guide_named
from levelfield.models.loading import Loading
from levelfield.models.torch.causal import body_and_head
from levelfield.models.torch.decoding import normalised
from levelfield.models.torch.language_model import LanguageModel


@dataclass(frozen=True)
class TextBatch:
    """Texts of a batch after BOS, padded on the right; who reads them without BOS leaves it out.

    Attributes:
        ids: (texts, 1 + tokens).
        real: (texts, 1 + tokens), bool: BOS and the tokens of a text, without padding.
    """

    ids: torch.Tensor
    real: torch.Tensor

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], lm: LanguageModel) -> TextBatch:
        """Returns the texts on the device of a model, after its BOS."""
        ids, real = text_rows(texts, lm.bos_id)
        return cls(ids.to(lm.device), real.to(lm.device))

    @property
    def tokens(self) -> torch.Tensor:
        """Without BOS: (texts, tokens)."""
        return self.ids[:, 1:]

    @property
    def places(self) -> torch.Tensor:
        """Which of `tokens` are not padding: the positions that are learnt from, each after a
        token of a text, n in all. (texts, tokens), bool."""
        return self.real[:, 1:]


class Teacher(Protocol):
    """A discriminator."""

    guide: Guide

    def posterior(self, texts: TextBatch, candidates: torch.Tensor) -> torch.Tensor:
        """y = P(c | x_1 … x_t, v) at every position: candidates (n, K) → (n, K, labels)."""
        ...


class ClassTeacher:
    """GeDi's posterior: softmax_c((α / (t + 1)) (log P(x_1 … x_t | c) + log P(v | x_1 … x_t, c)) +
    b_c).

    Args:
        learnt: a guide of kind `class-lm` with its weights.
    """

    def __init__(self, learnt: ClassLM) -> None:
        self.guide, self._learnt = learnt.guide, learnt
        lm = learnt.lm
        self._body, self._head, _ = body_and_head(
            lm.model, torch.tensor([[lm.bos_id]], device=lm.device)
        )

    def posterior(self, texts: TextBatch, candidates: torch.Tensor) -> torch.Tensor:
        learnt, places = self._learnt, texts.places
        lengths = places.cumsum(-1)[places][:, None] + 1
        scores = []
        for label in learnt.labels:
            text_log_p, next_log_p = self._log_p(texts, candidates, learnt.codes[label])
            so_far = text_log_p.masked_fill(~places, 0).cumsum(-1)[places][:, None]
            scores.append(learnt.scale / lengths * (so_far + next_log_p) + learnt.bias[label])
        return torch.stack(scores, dim=-1).softmax(-1)

    def _log_p(
        self, texts: TextBatch, candidates: torch.Tensor, code: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """log P of the tokens of the texts (texts, tokens) and of the candidates (n, K)."""
        tokens, begin = texts.tokens, [*self._learnt.lm.opening, *code]
        codes = torch.tensor(begin, device=tokens.device).expand(len(tokens), -1)
        states = self._body(torch.cat([codes, tokens], dim=1))
        logits = self._head(states[:, len(begin) - 1 :], slice(None))
        log_p = normalised(logits)
        text_log_p = log_p[:, :-1].gather(-1, texts.tokens[..., None])[..., 0]
        return text_log_p, log_p[:, 1:][texts.places].gather(-1, candidates)


class FutureTeacher:
    """FUDGE's discriminator: what a text is expected to be that has the candidate next.

    Args:
        learnt: a guide of kind `future` with its weights.
    """

    def __init__(self, learnt: FutureModel) -> None:
        self.guide, self._learnt = learnt.guide, learnt

    def posterior(self, texts: TextBatch, candidates: torch.Tensor) -> torch.Tensor:
        rows, places = self._learnt.rows(), texts.places
        rows.start([[]] * len(texts.ids))
        everywhere = candidates.new_zeros(*places.shape, candidates.shape[1])
        everywhere[places] = candidates
        log_p = []
        for tokens, next_tokens in zip(texts.tokens.unbind(1), everywhere.unbind(1), strict=True):
            rows.read(tokens)
            log_p.append(rows.scores(next_tokens))
        return torch.stack(log_p, dim=1)[places].exp()


TEACHERS: Mapping[GuideKind, tuple[Callable[..., Any], Callable[[Any], Teacher]]] = {
    "class-lm": (class_lm, ClassTeacher),
    "future": (future_model, FutureTeacher),
}
"""Kind of a guide -> what loads it, and the teacher that it makes."""


def teacher_of(
    name: str, attribute: str, labels: Sequence[str], base: str, loading: Loading
) -> Teacher:
    """Returns the teacher of an attribute.

    Args:
        name: a guide's name or folder, or a kind: then the guide that comes with the package.
        labels: of the texts; the teacher needs the same.

    Raises:
        ModelError: there is no such guide, or it is of another kind, base, attribute or has other
            labels.
    """
    shipped = next((kind for kind in TEACHERS if kind == name), None)
    kind = shipped or guide_named(name).kind
    guide = guide_for(attribute, kind, "" if shipped else name, base, loading)
    if set(guide.labels) != set(labels):
        raise ModelError(
            f"guide '{guide.name}' has the labels {', '.join(guide.labels)}, and the texts have "
            f"{', '.join(labels)}; a teacher needs those of the texts"
        )
    if kind not in TEACHERS:
        raise ModelError(
            f"guide '{guide.name}' is of kind {kind}; a teacher is of kind {' or '.join(TEACHERS)}"
        )
    load, teacher = TEACHERS[kind]
    return teacher(load(guide, base, loading))

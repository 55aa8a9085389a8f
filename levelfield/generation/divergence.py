"""How far a technique goes from its base, in nats per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
import torch

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.generation.contract import (
    AnsweringTechnique,
    Decoding,
    Request,
    Technique,
    check_requests,
)
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.sampling import Choice, Steering
from levelfield.generation.technique import LocalTechnique, Prompted
from levelfield.stats.clusters import cluster_errors, cluster_sums, coded
from levelfield.stats.estimate import Estimate, estimate_of_mean


@dataclass(frozen=True)
class Divergence:
    """Σ_v q(v) log (q(v) / p(v)) at every token of texts: q is the technique's distribution of the
    next token, p its base's, both given the prompt and the tokens before.

    Attributes:
        nats: at the tokens of each text, one that ends it included.
        prompts: of the texts.
    """

    nats: tuple[Floats, ...]
    prompts: tuple[str, ...]

    @property
    def mean(self) -> Estimate:
        """Nats a token, over the tokens of all texts, with a 95 % interval; the prompts are the
        clusters."""
        K, code = coded(np.array(self.prompts))
        sums = cluster_sums(np.array([np.sum(text) for text in self.nats]), code, K)
        sizes = cluster_sums(np.array([float(len(text)) for text in self.nats]), code, K)
        (se,), (freedom,) = cluster_errors(sums[:, None], sizes[:, None])
        mean, half = sums.sum() / sizes.sum(), scipy.special.stdtrit(freedom, 0.975) * se
        return estimate_of_mean(
            float(mean),
            float(np.maximum(0.0, mean - half)),
            float(mean + half),
            n=int(sizes.sum()),
            clusters=K,
        )


def has_distribution(technique: Technique) -> bool:
    """Returns whether a technique gives each next token a probability, as the base does."""
    method = getattr(type(technique), "log_probs", None)
    return isinstance(technique, LocalTechnique) and method is not AnsweringTechnique.log_probs


def divergence(
    technique: LocalTechnique,
    requests: Sequence[Request],
    *,
    decoding: Decoding = Decoding(),  # noqa: B008
    seed: int = 0,
) -> Divergence:
    """Returns how far a technique goes from its base, exact at every token of texts that it writes.

    The texts are those that `generate` writes. Of the decoding, the temperature and the penalty
    count in both distributions, and `top_k` and `top_p` in neither: a cut of the one would make
    tokens of the other impossible.

    Raises:
        UserError: the technique defines no distribution over texts, or requests that it refuses.
    """
    if not has_distribution(technique):
        raise UserError(f"{technique.name} gives no probabilities, so it has no divergence")
    check_requests(technique, requests)
    base = technique.uncontrolled
    whole = decoding.replace(top_k=0, top_p=1.0)
    nats: dict[str, Floats] = {}
    for batch in technique.batches(requests, decoding, spare=2):
        ready = technique._ready(batch, decoding)
        growth = technique._growth(ready, decoding, seed)
        written = _Noted(growth.choice, len(batch))
        technique._run(ready, decoding, replace(growth, choice=written, watch=written.watch), seed)
        rows = _compared(base, base._ready(batch, decoding), written, whole)
        nats |= {r.id: np.array(row) for r, row in zip(batch, rows, strict=True)}
    return Divergence(
        tuple(nats[request.id] for request in requests),
        tuple(request.prompt for request in requests),
    )


class _Noted:
    """Notes the tokens that another choice takes, those that end a text included, and the
    distribution before each.

    Attributes:
        texts: the tokens of each text.
        log_q: before each token of each text, of the whole vocabulary: (vocabulary,), float32.
    """

    def __init__(self, choice: Choice, texts: int) -> None:
        self._choice = choice
        self.texts: list[list[int]] = [[] for _ in range(texts)]
        self.log_q: list[list[torch.Tensor]] = [[] for _ in range(texts)]
        self._live = list(range(texts))

    def watch(self, steering: Steering) -> None:
        assert isinstance(steering, SteeringProcessor)
        for place, row in zip(self._live, steering.uncut().float(), strict=True):
            self.log_q[place].append(row)

    def __call__(self, scores: torch.Tensor) -> torch.Tensor:
        tokens = self._choice(scores)
        for place, token in zip(self._live, tokens.tolist(), strict=True):
            self.texts[place].append(token)
        return tokens

    def keep(self, rows: Sequence[int]) -> None:
        self._live = [self._live[row] for row in rows]
        self._choice.keep(rows)


def _compared(
    base: LocalTechnique, ready: Sequence[Prompted], written: _Noted, decoding: Decoding
) -> list[list[float]]:
    """Returns Σ_v q log (q / p) before each token of each text; the base reads the texts once."""
    texts = written.texts
    tokens = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.long)
    for row, text in zip(tokens, texts, strict=True):
        row[: len(text)] = torch.tensor(text)
    nats: list[list[float]] = [[] for _ in texts]
    with torch.inference_mode():
        rows, steering = base._rows(ready, seed=0), base._steering(ready, decoding)
        begin = rows.ids.shape[1]
        logits = rows.logits_before(tokens.to(rows.ids.device))
        for step in range(tokens.shape[1]):
            every_log_p = steering(rows.ids[:, : begin + step], logits[:, step])
            live = [place for place, text in enumerate(texts) if step < len(text)]
            log_q = torch.stack([written.log_q[place][step] for place in live])
            log_p = every_log_p[live].float()
            terms = torch.where(log_q > -torch.inf, log_q.exp() * (log_q - log_p), 0.0)
            for place, value in zip(live, terms.double().sum(-1).tolist(), strict=True):
                nats[place].append(max(value, 0.0))
    return nats

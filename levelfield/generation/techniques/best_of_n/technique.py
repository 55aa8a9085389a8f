"""Best of n: the one of several texts by another technique that a metric scores highest."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from levelfield.core.options import option
from levelfield.core.partitions import partitions
from levelfield.core.sample import Control, Sample
from levelfield.core.signature import signature
from levelfield.generation.contract import (
    BATCH,
    Answer,
    AnsweringTechnique,
    Decoding,
    Request,
    Technique,
    rewrites,
)
from levelfield.generation.table import TECHNIQUES
from levelfield.generation.techniques._inner.inner import Inner, inner_option, inner_technique
from levelfield.generation.techniques._reward.ranking import RankingOptions
from levelfield.generation.width import Batch, width_of

INNER = tuple(name for name in TECHNIQUES if name != "best-of-n")
"""Techniques whose texts can be ranked."""


@dataclass(frozen=True, kw_only=True)
class BestOfN(RankingOptions, AnsweringTechnique):
    """argmax_k v(x_k) of n texts x_1 … x_n that another technique draws for the same request.

    v is a metric of samples, by default the probability of the wanted label by a judge; if lower is
    better for the metric, the text with the lowest value is chosen. Among equal values the first
    text is chosen, and a text without a value loses to every other. x_1 is the inner technique's
    own text, so n = 1 is that technique, and the first texts of a larger n are those of a smaller
    one. The texts are at most log n − (n − 1) / n nats from the inner technique's (Beirami et al.
    2024, "Theoretical guarantees on the best-of-n alignment policy"). Stiennon et al. (2020),
    "Learning to summarize from human feedback", section 4.

    Controls what the inner technique controls, and attributes that the metric judges. The passes of
    an answer are those of all n texts, without the metric's.

    Raises:
        UserError: there is no such technique or option, or an option that a given technique has.
    """

    name: ClassVar[str] = "best-of-n"
    _without_log_probs: ClassVar[str] = " picks a whole text, so no token has a probability"
    n: int = option(8, "Number of texts among which one is chosen.", least=1)
    inner: Inner = inner_option("base", "Technique that writes the texts: any other.", INNER)
    inner_options: str = option(
        "", "Options of the inner technique, separated by blanks: strength=20 candidates=100."
    )
    model: str = option(
        "", "Base model of the inner technique.", otherwise="its own default", metavar="NAME"
    )
    batch: Batch = option(
        "auto",
        "Number of texts that the inner technique writes at once; auto is as many as fill a step "
        "of the device and fit into half of its free memory. The texts do not depend on it.",
        least=1,
        metavar="N",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, str | Mapping):
            self.refuse(("model", "batch"), f"{self.name}: techniques that have their own")
        _ = self._technique

    @functools.cached_property
    def _technique(self) -> Technique:
        return inner_technique(
            self.inner,
            self.inner_options,
            INNER,
            defaults={"batch": self.batch, **({"model": self.model} if self.model else {})},
            loading=self.loading,
        )

    @property
    def rewrites(self) -> bool:
        return rewrites(self._technique)

    @property
    def signature(self) -> str:
        return signature(
            self.name,
            {
                "n": self.n,
                "candidates": "by-request",  # an older signature could rank other requests' texts
                "by": self._metric_signature,
                "inner": self._technique.signature,
            },
        )

    def refusal(self, control: Control) -> str:
        if reason := self._technique.refusal(control):
            return f"{self.name} around {reason}"
        name = self._technique.name
        obeyed = TECHNIQUES[name].attributes if name in TECHNIQUES else ()
        reason = self._unjudged(control, obeyed)
        return f"{self.name}: {reason}" if reason else ""

    def _answers(
        self, requests: Sequence[Request], decoding: Decoding, seed: int
    ) -> Iterator[Answer]:
        for group in self.batches(requests):
            candidates = [replace(r, id=_candidate(r.id, k)) for r in group for k in range(self.n)]
            written = self._technique.generate(candidates, decoding=decoding, seed=seed)
            answer_of = {answer.id: answer for answer in written}  # alike controls come together
            answers = [answer_of[candidate.id] for candidate in candidates]
            begin = time.perf_counter()
            values = self._values(answers)
            judging = (time.perf_counter() - begin) / len(group)
            for i, request in enumerate(group):
                several = answers[i * self.n : (i + 1) * self.n]
                ranks = values[i * self.n : (i + 1) * self.n]
                best = max(range(self.n), key=ranks.__getitem__)
                yield replace(
                    several[best],
                    id=request.id,
                    forward_passes=sum(answer.forward_passes for answer in several),
                    backward_passes=sum(answer.backward_passes for answer in several),
                    seconds=sum(answer.seconds for answer in several) + judging,
                    extra={**several[best].extra, "candidate": best + 1},
                )

    def batches(self, requests: Sequence[Request]) -> Iterator[list[Request]]:
        width = width_of(self.loading.device) if self.batch == "auto" else self.batch
        return partitions(requests, max(BATCH, width // self.n))

    def _values(self, answers: Sequence[Answer]) -> list[float]:
        if self.n == 1:
            return [0.0] * len(answers)
        return self._worth(
            [
                Sample(a.id, a.text, a.prompt, a.source, a.references, control=a.control)
                for a in answers
            ]
        )


def _candidate(id: str, k: int) -> str:
    """The id of a request's text k, by which it is drawn."""
    return f"{id} (text {k + 1})" if k else id

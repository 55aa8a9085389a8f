"""BOLT: greedy decoding under biases that are tuned for each text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import KEYWORDS, Control
from levelfield.generation.contract import Answer, AnsweringTechnique, Decoding, Request
from levelfield.generation.guides import GuidedTechnique
from levelfield.generation.open_rows import frozen
from levelfield.generation.sampling import Continuation
from levelfield.generation.technique import Prompted
from levelfield.generation.techniques._class_lm.network import ClassLM
from levelfield.generation.techniques.bolt.discriminators import READERS, EncoderModel, LabelReader
from levelfield.generation.techniques.bolt.search import (
    BiasGoal,
    BiasOptions,
    BiasOutcome,
    BiasSearch,
)
from levelfield.metrics.keywords import keywords_of
from levelfield.models.guides import Guide, GuideKind, guide_for, guides_for

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class BOLT(BiasOptions, GuidedTechnique):
    """y_t = argmax_v (z_t + w_t W b_t)_v, with biases b_t that make the energy of the text small.

    z_t are the base's logits and W its output embedding. The energy is the cross-entropy of a guide
    that reads the whole text, for each label that is wanted; 0.3 times the energy of keywords
    (`keyword_energy`), where they are wanted; and 0.1 times the base's loss on the continuation.
    Gradients go through each token as through the softmax. The text of least energy is kept; with
    keywords the first that contains all of them, or else the one that contains most. Liu et al.
    (2023), "BOLT: Fast Energy-based Controlled Text Generation with Tunable Biases".

    BOLT draws no tokens: `temperature`, `top_k`, `top_p` and `greedy` of the decoding change
    nothing. Only the initial biases and the noise of their steps are random. Every text has
    `max_new_tokens` tokens, none of which ends a text or has a line break.

    Controls keywords, and attributes that have a guide, by default of kind `head`; sentiment by the
    guide that comes with the package; all of them at once.
    """

    name: ClassVar[str] = "bolt"
    guide_kind: ClassVar[GuideKind] = "head"
    guide: str = option(
        "",
        "Guides: names or folders, separated by commas, one per attribute, all of one kind: "
        "future, class-lm, head or encoder.",
        otherwise="those of kind head that come with the package",
        metavar="NAME",
    )
    memory: int = option(
        2048,
        "Maximum size of the gradient graphs in MiB, which limits how many texts are written at "
        "once; the texts do not depend on it.",
        least=1,
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {
            **super().choices,
            "iterations": "8/100" if self.iterations is None else str(self.iterations),
            "rate": "0.025/0.4" if self.learning_rate is None else f"{self.learning_rate:g}",
            "decay": f"{self.weight_decay:g}",
            **self._shown("initial", "noise", "gradients", "fluency"),
            "keywords": f"{self.keyword_weight:g}",
            "until": self.until,
            "penalty": f"{self.repetition_penalty:g}",
            **{
                name: value
                for name, value in self._shown("targets", "ramp", "keep", "positions").items()
                if value not in ("soft", "to-one", "energy", "continuation")
            },
        }

    def refusal(self, control: Control) -> str:
        if KEYWORDS in control and not keywords_of(control):
            return f"{self.name}: the keywords contain no word"
        return super().refusal({a: v for a, v in control.items() if a != KEYWORDS})

    log_probs = AnsweringTechnique.log_probs

    @property
    def _no_processor(self) -> str:
        return f"{self.name} has no logits processor; its `generate` writes texts"

    def _guide(self, attribute: str) -> Guide:
        guides = guides_for(self.guide_kind, self.guide)
        kind = guides[0].kind if self.guide.strip() and guides else self.guide_kind
        guide = guide_for(attribute, kind, self.guide, self.model, self.loading)
        flaw = "" if kind in READERS else f"of kind {kind}"
        if kind == "class-lm" and guide.is_whole:
            flaw = "a whole language model"
        if kind == "head" and guide.settings.get("counts_bos"):
            flaw = "a head that also reads BOS"
        if flaw:
            raise UserError(
                f"guide {guide.name} is {flaw}; {self.name} reads texts with guides on the base of "
                f"kind {' or '.join(READERS)}"
            )
        return guide

    def _prompted(self, request: Request, budget: int) -> Prompted:
        models = [self._reads(attribute) for attribute in request.control if attribute != KEYWORDS]
        codes = [len(code) for m in models if isinstance(m, ClassLM) for code in m.codes.values()]
        base_limit = self.base.tokens.limit - 1
        less = [base_limit - m.limit for m in models if isinstance(m, EncoderModel)]
        return super()._prompted(request, budget + max([0, *codes, *less]))

    def _write(self, ready: Sequence[Prompted], decoding: Decoding, seed: int) -> list[Answer]:
        with frozen(self.base.model):
            batch_size = len(ready)
            if len(ready) > 1:
                longest = max(ready, key=lambda p: (len(p.ids), len(self._tokens(p))))
                row = self._search([longest], decoding, seed).saved()
                batch_size = max(1, self.memory * MIB // row)
            return [
                answer
                for begin in range(0, len(ready), batch_size)
                for answer in self._best_texts(ready[begin : begin + batch_size], decoding, seed)
            ]

    def _best_texts(self, batch: Sequence[Prompted], decoding: Decoding, seed: int) -> list[Answer]:
        outcomes = self._search(batch, decoding, seed).run()
        return [self._outcome(*pair) for pair in zip(batch, outcomes, strict=True)]

    def _outcome(self, entry: Prompted, outcome: BiasOutcome) -> Answer:
        assert outcome.best is not None
        ids, n = outcome.best.ids, len(outcome.best.ids)
        answer = self._answer(
            entry, Continuation(ids, n, outcome.forward_passes, outcome.backward_passes)
        )
        extra = {"energy": outcome.best.energy, "iterations": len(outcome.energies)}
        return replace(answer, extra={**answer.extra, **extra})

    def _search(self, batch: Sequence[Prompted], decoding: Decoding, seed: int) -> BiasSearch:
        attributes = sorted(batch[0].request.control.keys() - {KEYWORDS})
        goals = [
            BiasGoal(
                entry.request.id,
                entry.ids,
                {a: self._place(a, entry.request.control) for a in attributes},
                keywords_of(entry.request.control),
                self._tokens(entry),
            )
            for entry in batch
        ]
        prompts = [entry.ids for entry in batch]
        readers = {attribute: self._reader(attribute, prompts) for attribute in attributes}
        return BiasSearch(self.base, goals, readers, self, decoding, seed)

    def _tokens(self, entry: Prompted) -> list[int]:
        """Returns the tokens of the keywords, as written within a text."""
        return [
            id for word in keywords_of(entry.request.control) for id in self.base.ids(f" {word}")
        ]

    def _place(self, attribute: str, control: Control) -> int:
        return self._guide(attribute).labels.index(self._wanted_label(attribute, control))

    def _reads(self, attribute: str) -> Any:
        """Returns the guide of an attribute with its weights."""
        guide = self._guide(attribute)
        load, _ = READERS[guide.kind]
        return load(guide, self.model, self.loading)

    def _reader(self, attribute: str, prompts: Sequence[Sequence[int]]) -> LabelReader:
        _, reader = READERS[self._guide(attribute).kind]
        return reader(self._reads(attribute), prompts)

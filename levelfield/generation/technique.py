"""Techniques that write from left to right with a causal model."""

from __future__ import annotations

import abc
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from levelfield.core.arrays import Floats
from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.core.partitions import partitions
from levelfield.core.sample import Control
from levelfield.core.signature import signature, with_choices
from levelfield.generation.chat_frame import ChatFrame, chat_frame, chat_lacks_bos
from levelfield.generation.contract import (
    Answer,
    AnsweringTechnique,
    Decoding,
    Request,
    check_requests,
    until,
)
from levelfield.generation.logits.processor import SteeringProcessor, Support
from levelfield.generation.logits.readers import Readers
from levelfield.generation.logits.terms import Formula
from levelfield.generation.sampling import (
    Continuation,
    Draw,
    Forced,
    Growth,
    grow,
)
from levelfield.generation.techniques._prompts.prompts import message
from levelfield.generation.width import (
    WIDTH_ON_CPU,
    Batch,
    TextRows,
    evenly,
    free_memory,
    logits_bytes,
    row_bytes,
    texts_at_once,
)
from levelfield.io.streams import content_digest
from levelfield.models.causal_tokens import BOS, WITHOUT, Bos, reads_bos
from levelfield.models.files import load_tokenizer
from levelfield.models.loading import TorchOptions
from levelfield.models.resolve import OFFLINE_LM, resolve_causal
from levelfield.models.tokens import token_mask
from levelfield.models.torch.decoding import CausalRows
from levelfield.models.torch.draws import Exponentials
from levelfield.models.torch.language_model import LanguageModel, begun, language_model


@dataclass(frozen=True, kw_only=True)
class BatchedTechnique(AnsweringTechnique, TorchOptions, abc.ABC):
    """A technique that writes a batch of texts at once with models of this machine.

    A technique says what loads its models (`_ready`) and how a batch is written (`_write`);
    `refusal` says what it does not control, and `_force` how likely texts are. Requests of the same
    attributes are written together, in their order. The base and its precision come first in
    signatures.
    """

    model: str = option(OFFLINE_LM, "Base model: a hub name or a folder.", metavar="NAME")
    batch: Batch = option(
        "auto",
        "Number of texts written at once; auto is as many as fill a step of the device and fit "
        "into half of its free memory. The texts do not depend on it.",
        least=1,
        metavar="N",
    )

    @property
    def signature(self) -> str:
        base = {"base": self._label(self.model), "dtype": self.loading.dtype}
        return signature(self.name, {**base, **self.choices})

    def _label(self, model: str) -> str:
        """How signatures name a model; its weights are not loaded."""
        return resolve_causal(model, self.loading).label

    def _answers(
        self, requests: Sequence[Request], decoding: Decoding, seed: int
    ) -> Iterator[Answer]:
        waiting = deque(self.batches(requests, decoding))
        while waiting:
            batch = waiting.popleft()
            ready = self._ready(batch, decoding)
            begin = time.perf_counter()  # the models are loaded by now
            answers = self._fitting(ready, decoding, seed)
            if answers is None:
                most = (len(batch) + 1) // 2
                waiting = deque(p for whole in (batch, *waiting) for p in evenly(whole, most))
                continue
            seconds = (time.perf_counter() - begin) / len(batch)
            yield from (replace(answer, seconds=seconds) for answer in answers)

    def _fitting(self, ready: Any, decoding: Decoding, seed: int) -> Sequence[Answer] | None:
        """Returns what `_write` does; None if the memory of the device is too small for that
        many texts, and fewer may be written at once."""
        try:
            return self._write(ready, decoding, seed)
        except torch.OutOfMemoryError:
            if self.batch != "auto" or len(ready) == 1:
                raise
        torch.cuda.empty_cache()  # what the error held is free now
        return None

    def log_probs(
        self,
        requests: Sequence[Request],
        continuations: Sequence[str],
        *,
        decoding: Decoding = Decoding(top_p=1.0),  # noqa: B008
        seed: int = 0,
    ) -> list[Floats]:
        """Returns log P(token | prompt or source, control, tokens before it): (tokens,) per text.

        A continuation is read verbatim, so it begins with a blank if it begins with a word. The
        end of a text is not among its tokens. Minus infinity where the decoding leaves a token out;
        nothing is cut unless it says so.

        Args:
            seed: of what the technique draws before a text, if anything; the probabilities are
                conditional on it.
        """
        check_requests(self, requests)
        text_of = dict(zip([r.id for r in requests], continuations, strict=True))
        log_p: dict[str, Floats] = {id: np.empty(0) for id in text_of}
        for batch in self.batches(requests, decoding):
            ids = {r.id: row for r in batch if (row := self._ids(text_of[r.id]))}
            written = [r for r in batch if r.id in ids]
            values = self._force(written, [*ids.values()], decoding, seed) if written else []
            log_p |= {id: np.array(row) for id, row in zip(ids, values, strict=True)}
        return list(log_p.values())

    def _ids(self, text: str) -> list[int]:  # noqa: ARG002  (techniques without probabilities)
        """Returns the tokens of a text whose probability is asked for.

        Raises:
            UserError: the technique defines no distribution over texts.
        """
        raise UserError(f"{self.name}{self._without_log_probs}")

    def _force(
        self,
        batch: Sequence[Request],
        ids: Sequence[Sequence[int]],
        decoding: Decoding,
        seed: int,
    ) -> Sequence[Sequence[float]]:
        """Returns log P of the tokens of each text, at least one a text.

        A technique that defines `_ids` defines this too; of others `_ids` refuses before.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def _ready(self, batch: Sequence[Request], decoding: Decoding) -> Any:
        """What is written from, for requests of the same attributes; loads models."""

    @abc.abstractmethod
    def _write(self, ready: Any, decoding: Decoding, seed: int) -> Sequence[Answer]:
        """Returns an answer a request, in their order."""

    def batches(
        self, requests: Sequence[Request], decoding: Decoding | None = None, *, spare: int = 0
    ) -> Iterator[list[Request]]:
        """Requests of the same attributes together, in their order, `batch` at a time.

        Args:
            decoding: how they are written in this process, whose memory counts; without it no model
                is loaded, and a batch fills a step.
            spare: tensors of the size of the vocabulary that the caller keeps of each token.
        """
        for _, group in groupby(sorted(requests, key=self._alike), key=self._alike):
            alike = list(group)
            if self.batch != "auto":
                yield from partitions(alike, self.batch)
            elif decoding is None or len(alike) == 1:
                yield from evenly(alike, WIDTH_ON_CPU)
            else:
                yield from evenly(alike, self._batch_size(alike, decoding, spare))

    def _alike(self, request: Request) -> list[Any]:
        """What requests have in common that are written together."""
        return sorted(request.control)

    def _batch_size(self, requests: Sequence[Request], decoding: Decoding, spare: int) -> int:
        """Returns how many of these requests are written at once where the user does not say; loads
        the models."""
        longest = max(requests, key=lambda r: len(r.prompt) + len(r.source))
        (ready,) = self._ready([longest], decoding)
        model, n = self._reads_with, decoding.max_new_tokens
        weight = next(iter(model.parameters()))
        config = model.config
        size = row_bytes(config, weight.element_size(), self._tokens_read(ready), n)
        rows = self._text_rows(longest, decoding)
        size += n * logits_bytes(config, spare) // rows.whole
        return texts_at_once(rows, size, weight.device.type, free_memory(weight.device))

    @property
    @abc.abstractmethod
    def _reads_with(self) -> Any:
        """The module that most of the memory of a batch is for, loaded at first use."""

    @abc.abstractmethod
    def _tokens_read(self, ready: Any) -> int:
        """Returns the tokens that it reads of a request before it writes."""

    def _text_rows(self, request: Request, decoding: Decoding) -> TextRows:  # noqa: ARG002
        """Returns how many rows of models the text of a request takes."""
        return TextRows()


class Prompted(NamedTuple):
    """What a model reads for a request.

    Attributes:
        request: what is asked for.
        ids: tokens that the model reads.
        cut: whether some of the prompt or source was cut off.
        aside: number of the first tokens that are not of the text: guides and the repetition
            penalty don't see them.
    """

    request: Request
    ids: list[int]
    cut: bool
    aside: int = 0


def text_mask(prompted: Sequence[Prompted]) -> torch.Tensor:
    """Returns which tokens are of the texts, which is all that guides and the repetition penalty
    see: (rows, tokens), padded on the left."""
    mask = torch.from_numpy(token_mask([entry.ids for entry in prompted], left=True))
    for row, entry in zip(mask, prompted, strict=True):
        row[len(row) - len(entry.ids) :][: entry.aside] = 0
    return mask


@dataclass(frozen=True, kw_only=True)
class LocalTechnique(BatchedTechnique):
    """A technique that writes from left to right with a causal model.

    A technique says what the base reads (`_prefix`) and what is done to its logits (`_formula`);
    everything else is here.

    Attributes:
        knob: the option that is its strength, if it has that option.
    """

    knob: ClassVar[str] = "strength"
    bos: Bos = option(
        "auto",
        f"{BOS} Holds for the base and for helpers that are whole models. The programs of "
        "DExperts, GeDi, FUDGE and BOLT put none. An empty prompt always has BOS, since a model "
        "must read something; guides read what they were trained on.",
    )

    @property
    def signature(self) -> str:
        return super().signature + with_choices("", {} if self._names_bos else {"bos": WITHOUT})

    @property
    def _names_bos(self) -> bool:
        """Whether texts begin as signatures take for granted: with BOS."""
        return reads_bos(resolve_causal(self.model, self.loading), self.bos)

    @property
    def base(self) -> LanguageModel:
        """The base model, loaded at first use."""
        return self._opened(language_model(self.model, self.loading))

    @property
    def uncontrolled(self) -> LocalTechnique:
        """The base without any control: the reference for a technique's cost."""
        return self._base_alone()

    def _base_alone(self, **more: Any) -> UncontrolledBase:
        return UncontrolledBase(
            model=self.model, batch=self.batch, bos=self.bos, loading=self.loading, **more
        )

    def _opened(self, model: LanguageModel) -> LanguageModel:
        """Returns a model that reads BOS before a text where the option says so."""
        return begun(model, self.bos)

    def _ready(self, batch: Sequence[Request], decoding: Decoding) -> list[Prompted]:
        return [self._prompted(request, decoding.max_new_tokens) for request in batch]

    @property
    def _reads_with(self) -> Any:
        return self.base.model

    def _tokens_read(self, ready: Prompted) -> int:
        return len(ready.ids) + self._virtual(ready.request.control)

    def _text_rows(self, request: Request, decoding: Decoding) -> TextRows:  # noqa: ARG002
        formula, readers = self._formula(frozenset(request.control)), Readers()
        if formula is not None and not formula.is_base:
            formula.bind([request.control], readers)
        return TextRows(max(1, *readers.rows, 1), 1 + sum(readers.rows))

    def _write(self, ready: Sequence[Prompted], decoding: Decoding, seed: int) -> list[Answer]:
        continuations = self._continue(ready, decoding, seed)
        return [self._answer(*pair) for pair in zip(ready, continuations, strict=True)]

    def _ids(self, text: str) -> list[int]:
        return self.base.ids(text)

    def _force(
        self,
        batch: Sequence[Request],
        ids: Sequence[Sequence[int]],
        decoding: Decoding,
        seed: int,
    ) -> Sequence[Sequence[float]]:
        prompted = [self._prompted(r, len(row)) for r, row in zip(batch, ids, strict=True)]
        forced = Forced(ids)
        self._run(prompted, decoding, Growth(forced, forced.lengths), seed)
        return forced.log_p

    def processor(
        self,
        controls: Sequence[Control],
        *,
        attention_mask: torch.Tensor | None = None,
        decoding: Decoding = Decoding(top_p=1.0),  # noqa: B008
    ) -> SteeringProcessor:
        """Returns a logits processor for `generate` of the base model, for one batch of prompts:
        `model.generate(**inputs, logits_processor=[technique.processor(controls)])`.

        Args:
            controls: one per prompt.
            attention_mask: of the prompts, if they are padded.
            decoding: which part of the base's distribution may be chosen; nothing is cut unless it
                says so. `generate` samples with its own options after this.

        Raises:
            UserError: a control is not supported, or the technique is not such a processor.
        """
        for reason in (self._no_processor, *map(self.refusal, controls)):
            if reason:
                raise UserError(reason)
        attributes = {frozenset(control) for control in controls}
        if len(attributes) > 1:
            raise UserError("the controls have different attributes; make a processor for each")
        formula = self._formula(frozenset().union(*attributes))
        return SteeringProcessor(
            formula, controls, mask=attention_mask, decoding=decoding, support=self._support
        )

    def input_of(self, request: Request, decoding: Decoding = Decoding()) -> str:  # noqa: B008
        """Returns what the base reads for a request, as text: instructions, codes and the prompt,
        whose beginning is cut off if it is too long; without BOS and soft prompts."""
        ids = self.base.real(self._prompted(request, decoding.max_new_tokens).ids)
        text: str = self.base.tokenizer.decode(ids[ids[:1] == [self.base.bos_id] :])
        return text

    def _formula(self, attributes: frozenset[str]) -> Formula | None:  # noqa: ARG002
        """What is done to the logits, for requests that ask for these attributes."""
        return None

    @property
    def _no_processor(self) -> str:
        """Why the technique is not a logits processor; empty if it is one."""
        return ""

    @property
    def _support(self) -> Support | None:
        """Which of the tokens that the decoding leaves may be chosen; None for all."""
        return None

    def _helper(self, name: str) -> LanguageModel:
        """Returns a model that reads along with the base.

        Raises:
            UserError: it has a different vocabulary from the base.
        """
        model, base = self._opened(language_model(name, self.loading)), self.base
        same = model.tokens.digest == base.tokens.digest
        if not same or model.tokens.vocabulary_size < base.tokens.vocabulary_size:
            raise UserError(
                f"model '{name}' has a different vocabulary from the base '{self.model}'; use one "
                "that was trained with the same tokenizer"
            )
        return model

    def _prefix(self, request: Request) -> list[int]:  # noqa: ARG002
        """What the base reads before the prompt, after BOS where it reads that."""
        return []

    def _start(self, request: Request) -> list[int]:
        """What the base reads before the prompt."""
        return [*self.base.opening, *self._prefix(request)]

    def _aside(self, start: Sequence[int]) -> int:  # noqa: ARG002
        """Returns how many of the tokens before the prompt guides don't see."""
        return 0

    @property
    def _ends(self) -> frozenset[int]:
        """Tokens that end a text."""
        return self.base.ends

    @property
    def _stops(self) -> tuple[str, ...]:
        """Strings that end a text; neither they nor what follows them is part of it."""
        return ()

    def _cache(self, prompted: Sequence[Prompted], seed: int) -> torch.Tensor | None:  # noqa: ARG002
        """A prepared cache in front of what the base reads, one a request (`prefix_cache`)."""
        return None

    def _virtual(self, control: Control) -> int:  # noqa: ARG002
        """Returns the positions of that cache."""
        return 0

    def _writer(self, control: Control) -> LanguageModel:  # noqa: ARG002
        """Returns the model whose logits are changed: the base, or what a technique makes of it for
        requests of these attributes. Its tokens are the base's."""
        return self.base

    def _prompted(self, request: Request, budget: int) -> Prompted:
        """Returns the ids that the base reads; of a prompt that is too long the end is kept."""
        base = self.base
        start = self._start(request)
        prompt = base.ids(request.prompt.rstrip(" \t"))
        formula = self._formula(frozenset(request.control))
        helpers = formula.room(request.control) if formula else math.inf
        limit = min(base.tokens.limit, self._writer(request.control).tokens.limit)
        base_room = limit - 1 - self._virtual(request.control)
        available = int(min(base_room, helpers)) - (len(start) - 1)
        room = available - budget
        if room < 0:
            raise UserError(
                f"max_new_tokens is {budget}; after what they read before the prompt, the models "
                f"take {max(0, available)} tokens"
            )
        cut = len(prompt) > room
        ids = [*start, *prompt[len(prompt) - min(room, len(prompt)) :]]
        return Prompted(request, ids or [base.bos_id], cut, self._aside(start))

    def _continue(
        self, prompted: Sequence[Prompted], decoding: Decoding, seed: int
    ) -> list[Continuation]:
        return self._run(prompted, decoding, self._growth(prompted, decoding, seed), seed)

    def _growth(self, prompted: Sequence[Prompted], decoding: Decoding, seed: int) -> Growth:
        """How the texts of requests grow, each with noise of its own."""
        ids = [entry.request.id for entry in prompted]
        width = self.base.tokens.vocabulary_size
        noise = None if decoding.greedy else Exponentials(seed, ids, width)
        budgets = [decoding.max_new_tokens] * len(prompted)
        return Growth(Draw(noise), budgets, self._ends, self._is_over)

    def _is_over(self, ids: Sequence[int]) -> bool:
        """Returns whether a continuation has a string that ends it."""
        if not self._stops:
            return False
        # a token is a byte at least, and a character four bytes at most
        tail = self.base.text(ids[-4 * max(map(len, self._stops)) :])
        return any(stop in tail for stop in self._stops)

    def _run(
        self, prompted: Sequence[Prompted], decoding: Decoding, growth: Growth, seed: int
    ) -> list[Continuation]:
        with torch.inference_mode():
            return grow(self._rows(prompted, seed), self._steering(prompted, decoding), growth)

    def _steering(self, prompted: Sequence[Prompted], decoding: Decoding) -> SteeringProcessor:
        controls = [entry.request.control for entry in prompted]
        return self.processor(controls, attention_mask=text_mask(prompted), decoding=decoding)

    def _rows(self, prompted: Sequence[Prompted], seed: int) -> CausalRows:
        cache, model = self._cache(prompted, seed), self._model(prompted)
        prompts, base = [entry.ids for entry in prompted], self.base
        return CausalRows.of(model, prompts, base.bos_id, base.device, prefix=cache)

    def _model(self, prompted: Sequence[Prompted]) -> Any:
        """Returns the model that writes a batch."""
        return self._writer(prompted[0].request.control).model

    def _answer(self, prompted: Prompted, continuation: Continuation) -> Answer:
        request = prompted.request
        written = self.base.continuation(prompted.ids, continuation.ids)
        if request.prompt[-1:] in (" ", "\t"):
            written = written.lstrip(" ")
        written, stop = until(written, self._stops)
        return Answer.of(
            request,
            written,
            tokens=continuation.steps,
            forward_passes=continuation.passes,
            backward_passes=continuation.backward_passes,
            extra={
                **({"prompt_cut": True} if prompted.cut else {}),
                **({"stopped_at": stop} if stop else {}),
            },
        )


@dataclass(frozen=True, kw_only=True)
class InChat(LocalTechnique):
    """A technique whose texts can be part of a chat with the base.

    Raises:
        ModelError: at the first text, a base without a chat template.
    """

    chat: str = option(
        "",
        "Message of the user, such as `Write a review.`; the text begins the answer to it, in the "
        "base's chat template. Guides, experts and the repetition penalty see only the text.",
        otherwise="no chat",
        metavar="TEXT",
    )

    @property
    def signature(self) -> str:
        if not self.chat:
            return super().signature
        template = load_tokenizer(resolve_causal(self.model, self.loading)).chat_template
        return super().signature + with_choices(
            "", {"chat": f"{content_digest(self.chat)}@{content_digest(template or '')}"}
        )

    @property
    def uncontrolled(self) -> LocalTechnique:
        return self._base_alone(chat=self.chat)

    def _start(self, request: Request) -> list[int]:
        if not self.chat:
            return super()._start(request)
        base = self.base
        ids = self._frame.ids([message("user", self.chat)])
        return [*self._frame.opening(base, self.bos), *ids, *self._prefix(request)]

    def _aside(self, start: Sequence[int]) -> int:
        return len(start) if self.chat else 0

    @property
    def _ends(self) -> frozenset[int]:
        return super()._ends | self._frame.ends if self.chat else super()._ends

    @property
    def _frame(self) -> ChatFrame:
        if (frame := chat_frame(self.base)) is None:
            raise ModelError(f"model '{self.model}' has no chat template; leave chat out")
        return frame


@dataclass(frozen=True, kw_only=True)
class UncontrolledBase(InChat):
    """p(x_t | x_<t) of the base model; accepts any control and ignores it."""

    name: ClassVar[str] = "base"

    @property
    def _names_bos(self) -> bool:
        if super()._names_bos or not self.chat or self.bos != "auto":
            return super()._names_bos
        return not chat_lacks_bos(resolve_causal(self.model, self.loading))

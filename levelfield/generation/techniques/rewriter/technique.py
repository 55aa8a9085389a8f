"""A fine-tuned encoder-decoder that rewrites.

A rewriter is a model folder with `rewriter.json`, which says what it was taught. Nothing here needs
PyTorch, so a control is refused before a model is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from levelfield.core.documents import Document
from levelfield.core.errors import ModelError, UserError, first_line
from levelfield.core.options import option
from levelfield.core.sample import Control, single_value
from levelfield.generation.contract import Answer, Decoding, Request
from levelfield.generation.guides import wanted_label
from levelfield.generation.logits.processor import SteeringProcessor
from levelfield.generation.sampling import Choice, Continuation, Draw, Forced
from levelfield.generation.technique import BatchedTechnique, Prompted
from levelfield.generation.techniques.rewriter.network import (
    Penalised,
    Seq2Seq,
    beam_search,
    seq2seq,
    write,
)
from levelfield.io.json_input import read_json
from levelfield.io.problems import shown
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve
from levelfield.models.torch.draws import Exponentials

REWRITER = "rewriter.json"
_MAKE = "`levelfield train rewriter --pairs FILE --attribute NAME --out FOLDER` makes one"


@dataclass(frozen=True)
class RewriterFile(Document):
    """What `rewriter.json` says.

    Attributes:
        attribute: whose labels the model writes in.
        labels: the styles; the source follows the code of the wanted one.
        base: what the model was begun from.
        figures: on held-out pairs, by name.
    """

    attribute: str
    labels: tuple[str, ...]
    base: str
    figures: Mapping[str, float | None]


def code(label: str, source: str) -> str:
    """What the encoder reads: the wanted style, then the source.

    >>> code("formal", "hi there")
    'formal: hi there'
    """
    return f"{label}: {source}"


@functools.lru_cache(maxsize=16)
def rewriter_named(name: str, loading: Loading = AS_USUAL) -> RewriterFile:
    """What a rewriter was taught.

    Raises:
        ModelError: there is no such model, or it is not a rewriter.
    """
    if not name.strip():
        raise ModelError(f"give a rewriter, model=FOLDER; {_MAKE}")
    return read_rewriter(resolve(name, loading).path, name)


def read_rewriter(folder: Path, name: str) -> RewriterFile:
    """What the rewriter in a folder was taught.

    Raises:
        ModelError: there is none.
    """
    try:
        about = read_json(folder / REWRITER)
    except FileNotFoundError as error:
        raise ModelError(
            f"model {shown(name)} is not a rewriter: it has no {REWRITER}; {_MAKE}"
        ) from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{name}: {REWRITER} can't be read: {first_line(error)}") from error
    try:
        attribute, labels = about["attribute"], tuple(about["labels"])
        if not (isinstance(attribute, str) and labels and all(isinstance(x, str) for x in labels)):
            raise TypeError
        return RewriterFile(attribute, labels, str(about["base"]), dict(about.get("figures", {})))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{name}: {REWRITER}: expected attribute, labels and base; train it again"
        ) from error


@dataclass(frozen=True, kw_only=True)
class Rewriter(BatchedTechnique):
    """P(text | code of the wanted style, source) of an encoder-decoder trained on pairs.

    The model is one of `levelfield train rewriter`; its labels say which styles it writes in. Mao
    (2021), section 2.2.2, has several systems of this kind (Lai et al. 2021).
    """

    name: ClassVar[str] = "rewriter"
    rewrites: ClassVar[bool] = True
    model: str = option(
        "", "Rewriter: a folder that `levelfield train rewriter` made.", metavar="FOLDER"
    )
    beams: int = option(
        1,
        "Number of beams of a search over whole texts, by the mean log-probability of their "
        "tokens; more than 1 requires greedy decoding and draws nothing.",
        least=1,
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return self._shown("beams")

    def _label(self, model: str) -> str:
        self._about  # noqa: B018  (raises unless it is a rewriter)
        return resolve(model, self.loading).label

    @property
    def _about(self) -> RewriterFile:
        return rewriter_named(self.model, self.loading)

    def refusal(self, control: Control) -> str:
        values = [single_value(value) for value in control.values()]
        if len(values) != 1 or not isinstance(values[0], str):
            names = ", ".join(control) or "none"
            return f"{self.name}: expected one attribute with one value, found {names}"
        try:
            self._wanted(control)
        except (ModelError, UserError) as error:
            return f"{self.name}: {first_line(error)}"
        return ""

    def _wanted(self, control: Control) -> str:
        """Returns the label that a control asks for.

        Raises:
            UserError: none of the model's.
        """
        about = self._about
        ((attribute, values),) = control.items()
        if attribute != about.attribute:
            raise UserError(f"{attribute} is requested, but the model knows {about.attribute}")
        return wanted_label(attribute, str(single_value(values)), "the model", about.labels)

    @property
    def base(self) -> Seq2Seq:
        """The model, loaded at first use."""
        return seq2seq(self.model, self.loading)

    @property
    def _reads_with(self) -> Any:
        return self.base.model

    def _tokens_read(self, ready: Prompted) -> int:
        return len(ready.ids)

    def _ready(self, batch: Sequence[Request], decoding: Decoding) -> list[Prompted]:
        if self.beams > 1 and not decoding.greedy:
            raise UserError(f"beams is {self.beams}, and a beam search draws nothing; add --greedy")
        room = self.base.limit - 1
        if decoding.max_new_tokens > room:
            raise UserError(
                f"max_new_tokens is {decoding.max_new_tokens}; the model writes at most {room} "
                "tokens"
            )
        return [self._read(request) for request in batch]

    def _read(self, request: Request) -> Prompted:
        """Returns what the encoder reads, and whether the end of the source was cut off."""
        ids, cut = self.base.source(code(self._wanted(request.control), request.source))
        return Prompted(request, ids, cut)

    def _write(self, ready: Sequence[Prompted], decoding: Decoding, seed: int) -> list[Answer]:
        budgets = [decoding.max_new_tokens] * len(ready)
        if self.beams > 1:
            penalty = decoding.repetition_penalty
            texts = [
                beam_search(self.base, source.ids, self.beams, budget, penalty=penalty)
                for source, budget in zip(ready, budgets, strict=True)
            ]
        elif decoding.greedy:
            steering = Penalised(decoding.repetition_penalty)
            texts = write(self.base, [source.ids for source in ready], budgets, steering)
        else:
            width = int(self.base.model.config.vocab_size)
            noise = Exponentials(seed, [source.request.id for source in ready], width)
            texts = self._grow(ready, decoding, Draw(noise), budgets)
        return [self._answer(*pair) for pair in zip(ready, texts, strict=True)]

    def _grow(
        self, ready: Sequence[Prompted], decoding: Decoding, choice: Choice, budgets: Sequence[int]
    ) -> list[Continuation]:
        """Writes texts among the tokens that the decoding leaves."""
        controls = [source.request.control for source in ready]
        steering = SteeringProcessor(None, controls, decoding=decoding)
        return write(self.base, [source.ids for source in ready], budgets, steering, choice)

    def _answer(self, source: Prompted, written: Continuation) -> Answer:
        return Answer.of(
            source.request,
            self.base.text(written.ids),
            tokens=written.steps,
            forward_passes=written.passes,
            extra={"source_cut": True} if source.cut else {},
        )

    def _ids(self, text: str) -> list[int]:
        return self.base.tokens.ids([text])[0]

    def _force(
        self,
        batch: Sequence[Request],
        ids: Sequence[Sequence[int]],
        decoding: Decoding,
        seed: int,  # noqa: ARG002
    ) -> Sequence[Sequence[float]]:
        before = self.base.tokens.before
        texts = [[*before, *row] for row in ids]
        forced = Forced(texts)
        self._grow([*map(self._read, batch)], decoding, forced, [*map(len, texts)])
        return [row[len(before) :] for row in forced.log_p]

"""The contract of all techniques: requests in, answers out.

Nothing here needs PyTorch, so requests are read and refused before a model is loaded.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Protocol

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.limits import SEED
from levelfield.core.options import Options, group, option
from levelfield.core.options import choices as declared_options
from levelfield.core.partitions import partitions
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Control
from levelfield.core.signature import signature
from levelfield.io.reading import ReadingOptions, pairs
from levelfield.workers.place_options import WorkPlace

BATCH = 16
"""How many requests a worker answers at a time, where a technique does not say."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one text.

    Attributes:
        id: unique among the requests; the answer carries it, and it seeds the answer.
        prompt: the text to continue; may be empty.
        control: attribute -> wanted value or values.
        source: the sentence to rewrite, for techniques that rewrite; others continue a prompt.
        references: what people wrote for the source; the answer carries them, and no technique
            reads them.
    """

    id: str
    prompt: str = ""
    control: Control = field(default_factory=dict)
    source: str = ""
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The text that a technique wrote for a request.

    Attributes:
        id, prompt, control, source, references: of the request.
        continuation: what was generated.
        text: `prompt + continuation`; or, if a chat server's answer does not begin with the prompt,
            that answer, which is then also the continuation.
        tokens: number of tokens generated.
        forward_passes: rows sent through any model for this text, a prompt counting as one; of
            `tokens` tokens the base alone takes `tokens` passes.
        backward_passes: rows that gradients went back through, of any model.
        seconds: its share of the time that its batch took.
        extra: further facts from the technique, e.g. `{"prompt_cut": True}`.
    """

    id: str
    prompt: str
    continuation: str
    text: str
    tokens: int
    forward_passes: int
    backward_passes: int = 0
    seconds: float = 0.0
    control: Control = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    references: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: Request, continuation: str, **cost: Any) -> Answer:
        """Returns the answer to a request: its prompt and what follows.

        Args:
            cost: the other fields; `text` if it is not the prompt with the continuation.
        """
        fields = {
            "id": request.id,
            "prompt": request.prompt,
            "control": request.control,
            "source": request.source,
            "references": request.references,
            "text": request.prompt + continuation,
        }
        return cls(continuation=continuation, **(fields | cost))

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON object; `source` and `references` are there if they are not empty."""
        document = asdict(self)
        rewriting = {name: document.pop(name) for name in ("source", "references")}
        return document | {name: value for name, value in rewriting.items() if value}


@dataclass(frozen=True, kw_only=True)
class Decoding(Options):
    """How tokens are chosen, the same for every technique.

    The tokens that may be chosen are those that the base model itself could choose: `top_k` and
    `top_p` cut its distribution after the repetition penalty and the temperature. A technique
    changes the probabilities of those tokens. So a technique of strength 0 is the base.

    Raises:
        UserError: the options give no distribution.
    """

    max_new_tokens: int = option(
        50, "Longest continuation, in tokens; the text may end earlier.", least=1, metavar="N"
    )
    temperature: float = option(
        1.0, "Temperature: divides the log-probabilities of the base.", above=0, metavar="T"
    )
    top_k: int = option(
        0,
        "Choose among this many of the base's most likely tokens; 0 for all.",
        least=0,
        metavar="K",
    )
    top_p: float = option(
        0.9,
        "Choose among the fewest of the base's most likely tokens whose probabilities sum to at "
        "least this.",
        above=0,
        most=1,
        metavar="P",
    )
    repetition_penalty: float = option(
        1.0,
        "Penalty θ of Keskar et al. (2019): logits of tokens that are already in the text are "
        "divided by θ if positive, and multiplied by θ if negative.",
        above=0,
        metavar="THETA",
    )
    greedy: bool = option(False, "Choose the most likely token instead of drawing one.")

    @property
    def choices(self) -> dict[str, str]:
        """Every choice by name, as signatures have it."""
        sampling = {"temperature": f"{self.temperature:g}", "top-k": f"{self.top_k}"}
        sampling["top-p"] = f"{self.top_p:g}"
        return {
            "tokens": f"{self.max_new_tokens}",
            **({"decoding": "greedy"} if self.greedy else sampling),
            "penalty": f"{self.repetition_penalty:g}",
        }


class Technique(Protocol):
    """A way to generate text under control.

    A technique is made of plain arguments and opens nothing before its first text. Its texts depend
    on the request, the seed and the decoding alone: not on batch size, order, or what else is
    asked. If it has a `caution`, `generate` notes this before the first text.
    """

    @property
    def name(self) -> str:
        """The technique's, as `levelfield techniques` has it."""
        ...

    @property
    def signature(self) -> str:
        """Every choice that could change a text: model, guides with checksums, strength. Loads no
        model."""
        ...

    def refusal(self, control: Control) -> str:
        """Returns why a control is not supported, in words; empty if it is. Loads no model."""
        ...

    def generate(
        self,
        requests: Sequence[Request],
        *,
        decoding: Decoding = ...,
        seed: int = ...,
        progress: Progress = ...,
    ) -> Iterator[Answer]:
        """Yields one answer per request as batches end; join answers and requests by id, since
        requests with the same attributes or control may be written together.

        Raises:
            UserError: ids that occur twice, or controls that are not supported; all of them named.
        """
        ...

    def log_probs(
        self, requests: Sequence[Request], continuations: Sequence[str], *, decoding: Decoding = ...
    ) -> list[Floats]:
        """log P(token | prompt, control, tokens before it) of given continuations: (tokens,) each.

        Minus infinity where the decoding leaves a token out.

        Raises:
            UserError: the technique defines no distribution over texts.
        """
        ...


def rewrites(technique: Technique) -> bool:
    """Returns whether a technique rewrites sources; others continue prompts.

    A technique that rewrites says so: `rewrites = True`.
    """
    return bool(getattr(technique, "rewrites", False))


def source_refusal(technique: Technique, source: str) -> str:
    """Returns why a technique can't answer a request with or without a source; empty if it can."""
    if rewrites(technique) == bool(source):
        return ""
    if source:
        return (
            f"{technique.name} continues prompts, and this request has a source to rewrite; "
            "`levelfield techniques` lists those that rewrite"
        )
    return f"{technique.name} rewrites a source, and this request has none"


def check_requests(technique: Technique, requests: Sequence[Request]) -> None:
    """Refuses requests that a technique can't answer, before a model is loaded.

    Raises:
        UserError: one line that names all of them.
    """
    ids: set[str] = set()
    problems = []
    for request in requests:
        if request.id in ids:
            problems.append(f"'{request.id}' occurs twice")
        ids.add(request.id)
        reason = source_refusal(technique, request.source) or technique.refusal(request.control)
        if reason:
            problems.append(f"'{request.id}': {reason}")
    if problems:
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise UserError(f"requests: {'; '.join(problems[:5])}{more}")


@dataclass(frozen=True, kw_only=True)
class AnsweringTechnique(Options, abc.ABC):
    """Base of techniques: requests are checked here, and a technique says how it answers them
    (`_answers`).
    """

    name: ClassVar[str] = ""
    _without_log_probs: ClassVar[str] = " defines no distribution over texts"

    @property
    def choices(self) -> Mapping[str, str]:
        """Every choice that could change a text, by name. No model is loaded."""
        return {}

    @property
    def signature(self) -> str:
        return signature(self.name, self.choices)

    def _shown(self, *names: str) -> dict[str, str]:
        """Returns options as signatures have them."""
        declared = declared_options(type(self))
        words = {}
        for name in names:
            value = getattr(self, name)
            short = f"{value:g}" if float in declared[name].kinds else str(value)
            words[name.replace("_", "-")] = short.lower() if declared[name].is_flag else short
        return words

    def refusal(self, control: Control) -> str:  # noqa: ARG002  (techniques without control)
        """Returns why a control is not supported; empty if it is."""
        return ""

    def generate(
        self,
        requests: Sequence[Request],
        *,
        decoding: Decoding = Decoding(),
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> Iterator[Answer]:
        """Yields an answer a request, as it comes.

        Raises:
            UserError: ids that occur twice, or requests that are not supported; all of them named.
        """
        check_requests(self, requests)
        for answer in self._answers(requests, decoding, seed):
            yield answer
            progress(1)

    def log_probs(
        self,
        requests: Sequence[Request],  # noqa: ARG002
        continuations: Sequence[str],  # noqa: ARG002
        *,
        decoding: Decoding = Decoding(),  # noqa: ARG002
        seed: int = 0,  # noqa: ARG002
    ) -> list[Floats]:
        """Nothing, unless the technique says otherwise.

        Raises:
            UserError: the technique defines no distribution over texts.
        """
        raise UserError(f"{self.name}{self._without_log_probs}")

    def batches(self, requests: Sequence[Request]) -> Iterator[list[Request]]:
        """Yields the requests in lists that workers answer apart from each other."""
        return partitions(requests, BATCH)

    @abc.abstractmethod
    def _answers(
        self, requests: Sequence[Request], decoding: Decoding, seed: int
    ) -> Iterator[Answer]:
        """Yields an answer a request."""


def until(text: str, stops: Sequence[str]) -> tuple[str, str]:
    """What precedes the first of these strings, and which it is; all of the text without one.

    >>> until("It froze.\\nUser: And then?", ["\\nUser:", "\\nSystem:"])
    ('It froze.', '\\nUser:')
    """
    end, stop = min(((text.find(stop), stop) for stop in stops if stop in text), default=(None, ""))
    return text[:end], stop


def _labels(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the words of `--control` as attribute -> labels."""
    return {name: tuple(value.split(",")) for name, value in pairs("--control", words).items()}


@dataclass(frozen=True, kw_only=True)
class WritingOptions(Options):
    """Which technique writes for whom, and how tokens are chosen."""

    model: str | None = option(
        None,
        "Base model: a hub name or a folder.",
        metavar="NAME",
        otherwise="that of the technique, usually offline/smollm2",
    )
    guide: str | None = option(
        None,
        "Guide: a name or a folder; for several attributes, several separated by commas.",
        metavar="NAME",
        otherwise="the one that ships for the attribute",
    )
    options: Mapping[str, Any] = option(
        {},
        "Option of the technique, as `levelfield techniques NAME` lists it; may be given again.",
        flags=("--option", "-o"),
        metavar="NAME=VALUE",
    )
    control: Mapping[str, str | Sequence[str]] = option(
        {},
        "Control for requests that name none; with several labels, each prompt is used with each "
        "label.",
        metavar="ATTR=LABEL[,LABEL]",
        read=_labels,
    )
    reading: ReadingOptions = group(
        ReadingOptions(),
        without=(
            *("source_file", "reference_files", "control", "system", "prompt", "thoughts", "ids"),
        ),
    )
    seed: int = option(
        0,
        "Seed of sampling; a text depends on the seed and its id, not on its position.",
        least=0,
        most=SEED,
        metavar="N",
    )
    decoding: Decoding = group(Decoding())


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(WritingOptions):
    """How texts are generated."""

    system: str = option(
        "",
        "Name under which the texts are compared.",
        metavar="NAME",
        otherwise="the technique",
    )
    place: WorkPlace = group(WorkPlace())


@dataclass(frozen=True, kw_only=True)
class SearchOptions(Options):
    """How near a strength comes to a budget."""

    tolerance: float = option(
        0.02, "Largest distance from the budget, as a share of it.", above=0, most=1
    )
    most: int = option(
        12, "Maximum number of strengths tried on all requests.", least=2, metavar="N"
    )


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions(SearchOptions, WritingOptions):
    """How a strength is calibrated."""

    budget: float = option(
        0.5, "Budget: mean divergence from the base, in nats per token.", above=0, metavar="NATS"
    )

"""Bases of the techniques that change the base's states."""

from __future__ import annotations

import abc
import functools
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

from levelfield.core.errors import UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.contract import Request
from levelfield.generation.guides import KEPT, GuidedTechnique
from levelfield.generation.technique import InChat, Prompted
from levelfield.generation.techniques._steering.intervention import Intervention, SteeredModel
from levelfield.generation.techniques._steering.vectors import VectorFile, Vectors, guide_vectors
from levelfield.models.guides import GuideKind
from levelfield.models.torch.language_model import LanguageModel

_SCOPE = re.compile(r"all|after-prompt|last-[1-9]\d*")

Wishes = tuple[tuple[str, str], ...]
"""Attributes and their wanted labels, in alphabetical order."""


@dataclass(frozen=True)
class SteeredBase:
    """A base under an intervention.

    Attributes:
        lm: computes with it, and shares the base's weights.
        intervention: can be turned on for the base itself.
    """

    lm: LanguageModel
    intervention: Intervention


@dataclass(frozen=True, kw_only=True)
class StateTechnique(InChat, GuidedTechnique, abc.ABC):
    """A technique that changes the base's states.

    What writes is the base under the changes: they apply to every token that it reads, BOS and the
    prompt among them, unless `scope` says otherwise, and the decoding cuts the distribution that
    they leave.
    """

    strength: float = option(1.0, "Strength α; 0 is the base.")
    scope: str = option(
        "all",
        "Tokens whose states are changed: all; after-prompt, those of the text; last-K, those of "
        "the text and the last K of the prompt, as in last-1.",
        fits=_SCOPE.fullmatch,
        expected="all, after-prompt or last-K, such as last-1",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._strength_and_scope, **super().choices}

    @property
    def _strength_and_scope(self) -> Mapping[str, str]:
        return self._shown("strength", *(["scope"] if self.scope != "all" else []))

    def _alike(self, request: Request) -> list[Any]:
        """The control: a batch is steered by one intervention."""
        return _control_words(request)

    def steering(self, control: Control) -> AbstractContextManager[None]:
        """Returns a context in which the base is steered, whoever calls it in this thread:
        `with technique.steering(control): technique.base.model.generate(…)`.

        Raises:
            UserError: the control is not supported.
        """
        if reason := self.refusal(control):
            raise UserError(reason)
        if self.scope != "all":
            raise UserError(
                f"{self.name}: scope={self.scope} needs to know where a prompt ends, "
                "which only texts of the technique itself tell"
            )
        steered = self._steered_base(control)
        return steered.intervention.on() if steered else nullcontext()

    def _writer(self, control: Control) -> LanguageModel:
        steered = self._steered_base(control)
        return steered.lm if steered else self.base

    def _model(self, prompted: Sequence[Prompted]) -> Any:
        model = super()._model(prompted)
        if self.scope == "all" or not isinstance(model, SteeredModel):
            return model
        within = int(self.scope.removeprefix("last-")) if self.scope != "after-prompt" else 0
        return model.from_token(max(0, max(len(entry.ids) for entry in prompted) - within))

    def _steered_base(self, control: Control) -> SteeredBase | None:
        """Returns the base under the intervention that a control asks for; None for the base."""
        if not control or self.strength == 0:
            return None
        wishes = ((name, self._wanted_label(name, control)) for name in sorted(control))
        return _steered_base(self, tuple(wishes), self._files)

    @property
    def _files(self) -> tuple[VectorFile, ...]:
        """Files of the user's that say how states are changed."""
        return ()

    @abc.abstractmethod
    def _intervention(self, wishes: Wishes) -> Intervention:
        """Returns what is done to the base's states."""


@dataclass(frozen=True, kw_only=True)
class SteeringTechnique(StateTechnique, abc.ABC):
    """A technique that changes the base's states by vectors."""

    guide_kind: ClassVar[GuideKind] = "vector"
    vectors: str = option(
        "",
        "Files instead of guides, one per label: positive=FILE.gguf,negative=-FILE.gguf. A file "
        "is a control vector as repeng and llama.cpp write it, or one vector with its layer, "
        "FILE.safetensors@LAYER; a minus reverses it.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors and self.guide:
            raise UserError(f"{self.name}: give a guide or vectors, not both")
        labels = [file.label for file in self._files]
        if len(set(labels)) < len(labels):
            raise UserError(f"vectors: two files are for the same label of {', '.join(labels)}")

    @property
    def _files(self) -> tuple[VectorFile, ...]:
        """The files of `vectors`."""
        return tuple(map(VectorFile.parse, self.vectors.split(","))) if self.vectors else ()

    @property
    def choices(self) -> Mapping[str, str]:
        if not self.vectors:
            return super().choices
        files = ",".join(f"{file.label}={file.name}" for file in self._files)
        return {**self._strength_and_scope, "vectors": files}

    def refusal(self, control: Control) -> str:
        if self.vectors and len(control) > 1:
            return f"{self.name}: vectors serve one attribute at a time; there are " + ", ".join(
                control
            )
        return super().refusal(control)

    def _labels(self, attribute: str) -> tuple[str, tuple[str, ...]]:
        if self.vectors:
            return "the vectors", tuple(file.label for file in self._files)
        return super()._labels(attribute)

    def _vectors(self, attribute: str, label: str) -> tuple[Vectors, int | None, str]:
        """Returns the vectors of a label, the layer that their guide names, and whose they are."""
        for file in self._files:
            if file.label == label:
                return file.read(self.model, self.loading), file.layer, file.path.name
        guide = self._guide(attribute)
        layer = guide.settings.get("layer")
        vectors = guide_vectors(guide, self.model, self.loading)[label]
        return vectors, None if layer is None else int(layer), f"guide '{guide.name}'"


def _control_words(request: Request) -> list[tuple[str, str]]:
    return sorted((name, str(value)) for name, value in request.control.items())


@functools.lru_cache(maxsize=KEPT)
def _steered_base(
    technique: StateTechnique,
    wishes: Wishes,
    files: tuple[VectorFile, ...],  # noqa: ARG001  (with their digests: files change)
) -> SteeredBase:
    base, intervention = technique.base, technique._intervention(wishes)
    model = SteeredModel(base.model, intervention)
    label = f"{base.label}+{technique.name}"
    lm = LanguageModel(model, base.tokenizer, label, base.tokens, base.ends)
    return SteeredBase(lm, intervention)

"""Techniques that steer states: vectors added to layers or heads, learnt edits, and ablation."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import option
from levelfield.core.sample import Control
from levelfield.generation.contract import Request
from levelfield.generation.guides import KEPT, GuidedTechnique
from levelfield.generation.technique import InChat
from levelfield.generation.techniques.steering.intervention import (
    Intervention,
    LowRankEdit,
    SteeredModel,
    ablation,
    additions,
    head_additions,
    low_rank_edits,
)
from levelfield.generation.techniques.steering.vectors import (
    VectorFile,
    Vectors,
    chosen_layers,
    guide_edits,
    guide_vectors,
    head_vectors,
    layer_numbers,
)
from levelfield.models.guides import GuideKind
from levelfield.models.torch.language_model import LanguageModel

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
    prompt among them, and the decoding cuts the distribution that they leave.
    """

    strength: float = option(1.0, "Strength α; 0 is the base.")

    @property
    def choices(self) -> Mapping[str, str]:
        return {**self._shown("strength"), **super().choices}

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
        steered = self._steered_base(control)
        return steered.intervention.on() if steered else nullcontext()

    def _writer(self, control: Control) -> LanguageModel:
        steered = self._steered_base(control)
        return steered.lm if steered else self.base

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
        return {**self._shown("strength"), "vectors": files}

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
        of_label = guide_vectors(guide, self.model, self.loading)[label]
        return of_label, None if layer is None else int(layer), f"guide '{guide.name}'"


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


@dataclass(frozen=True, kw_only=True)
class CAA(SteeringTechnique):
    """h_l ← h_l + α v_l for the output states of some layers l, for every token.

    v_l is the vector of the wanted label: for a guide, the difference between the mean state of
    texts with the label and that of texts with the others, at the same layer. Rimsky et al. (2024),
    "Steering Llama 2 via Contrastive Activation Addition", section 3; with the states of a pair of
    prompts, Turner et al. (2023), "Steering Language Models With Activation Engineering". With
    several attributes, their vectors add up.

    Controls attributes with one value, by a guide of kind `vector` each, or one attribute by
    `vectors`.

    Raises:
        UserError: `vectors` or `layers` can't be read, or, at the first text, there is no vector
            of a layer.
        ModelError: at the first text, vectors that don't fit the base.
    """

    name: ClassVar[str] = "caa"
    strength: float = option(5.0, "Strength α; 0 is the base, and a negative value reverses v_l.")
    layers: str = option(
        "",
        "Layers whose states are changed: numbers and ranges, counted from 0, as in 8-12,15.",
        otherwise="the one that the guide names, or all in a file",
        metavar="LAYERS",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers:
            layer_numbers(self.layers)

    @property
    def choices(self) -> Mapping[str, str]:
        layers = ",".join(map(str, layer_numbers(self.layers))) if self.layers else "default"
        return {**super().choices, "layers": layers}

    def _intervention(self, wishes: Wishes) -> Intervention:
        total: dict[int, torch.Tensor] = {}
        for attribute, label in wishes:
            vectors, named, owner = self._vectors(attribute, label)
            if self.layers:
                vectors = chosen_layers(vectors, layer_numbers(self.layers), owner)
            elif named is not None:
                vectors = chosen_layers(vectors, [named], owner)
            for layer, vector in vectors.items():
                total[layer] = total.get(layer, 0) + self.strength * vector
        device = self.base.device
        return additions(self.base.model, {layer: v.to(device) for layer, v in total.items()})


@dataclass(frozen=True, kw_only=True)
class Ablation(SteeringTechnique):
    """h ← h − α r̂ r̂ᵀ h for the states of every token, in every layer.

    r̂ is the vector of one layer at length 1. At α = 1 nothing of it is left in any state: neither
    in the input of the first layer, nor in the output of a layer's attention, nor in the output of
    a layer. Arditi et al. (2024), "Refusal in Language Models Is Mediated by a Single Direction",
    section 2.4. With several attributes, the plane or space of their directions is removed.

    What is removed is what tells the labels apart, so both labels of a pair give the same texts:
    ablation makes a base indifferent, and does not choose a label.

    Controls attributes with one value, by a guide of kind `vector` each, or one attribute by
    `vectors`.

    Raises:
        UserError: `vectors` can't be read, or, at the first text, there is no vector of the layer,
            or several and none is named.
        ModelError: at the first text, a vector that doesn't fit the base or is 0.
    """

    name: ClassVar[str] = "ablation"
    strength: float = option(1.0, "Share α of the component that is removed; 0 is the base.")
    layer: int | None = option(
        None,
        "Layer whose vector is the direction, counted from 0.",
        least=0,
        otherwise="the one that the guide names, or the only one in a file",
        metavar="N",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        layer = "default" if self.layer is None else str(self.layer)
        return {**super().choices, "layer": layer}

    def _intervention(self, wishes: Wishes) -> Intervention:
        directions = torch.stack([self._direction(*wish) for wish in wishes], dim=1)
        basis, sizes, _ = torch.linalg.svd(directions.double(), full_matrices=False)
        basis = basis[:, sizes > 1e-6]  # equal directions count once
        return ablation(self.base.model, basis.float().to(self.base.device), self.strength)

    def _direction(self, attribute: str, label: str) -> torch.Tensor:
        """Returns r̂ of a label: (width,)."""
        vectors, named, owner = self._vectors(attribute, label)
        layer = named if self.layer is None else self.layer
        if layer is None and len(vectors) > 1:
            raise UserError(f"{owner} has {len(vectors)} vectors; choose one with layer=N")
        ((number, vector),) = (
            vectors if layer is None else chosen_layers(vectors, [layer], owner)
        ).items()
        if not vector.any():
            raise ModelError(f"{owner}: the vector of layer {number} is 0 and has no direction")
        direction: torch.Tensor = vector / vector.norm()
        return direction


@dataclass(frozen=True, kw_only=True)
class ITI(StateTechnique):
    """x_h ← x_h + α σ_h θ̂_h for the outputs of some attention heads h, for every token.

    x_h is the output of a head before its layer's output projection. θ_h is the difference between
    its mean over texts with the wanted label and that over texts with the others, θ̂_h is θ_h at
    length 1, and σ_h the standard deviation of texts along it. The heads are the K that tell the
    labels of held-out texts apart best, by the nearer mean. Li et al. (2023), "Inference-Time
    Intervention: Eliciting Truthful Answers from a Language Model", section 4. With several
    attributes, their additions add up.

    Controls attributes with one value, by a guide of kind `heads` each.

    Raises:
        ModelError: at the first text, a guide of another base, or a base whose attention has no
            output projection by a known name.
    """

    name: ClassVar[str] = "iti"
    guide_kind: ClassVar[GuideKind] = "heads"
    strength: float = option(
        5.0, "Strength α, in standard deviations; 0 is the base. The authors use 15."
    )
    heads: int = option(48, "Number K of the heads that are changed.", least=1)

    @property
    def choices(self) -> Mapping[str, str]:
        return {**super().choices, **self._shown("heads")}

    def _intervention(self, wishes: Wishes) -> Intervention:
        total: dict[int, torch.Tensor] = {}
        for attribute, label in wishes:
            guide = self._guide(attribute)
            chosen = head_vectors(guide, label, self.heads, self.model, self.loading)
            for layer, vector in chosen.items():
                total[layer] = total.get(layer, 0) + self.strength * vector
        device = self.base.device
        return head_additions(self.base.model, {layer: v.to(device) for layer, v in total.items()})


@dataclass(frozen=True, kw_only=True)
class LoReFT(StateTechnique):
    """h_l ← h_l + α R_lᵀ (W_l h_l + b_l − R_l h_l) for the output states of some layers l, for
    every token.

    R_l, W_l and b_l are learnt so that texts of the wanted label become likely; the rows of R_l are
    orthonormal, so at α = 1 the edit sets the state's components along them. Wu et al. (2024),
    "ReFT: Representation Finetuning for Language Models", section 3.2; the authors edit the first
    and last tokens of a prompt alone. With several attributes, their edits add up.

    Controls attributes with one value, by a guide of kind `reft` each.

    Raises:
        ModelError: at the first text, a guide of another base or one whose edits don't fit it.
    """

    name: ClassVar[str] = "loreft"
    guide_kind: ClassVar[GuideKind] = "reft"

    def _intervention(self, wishes: Wishes) -> Intervention:
        total: dict[int, LowRankEdit] = {}
        for attribute, label in wishes:
            edits = guide_edits(self._guide(attribute), label, self.model, self.loading)
            for layer, edit in edits.items():
                total[layer] = total[layer] + edit if layer in total else edit
        device = self.base.device
        edits = {layer: edit.to(device) for layer, edit in total.items()}
        return low_rank_edits(self.base.model, edits, self.strength)

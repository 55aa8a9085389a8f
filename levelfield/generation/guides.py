"""Guides and the techniques that they steer: which guide serves a control, and what refuses it."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file

from levelfield.core.errors import ModelError, UserError, first_line
from levelfield.core.options import option
from levelfield.core.sample import KEYWORDS, Control, single_value
from levelfield.generation.logits.terms import BaseLM, Formula, Term
from levelfield.generation.table import controlled_by
from levelfield.generation.technique import LocalTechnique
from levelfield.io.problems import printable, shown
from levelfield.metrics.judges.file import shipped_judges
from levelfield.metrics.judges.judge import Judge
from levelfield.models.guides import Guide, GuideKind, guide_for, guides_for
from levelfield.models.loading import Loading, reading
from levelfield.models.resolve import Resolved
from levelfield.models.torch.language_model import LanguageModel, language_model

KEPT = 8
"""How many guides of a kind a process keeps, those used last."""


def base_of(guide: Guide, kind: GuideKind, model: str, loading: Loading) -> LanguageModel:
    """Returns the base of a guide of this kind.

    Raises:
        ModelError: the guide is of another kind or base.
    """
    if guide.kind != kind:
        raise ModelError(f"guide '{guide.name}' is of kind {guide.kind}; expected {kind}")
    guide.check_base(model, loading)
    return language_model(model, loading)


@contextmanager
def weights_on_base(
    guide: Guide, kind: GuideKind, model: str, loading: Loading, names: Sequence[str] = ()
) -> Iterator[tuple[LanguageModel, dict[str, torch.Tensor]]]:
    """The base of a guide of this kind, and the guide's tensors, on the CPU. What is raised while
    networks are made of them is the damage of the guide's files.

    Args:
        names: of the tensors that the guide may have, or of what their names begin with where a
            name ends in a dot; empty where the network itself knows.

    Raises:
        ModelError: the guide is of another kind or base, or its files are damaged.
    """
    base = base_of(guide, kind, model, loading)
    with reading(guide.name):
        tensors = load_file(guide.weights)
        for name, tensor in sorted(tensors.items()):
            if names and not any(
                name.startswith(n) if n.endswith(".") else name == n for n in names
            ):
                raise _unusable(guide, name, "are not known")
            if not tensor.is_floating_point():
                raise _unusable(guide, name, f"are of type {str(tensor.dtype)[6:]}, not floats")
            if not tensor.numel():
                raise _unusable(guide, name, "are empty")
            if not torch.isfinite(tensor).all():
                raise _unusable(guide, name, "are not all finite numbers")
        yield base, tensors


def _unusable(guide: Guide, name: str, cause: str) -> ModelError:
    return ModelError(
        f"guide '{guide.name}' can't be used: its weights {printable(name)} {cause}; make the "
        "guide again"
    )


class GuidedModel(abc.ABC):
    """A base that a guide changes, called like the base itself."""

    def __init__(self, base: Any) -> None:
        self._base, self.config = base, base.config

    @property
    def forward(self) -> Any:
        """The base's, with the same parameters, as the guide changes it."""

        @functools.wraps(self._base.forward)
        def forward(*args: Any, **options: Any) -> Any:
            return self(*args, **options)

        return forward

    @abc.abstractmethod
    def __call__(self, *args: Any, **options: Any) -> Any:
        """What the base makes of tokens under the guide."""

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Returns those of the base."""
        parameters: Iterator[torch.nn.Parameter] = self._base.parameters()
        return parameters


def check_own_model(guide: Guide, resolved: Resolved) -> None:
    """Nothing, if this is the model that a guide which is a whole model was made with.

    Raises:
        ModelError: its files are others.
    """
    if resolved.revision != guide.revision:
        raise ModelError(
            f"guide '{guide.name}': the files in {guide.base} are not those that it was made with; "
            "convert it again"
        )


def meant(attribute: str, value: str, labels: Sequence[str]) -> str | None:
    """Returns the label that a control's value means; None if it means none.

    Case never matters, and words that judges take for one label are one.

    >>> meant("topic", "Science/Technology", ["sci/tech", "sports"])
    'sci/tech'
    """
    if value.strip() in labels:
        return value.strip()
    judge = Judge(attribute, attribute, spellings=shipped_judges().spellings)
    meaning = judge.label(value).casefold()
    return next((label for label in labels if judge.label(label).casefold() == meaning), None)


def wanted_label(attribute: str, value: str, owner: str, labels: Sequence[str]) -> str:
    """Returns which of the labels that somebody has a control's value means.

    Raises:
        UserError: none of them; names them.
    """
    if (label := meant(attribute, value, labels)) is None:
        raise UserError(
            f"{attribute} {shown(value)} is not a label of {owner}; there are {', '.join(labels)}"
        )
    return label


@dataclass(frozen=True, kw_only=True)
class GuidedTechnique(LocalTechnique, abc.ABC):
    """A technique that controls the attributes of its guides."""

    guide_kind: ClassVar[GuideKind]
    guide: str = option(
        "",
        "Guides: names or folders, separated by commas, one per attribute.",
        otherwise="those that come with the package",
        metavar="NAME",
    )

    @property
    def choices(self) -> Mapping[str, str]:
        guides = guides_for(self.guide_kind, self.guide)
        return {"guide": ",".join(guide.label for guide in guides) or "none"}

    def refusal(self, control: Control) -> str:
        problems = (self._problem(attribute, control) for attribute in control)
        return next((f"{self.name}: {problem}" for problem in problems if problem), "")

    def _problem(self, attribute: str, control: Control) -> str:
        """Returns why an attribute of a control is not supported; empty if it is."""
        try:
            self._wanted_label(attribute, control)
        except UserError as error:
            if attribute == KEYWORDS:
                return f"controls labels of texts, not keywords; {controlled_by(KEYWORDS)}"
            return first_line(error)
        return ""

    def _guide(self, attribute: str) -> Guide:
        """Returns the guide of an attribute.

        Raises:
            UserError: there is none.
        """
        return guide_for(attribute, self.guide_kind, self.guide, self.model, self.loading)

    def _labels(self, attribute: str) -> tuple[str, tuple[str, ...]]:
        """What serves an attribute, in words, and the labels that it has.

        Raises:
            UserError: nothing does.
        """
        guide = self._guide(attribute)
        return f"guide {guide.name}", guide.labels

    def _wanted_label(self, attribute: str, control: Control) -> str:
        """Returns which of these labels a control asks for.

        Raises:
            UserError: none of them; names them.
        """
        owner, labels = self._labels(attribute)
        value = single_value(control[attribute])
        if not isinstance(value, str):
            raise UserError(f"{attribute} has {len(value)} values; expected one")
        return wanted_label(attribute, value, owner, labels)

    def _steered(
        self, strength: float, term: Callable[[str], Term], attributes: frozenset[str]
    ) -> Formula | None:
        """Returns log p + strength · Σ_a of the terms of attributes; None for the base alone."""
        if not attributes or not strength:
            return None
        terms = tuple((1.0, term(attribute)) for attribute in sorted(attributes))
        return BaseLM() + strength * Formula(terms)

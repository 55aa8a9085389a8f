"""The base model without control: what every technique is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelfield.generation.technique import LocalTechnique


@dataclass(frozen=True, kw_only=True)
class UncontrolledBase(LocalTechnique):
    """p(x_t | x_<t) of the base model; any control is taken and ignored."""

    name: ClassVar[str] = "base"

"""What a technique's texts depend on, known without a model in memory."""

from __future__ import annotations

from levelfield.study.plan import TechniqueSource
from levelfield.systems.contract import Decoding, Technique
from levelfield.systems.making import make_technique


def technique_identity(source: TechniqueSource) -> list[str]:
    """The signature of a technique without our version, and every choice of decoding.

    Models and guides are in it by their checksums, and what no text depends on (batches, devices)
    is not. Our version is left out, so that texts stay when it changes.

    Raises:
        UserError: a model or guide is not on this machine.
    """
    return identity(make_technique(source.technique, source.options), source.decoding)


def identity(technique: Technique, decoding: Decoding) -> list[str]:
    """The same of a technique that is there."""
    signature, _, _ = technique.signature.rpartition("|v:")
    return [signature, *(f"{name}:{choice}" for name, choice in decoding.choices.items())]

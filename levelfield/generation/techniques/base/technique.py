"""The base model alone."""

from levelfield.generation.technique import UncontrolledBase

__all__ = ["UncontrolledBase"]

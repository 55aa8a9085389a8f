"""Controlled generation: techniques with one contract, on one base model.

The classes are imported when they are first used, so that `import levelfield.generation` is quick.
"""

import importlib
from typing import Any

from levelfield.generation.contract import Answer, Decoding, Request
from levelfield.generation.table import PUBLIC

__all__ = ["Answer", "Decoding", "Request", *PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'levelfield.generation' has no attribute '{name}'")
    return getattr(importlib.import_module(PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

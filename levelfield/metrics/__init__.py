"""Metrics: samples in, scores out. Each is a class of plain options.

>>> from levelfield.metrics import KeywordsCoverage
>>> KeywordsCoverage().name
'keywords.coverage'

Classes are imported on first use, so that importing this package loads no model library.
"""

from __future__ import annotations

import importlib
from typing import Any

from levelfield.core.extensions import METRICS, entries

_MODULES = {
    "CTRLEval": f"{__name__}.ctrleval",  # several metrics in one pass, so that none is its own
    **{e.attr: e.module for e in entries(METRICS).values() if e.module.startswith(f"{__name__}.")},
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__

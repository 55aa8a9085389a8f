"""Every technique on a tiny model, for the tests that all of them must pass."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping

import pytest

from levelfield.generation.table import TECHNIQUES
from technique_cases import Case

CASES: Mapping[str, Case] = {
    name: importlib.import_module(f"{module}.case").CASE
    for name, entry in TECHNIQUES.items()
    if (module := entry.target.partition(".technique:")[0]).startswith("levelfield.")
}
"""Name -> `CASE` of `case.py` in the folder of the technique."""

QUICK = ("base", "gedi", "prompting", "caa", "pplm", "cbart", "constrained-beam", "combination")
"""A technique a mechanism: none, logits, input, states, gradient, editing, search, techniques in a
technique. In `make test` they stand for the others, which `make test-slow` tries."""


def by_mechanism(names: Iterable[str]) -> pytest.MarkDecorator:
    """Parametrizes a test over techniques; those that are not in `QUICK` are slow."""
    return pytest.mark.parametrize(
        "name",
        [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names],
    )

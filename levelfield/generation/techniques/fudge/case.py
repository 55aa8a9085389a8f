"""Contract-test case of `fudge`."""

from levelfield.generation.techniques.fudge.technique import FUDGE
from technique_cases import Case, future_guide, model, with_guide

CASE = Case(
    with_guide(FUDGE, future_guide, strength=5.0),
    options={
        "strength": 3.0,
        "guide": future_guide(model(), seed=1),
        "candidates": 20,
        "keep": 10,
        "form": "p",
    },
)

"""Contract-test case of `iti`."""

from levelfield.generation.techniques.iti.technique import ITI
from technique_cases import Case, heads_guide, model, with_guide

CASE = Case(
    with_guide(ITI, heads_guide, strength=1.0, heads=3),
    options={
        "strength": 3.0,
        "scope": "after-prompt",
        "guide": heads_guide(model(), seed=1),
        "heads": 1,
    },
)

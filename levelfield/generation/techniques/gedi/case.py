"""Contract-test case of `gedi`."""

from levelfield.generation.techniques.gedi.technique import GeDi
from technique_cases import Case, class_guide, model, with_guide

CASE = Case(
    with_guide(GeDi, class_guide, strength=5.0),  # which rounding errors are multiplied by
    options={
        "strength": 10.0,
        "guide": class_guide(model(), seed=1),
        "length": "sum",
        "filter_p": 0.8,
    },
)

"""Contract-test case of `genarm`."""

from levelfield.generation.techniques.genarm.technique import GenARM
from technique_cases import Case, class_guide, model, with_guide

CASE = Case(
    with_guide(GenARM, class_guide, unless="experts"),
    options={
        "strength": 3.0,
        "guide": class_guide(model(), seed=1),
        "experts": f"positive={model(seed=1)},negative={model(seed=2)}",
    },
)

"""Contract-test case of `ablation`."""

from levelfield.generation.techniques.ablation.technique import Ablation
from technique_cases import Case, model, vector_file, vector_guide, with_guide

CASE = Case(
    with_guide(Ablation, vector_guide, unless="vectors"),
    options={
        "strength": 3.0,
        "scope": "after-prompt",
        "guide": vector_guide(model(), seed=1),
        "vectors": f"positive={vector_file(model())}",
        "layer": 0,
    },
)

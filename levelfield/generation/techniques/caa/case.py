"""Contract-test case of `caa`."""

from levelfield.generation.techniques.caa.technique import CAA
from technique_cases import Case, model, vector_file, vector_guide, with_guide

CASE = Case(
    with_guide(CAA, vector_guide, unless="vectors", strength=1.0),
    options={
        "strength": 3.0,
        "scope": "after-prompt",
        "guide": vector_guide(model(), seed=1),
        "vectors": f"positive={vector_file(model())}",
        "layers": "0",
    },
)

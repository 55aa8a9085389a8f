"""Contract-test case of `combination`."""

from levelfield.generation.techniques.combination.technique import Combination, ModelTerm
from technique_cases import Case, on_tiny

CASE = Case(
    on_tiny(
        Combination,
        formula="base + strength * (expert - base)",
        terms={"expert": ModelTerm("A {sentiment} text: ")},
    ),
    refused={"topic": "science"},
    options={
        "formula": "base + 2 * strength * expert",
        "terms": {"expert": ModelTerm("So {sentiment}: ", temperature=2.0)},
        "strength": 3.0,
    },
)

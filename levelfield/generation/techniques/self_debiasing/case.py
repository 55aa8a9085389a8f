"""Contract-test case of `self-debiasing`."""

from levelfield.generation.techniques.self_debiasing.technique import SelfDebiasing
from technique_cases import Case, on_tiny

CASE = Case(
    on_tiny(SelfDebiasing, strength=500.0),  # a tiny model's probabilities are small
    strong=5000.0,
    options={"strength": 900.0, "template": "A {sentiment} text: ", "floor": 0.5},
)

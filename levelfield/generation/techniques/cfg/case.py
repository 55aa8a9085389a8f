"""Contract-test case of `cfg`."""

from levelfield.generation.techniques.cfg.technique import ClassifierFreeGuidance
from technique_cases import Case, on_tiny

CASE = Case(
    on_tiny(ClassifierFreeGuidance),
    refused={"topic": ("science", "politics")},
    options={
        "strength": 3.0,
        "against": "opposite",
        "template": "A {sentiment} text: ",
        "negative": "It was the ",
    },
)

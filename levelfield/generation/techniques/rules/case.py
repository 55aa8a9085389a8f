"""Contract-test case of `rules`."""

from levelfield.generation.techniques.rules.technique import FormalityRules
from technique_cases import Case, without_model

CASE = Case(
    without_model(FormalityRules),
    controls=({"formality": "formal"}, {"formality": "informal"}),
    strength=False,
    autoregressive=False,
    draws=False,
    rewrites=True,
    generates=False,
)

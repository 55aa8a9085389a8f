"""Contract-test case of `constrained-beam`."""

from levelfield.generation.techniques.constrained_beam.technique import ConstrainedBeam
from technique_cases import Case, on_tiny

CASE = Case(
    on_tiny(ConstrainedBeam, beams=4),
    controls=({"keywords": ("it",)}, {"keywords": ("a",)}),
    refused={"sentiment": "positive"},
    strength=False,
    steers=False,
    draws=False,
    options={"beams": 2, "order": "given", "length_penalty": 0.0, "no_repeat": 0},
)

"""Contract-test case of `copy`."""

from levelfield.generation.techniques.copy.technique import CopySource
from technique_cases import Case, without_model

CASE = Case(
    without_model(CopySource),
    controls=({"formality": "formal"}, {"sentiment": "positive"}),
    refused=None,
    strength=False,
    autoregressive=False,
    draws=False,
    rewrites=True,
    generates=False,
)

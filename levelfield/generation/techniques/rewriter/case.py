"""Contract-test case of `rewriter`."""

from levelfield.generation.techniques.rewriter.technique import Rewriter
from technique_cases import Case, rewriter

CASE = Case(
    lambda **options: Rewriter(**{"model": rewriter(), **options}),
    controls=({"formality": "formal"}, {"formality": "informal"}),
    strength=False,
    rewrites=True,
    options={"model": rewriter(seed=1), "beams": 2},
)

"""Contract-test case of `prompting`."""

from levelfield.generation.techniques.prompting.technique import Prompting
from technique_cases import Case, on_tiny, terse_instructions

CASE = Case(
    on_tiny(Prompting),
    controls=({"sentiment": "positive"}, {"keywords": ("court", "culture")}),
    refused={"sentiment": ()},
    strength=False,
    options={"shots": 1, "instructions": str(terse_instructions())},
)

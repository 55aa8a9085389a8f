"""Contract-test case of `discup`."""

from levelfield.generation.techniques.discup.technique import DisCup
from technique_cases import Case, model, prompt_guide, with_guide

CASE = Case(
    with_guide(DisCup, prompt_guide),
    strength=False,
    options={"guide": prompt_guide(model(), seed=1)},
)

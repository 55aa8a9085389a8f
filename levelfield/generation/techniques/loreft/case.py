"""Contract-test case of `loreft`."""

from levelfield.generation.techniques.loreft.technique import LoReFT
from technique_cases import Case, model, reft_guide, with_guide

CASE = Case(
    with_guide(LoReFT, reft_guide),
    options={"strength": 0.5, "scope": "after-prompt", "guide": reft_guide(model(), seed=1)},
)

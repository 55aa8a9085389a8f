"""Contract-test case of `smc`."""

from levelfield.generation.techniques.smc.technique import SMC
from technique_cases import Case, future_guide, model, with_guide

CASE = Case(
    with_guide(SMC, future_guide, particles=4, strength=5.0),
    steers=False,
    options={
        "strength": 3.0,
        "guide": future_guide(model(), seed=1),
        "particles": 3,
        "threshold": 0.9,
    },
)

"""Contract-test case of `priorctg`."""

from levelfield.generation.techniques.priorctg.technique import PriorCTG
from technique_cases import BOTH, Case, latent_guide, model, with_guide

CASE = Case(
    with_guide(PriorCTG, latent_guide),
    controls=BOTH,
    strength=False,
    steers=False,
    options={
        "spread": 1.0,
        "extension": 0.3,
        "ode": True,
        "weights": "topic=2",
        "guide": latent_guide(model(), seed=1),
    },
)

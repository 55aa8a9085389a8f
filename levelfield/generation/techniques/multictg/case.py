"""Contract-test case of `multictg`."""

from levelfield.generation.techniques.multictg.technique import MultiCTG
from technique_cases import BOTH, Case, latent_guide, model, with_guide

CASE = Case(
    with_guide(MultiCTG, latent_guide),
    controls=BOTH,
    strength=False,
    steers=False,
    options={
        "neighbours": 3,
        "centres": 1,
        "noise": 0.5,
        "weights": "topic=2",
        "guide": latent_guide(model(), seed=1),
    },
)

"""Contract-test case of `pplm`."""

from levelfield.generation.techniques.pplm.technique import PPLM
from technique_cases import Case, bag, head_guide, model, with_guide

CASE = Case(
    with_guide(PPLM, head_guide, strength=0.2, iterations=2),
    steers=False,
    options={
        "strength": 0.3,
        "guide": head_guide(model(), seed=1),
        "bag": bag(),
        "iterations": 3,
        "bag_scale": 0.5,
        "gamma": 1.5,
        "fusion": 0.5,
        "kl": 1.0,
        "window": 2,
        "horizon": 2,
    },
)

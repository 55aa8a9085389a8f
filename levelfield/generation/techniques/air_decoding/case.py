"""Contract-test case of `air-decoding`."""

from levelfield.generation.techniques.air_decoding.technique import AirDecoding
from technique_cases import Case, class_guide, model, with_guide

CASE = Case(
    with_guide(AirDecoding, class_guide, strength=5.0),  # which rounding errors are multiplied by
    strong=200.0,
    rereads=False,  # only what is written counts
    options={"strength": 50.0, "guide": class_guide(model(), seed=1)},
)

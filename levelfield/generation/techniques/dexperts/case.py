"""Contract-test case of `dexperts`."""

from levelfield.generation.techniques.dexperts.technique import DExperts
from technique_cases import Case, class_guide, model, with_guide

CASE = Case(
    with_guide(DExperts, class_guide, unless="experts"),
    options={"strength": 1.0, "guide": class_guide(model(), seed=1)},
)

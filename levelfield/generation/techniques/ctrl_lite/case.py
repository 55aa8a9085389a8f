"""Contract-test case of `ctrl-lite`."""

from levelfield.generation.techniques.ctrl_lite.technique import CTRLLite
from technique_cases import Case, class_guide, model, with_guide

CASE = Case(
    with_guide(CTRLLite, class_guide),
    strength=False,
    options={"guide": class_guide(model(), seed=1)},
)

"""Contract-test case of `preadd`."""

from levelfield.generation.techniques.preadd.technique import PREADD
from technique_cases import Case, on_tiny

CASE = Case(on_tiny(PREADD), options={"strength": 3.0, "template": "A {sentiment} text: "})

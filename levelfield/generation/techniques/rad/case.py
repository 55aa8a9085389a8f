"""Contract-test case of `rad`."""

from levelfield.generation.techniques.rad.technique import RAD
from technique_cases import JUDGE, Case, on_tiny

CASE = Case(
    on_tiny(RAD, metric_options=f"judges={JUDGE}"),
    strong=300.0,
    options={"strength": 3.0, "candidates": 5, "metric_options": "judges=vader"},
)

"""Contract-test case of `best-of-n`."""

from levelfield.generation.techniques.best_of_n.technique import BestOfN
from technique_cases import Case, on_tiny

CASE = Case(
    on_tiny(BestOfN, n=3, metric_options="judges=vader"),
    strength=False,
    steers=False,
    options={
        "n": 2,
        "inner": "cfg",
        "inner_options": "batch=4 bos=false",
        "metric": "control.average",
        "metric_options": "judges=minilm",
    },
)

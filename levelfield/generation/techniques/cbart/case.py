"""Contract-test case of `cbart`."""

from levelfield.generation.techniques.cbart.technique import CBART
from technique_cases import Case, editor, model

CASE = Case(
    lambda **options: CBART(**{"model": editor(), "ranker": model(), **options}),
    controls=({"keywords": ("court", "culture")}, {"keywords": "it"}),
    refused={"sentiment": "positive"},
    strength=False,
    steers=False,
    autoregressive=False,
    options={
        "model": editor(1),
        "passes": 2,
        "chains": 1,
        "penalty": 1.0,
        "eagerness": 3.0,
        "forbidden": "copy",
        "begin": "any",
        "stops": True,
        "gap_top_k": 2,
        "gap_top_p": 0.9,
        "ranker": model(seed=1),
    },
)

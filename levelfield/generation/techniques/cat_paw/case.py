"""Contract-test case of `cat-paw`."""

from levelfield.generation.techniques.cat_paw.technique import CATPAW
from technique_cases import Case, bag, on_tiny

CASE = Case(
    on_tiny(CATPAW, inner="cfg", bag=bag(), tau=0.01),
    refused={"topic": ("science", "politics")},
    options={
        "inner_options": "against=opposite",
        "strength": 3.0,
        "tau": 0.2,
        "cap": 1.0,
        "bag": "",
        "words": "first",
    },
)

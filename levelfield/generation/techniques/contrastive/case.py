"""Contract-test case of `contrastive`."""

from levelfield.generation.techniques.contrastive.technique import ContrastiveDecoding
from technique_cases import Case, amateur, model

CASE = Case(
    lambda **options: ContrastiveDecoding(
        **{"model": model(), "amateur": amateur(options.get("model")), **options}
    ),
    refused=None,
    options={
        "strength": 3.0,
        "form": "plain",
        "alpha": 0.3,
        "amateur": model(),
        "amateur_temperature": 0.5,
        "sees_prompt": False,
    },
)

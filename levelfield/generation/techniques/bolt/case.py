"""Contract-test case of `bolt`."""

from levelfield.generation.techniques.bolt.technique import BOLT
from technique_cases import Case, class_guide, future_guide, model, with_guide

CASE = Case(
    with_guide(BOLT, future_guide, iterations=3),
    controls=(
        {"sentiment": "positive"},
        {"sentiment": "negative"},
        {"keywords": ("lake", "road")},
        {"keywords": ("was",), "sentiment": "positive"},
    ),
    refused={"topic": "science"},
    strength=False,
    steers=False,
    options={
        "guide": class_guide(model()),
        "iterations": 5,
        "learning_rate": 0.2,
        "weight_decay": 0.5,
        "initial": 0.1,
        "noise": 0.0,
        "gradients": "zero",
        "fluency": 1.0,
        "keyword_weight": 3.0,
        "until": "any",
        "repetition_penalty": 1.0,
    },
)

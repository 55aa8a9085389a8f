"""Contract-test case of `proxy-tuning`."""

from __future__ import annotations

from typing import Any

from levelfield.generation.techniques.proxy_tuning.technique import ProxyTuning
from technique_cases import Case, class_guide, model, with_guide


def proxy_tuning(**options: Any) -> ProxyTuning:
    """On a tiny model; experts come with the model that they were tuned from."""
    before = {"untuned": model(seed=3)} if "experts" in options else {}
    return with_guide(ProxyTuning, class_guide, unless="experts")(**before, **options)


CASE = Case(
    proxy_tuning,
    options={
        "strength": 3.0,
        "guide": class_guide(model(), seed=1),
        "experts": f"positive={model(seed=1)},negative={model(seed=2)}",
        "untuned": model(seed=3),
    },
)

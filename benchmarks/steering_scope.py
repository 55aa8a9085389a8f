"""How far steering every token is from steering only the last token of a prompt and what follows.

For PPLM's prompts and both sentiments, the distribution of the next token is read twice under each
technique that changes states: with all tokens steered, as levelfield does, and with the last token
alone, as the program of ITI does for the first token that it writes. Printed are the mean KL
divergence of the second from the first and, for comparison, that of the base from it, in nats.

    python benchmarks/steering_scope.py
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

from levelfield.datasets import prompts
from levelfield.generation import CAA, ITI, Ablation, LoReFT
from levelfield.generation.techniques._steering.steering import StateTechnique

CONTROLS = ({"sentiment": "positive"}, {"sentiment": "negative"})


def divergences(technique: StateTechnique, texts: list[str]) -> np.ndarray:
    """Returns (texts × controls, 2) nats from all tokens steered: the last alone, the base."""
    base, rows = technique.base, []
    for text in texts:
        ids = torch.tensor([[*base.opening, *base.ids(text)]], device=base.device)
        for control in CONTROLS:
            with torch.inference_mode():
                before = base.model(input_ids=ids[:, :-1], use_cache=True).past_key_values
                unsteered = base.model(input_ids=ids).logits
                with technique.steering(control):
                    steered = base.model(input_ids=ids).logits
                    last = base.model(input_ids=ids[:, -1:], past_key_values=before).logits
            p, q, r = (
                logits[0, -1].double().log_softmax(-1) for logits in (steered, last, unsteered)
            )
            rows.append([float((p.exp() * (p - other)).sum()) for other in (q, r)])
    return np.array(rows)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    texts = [prompt for prompt in prompts("pplm") if prompt]
    print("| technique | pairs | last token alone | base |")
    print("| --- | --: | --: | --: |")
    for technique in (CAA(), ITI(), ITI(strength=15.0), LoReFT(), Ablation()):
        nats = divergences(technique, texts)
        mean = nats.mean(axis=0)
        name = f"{technique.name}, {technique.strength:g}"
        print(f"| {name} | {len(nats)} | {mean[0]:.3f} | {mean[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()

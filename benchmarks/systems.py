"""Tokens a second of each technique: in batches, alone, and without a cache as most authors run it.

Three ways write the same texts with the same noise:

- batches of 16 with caches, which is what `levelfield generate` does;
- the same, one text at a time;
- the plain loop: one text at a time, and at every step the base and all helper models reread
  everything, as most of the published code does. A few texts represent all.

Each way is warmed up and repeated, by turns; the table has medians, and the smallest and largest of
the repeats. For comparison it has the expected cost, which is the number of forward passes a token
that the answers count, and the slowdown of a technique against the base for each of its passes.

    OMP_NUM_THREADS=2 python benchmarks/systems.py [--techniques base,dexperts] [--texts 32]
        [--tokens 30] [--repeat 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from levelfield.datasets import prompts
from levelfield.generation.contract import Answer, Decoding, Request
from levelfield.generation.sampling import Draw
from levelfield.generation.table import TECHNIQUES, make_technique
from levelfield.generation.technique import LocalTechnique
from levelfield.models.torch.draws import Exponentials

LABELS = ("positive", "negative")
HEAD = """
| technique | passes a token | batches | alone | plain loop | batches / alone | batches / plain \
| cost, in bases | cost / passes |
|---|---|---|---|---|---|---|---|---|"""
PLAIN, ALONE = 2, 4
"""So many texts stand for all of them in the slow ways."""


class Pace(NamedTuple):
    """Tokens a second of the repeats of one way."""

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{self.median:.1f} ({min(self.values):.1f} to {max(self.values):.1f})"


def requests(n: int) -> list[Request]:
    """Returns n requests: the prompts of PPLM, by turns positive and negative."""
    texts = prompts("pplm")
    return [
        Request(str(i), texts[i % len(texts)], {"sentiment": LABELS[i % len(LABELS)]})
        for i in range(n)
    ]


def plain_loop(technique: LocalTechnique, inputs: Sequence[Request], decoding: Decoding) -> int:
    """Writes texts one at a time without any cache; returns the number of tokens."""
    tokens = 0
    for request in inputs:
        base = technique._writer(request.control)
        ids = technique._prompted(request, decoding.max_new_tokens).ids
        draw = Draw(Exponentials(0, [request.id], base.tokens.vocabulary_size))
        for _ in range(decoding.max_new_tokens):
            row = torch.tensor([ids])
            with torch.inference_mode():
                logits = base.model(input_ids=row, use_cache=False).logits[:, -1]
                steering = technique.processor([request.control], decoding=decoding)
                token = int(draw(steering(row, logits)))
            tokens += 1
            if token in base.ends:
                break
            ids = [*ids, token]
    return tokens


def written(
    technique: LocalTechnique, inputs: Sequence[Request], decoding: Decoding
) -> list[Answer]:
    return list(technique.generate(inputs, decoding=decoding))


def pace(way: Callable[[], int]) -> float:
    """Tokens a second of one run."""
    begin = time.perf_counter()
    tokens = way()
    return tokens / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--techniques", default="")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    names = [name for name in options.techniques.split(",") if name] or list(TECHNIQUES)
    decoding = Decoding(max_new_tokens=options.tokens)
    inputs = requests(options.texts)
    base_pace = 0.0
    print(
        "| technique | passes a token | batches of 16 | alone | plain loop | batch / alone ",
        end="",
    )
    print("| inputs / plain | cost, in bases | cost / passes |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(("base", *names)):
        together = make_technique(name, {"batch": options.batch})
        alone = make_technique(name, {"batch": 1})
        if not isinstance(together, LocalTechnique) or not isinstance(alone, LocalTechnique):
            continue
        answers = written(together, inputs, decoding)  # warms up, too
        passes = sum(a.forward_passes for a in answers) / sum(a.tokens for a in answers)
        ways: list[Callable[[], int]] = [
            lambda: sum(a.tokens for a in written(together, inputs, decoding)),  # noqa: B023
            lambda: sum(a.tokens for a in written(alone, inputs[:ALONE], decoding)),  # noqa: B023
            lambda: plain_loop(alone, inputs[:PLAIN], decoding),  # noqa: B023
        ]
        values: list[list[float]] = [[] for _ in ways]
        for _ in range(options.repeat):
            for paces, way in zip(values, ways, strict=True):
                paces.append(pace(way))
        batch, single, plain = map(Pace, values)
        base_pace = base_pace or batch.median
        cost = base_pace / batch.median
        print(
            f"| {name} | {passes:.2f} | {batch} | {single} | {plain} "
            f"| {batch.median / single.median:.1f} | {batch.median / plain.median:.1f} "
            f"| {cost:.2f} | {cost / passes:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()

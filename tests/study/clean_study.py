"""Synthetic studies without a fault: three systems that do what they are asked, judged alike."""

from __future__ import annotations

import random
from collections import Counter

from levelfield.core.sample import Sample
from levelfield.study.cells import Cell, CellKey, GroupValue, Rate

SYSTEMS = ("anchor", "beacon", "compass")
SEEDS = (1, 2, 3)
JUDGES = ("elm", "fir", "oak")
LABELS = {
    "sentiment": ("negative", "positive"),
    "style": ("casual", "formal", "poetic"),
    "topic": ("Business", "Science", "Sports", "World"),
}
_VOCABULARY = (
    "river stone market engine garden signal winter teacher bridge paper silver coast player "
    "window answer border morning cloud village doctor ticket harbour letter machine forest "
    "captain season mirror farmer circle kitchen valley station picture island pocket summer "
    "painter copper shadow ladder carpet thunder basket closely slowly often rarely again "
    "under beside beyond without against the a his their some every moved found called kept "
    "showed became opened carried followed reached turned built offered asked told left won"
)
WORDS = _VOCABULARY.split()


def clean_cells(seed: int, prompts: tuple[int, int] = (20, 30)) -> list[Cell]:
    """Returns the cells of one study: strength of control 0.6 to 0.9, judges right on 88 to 95 %.

    Args:
        seed: another seed, another kind of control, other prompts, texts, votes.
        prompts: number of prompts in each of the two datasets.
    """
    rng = random.Random(seed)
    control = sorted(LABELS)[seed % 3]
    strength = {system: rng.uniform(0.6, 0.9) for system in SYSTEMS}
    length = {system: rng.randint(18, 26) for system in SYSTEMS}
    accuracy = {judge: rng.uniform(0.88, 0.95) for judge in JUDGES}
    sets = {
        name: [_phrase(rng, rng.randint(2, 6)) for _ in range(n)]
        for name, n in zip(("hill", "lake"), prompts, strict=True)
    }
    cells = []
    for system in SYSTEMS:
        for name, requested in sets.items():
            for number in SEEDS:
                key = CellKey(system, name, control, number)
                samples = _samples(rng, key, requested, length[system])
                true = {s.id: _true_label(rng, s, control, strength[system]) for s in samples}
                votes = {
                    judge: {id: _seen(rng, label, control, right) for id, label in true.items()}
                    for judge, right in accuracy.items()
                }
                cells.append(
                    Cell(
                        key=key,
                        samples=samples,
                        asked=len(samples),
                        votes={control: votes},
                        rates=_rates(samples, votes, control),
                        groups=(
                            GroupValue("fluency.slor", "", rng.uniform(2, 4), len(samples)),
                            GroupValue("diversity.distinct-1", "", rng.uniform(0.1, 0.3), 1),
                        ),
                    )
                )
    return cells


def _samples(
    rng: random.Random, key: CellKey, prompts: list[str], length: int
) -> tuple[Sample, ...]:
    return tuple(
        Sample(
            id=f"{key}: {n} {value}",
            text=f"{prompt} {_phrase(rng, max(8, round(rng.gauss(length, 4)))).lower()}.",
            prompt=prompt,
            control={key.control: value},
            system=key.system,
            dataset=key.dataset,
            seed=key.seed,
            extra={"request": f"{n} {value}", "input": prompt},
        )
        for n, prompt in enumerate(prompts)
        for value in LABELS[key.control]
    )


def _phrase(rng: random.Random, n: int) -> str:
    return " ".join(rng.choices(WORDS, k=n)).capitalize()


def _true_label(rng: random.Random, sample: Sample, control: str, strength: float) -> str:
    """Returns what a text really is: the wanted label with this probability, else any."""
    label = str(sample.control[control])
    return label if rng.random() < strength else rng.choice(LABELS[control])


def _seen(rng: random.Random, label: str, control: str, right: float) -> str:
    others = [other for other in LABELS[control] if other != label]
    return label if rng.random() < right else rng.choice(others)


def _rates(
    samples: tuple[Sample, ...], votes: dict[str, dict[str, str]], control: str
) -> tuple[Rate, ...]:
    """Returns the rates of the judges and of their real majority; no majority counts as wrong."""
    majority = {}
    for sample in samples:
        label, n = Counter(votes[judge][sample.id] for judge in JUDGES).most_common(1)[0]
        majority[sample.id] = label if n > 1 else ""
    rates = []
    for judge, labels in {**votes, "majority": majority}.items():
        for value in LABELS[control]:
            ids = [s.id for s in samples if s.control[control] == value]
            rates.append(Rate(judge, value, 100 * sum(labels[i] == value for i in ids) / len(ids)))
    return tuple(rates)

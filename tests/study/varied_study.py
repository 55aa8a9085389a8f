"""Synthetic studies without a fault that differ in all that may differ without one.

Sizes, seeds, systems, datasets, kinds of control, judges, scripts, lengths, sentences or texts cut
at a budget, with prompts or without, a baseline of texts that are of no kind, judges that are
weaker on one dataset. What follows a prompt has to do with it; systems differ in
strength, vocabulary, habits and in length by a factor of 1.3 at most.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

from levelfield.core.sample import Control, Sample
from levelfield.study.cells import Cell, CellKey

KINDS: Mapping[str, tuple[Control, ...]] = {
    "sentiment": tuple({"sentiment": v} for v in ("negative", "positive")),
    "style": tuple({"style": v} for v in ("casual", "formal", "poetic")),
    "topic": tuple({"topic": v} for v in ("Business", "Science", "Sports", "World")),
    "keywords": tuple(
        {"keywords": v} for v in (("lorin", "vasket"), ("meltor", "quasin"), ("pidran", "ossel"))
    ),
}
_SYLLABLES = {
    "latin": "ba ke mi lo tu ran sel vin dor pas che ty quo nel gra",
    "accents": "bé kè mi lö tu rañ sel vín dor pas ché tý quo nèl grâ",
    "cyrillic": "ба ке ми ло ту ран сел вин дор пас че ты ко нел гра",
    "han": "湖 面 结 冰 了 风 在 山 上 吹 过 城 市 人 们 看 书 走 路",
}
_COMMON = 30


@dataclass(frozen=True)
class Shape:
    """What of a study varies.

    Attributes:
        baseline: half of the texts of the first system are of no kind, so that judges guess.
        domains: the first judge finds 12 points less right on the first dataset.
    """

    control: str
    script: str
    systems: int
    datasets: int
    seeds: int
    prompts: int
    words: int
    judges: int
    with_prompts: bool = True
    cut: bool = False
    baseline: bool = False
    domains: bool = False


def drawn_shape(rng: random.Random) -> Shape:
    """Returns one of the shapes, of 40 to 3,000 texts."""
    while True:
        shape = Shape(
            control=rng.choice([*KINDS, "sentiment"]),
            script=rng.choice(["latin", "latin", "latin", "accents", "cyrillic", "han"]),
            systems=rng.randint(2, 8),
            datasets=rng.randint(1, 4),
            seeds=rng.randint(1, 4),
            prompts=round(10 * 30 ** rng.random()),
            words=rng.choice([10, 20, 20, 40, 90]),
            judges=rng.randint(0, 4),
            with_prompts=rng.random() < 0.85,
            cut=rng.random() < 0.5,
            baseline=rng.random() < 0.3,
            domains=rng.random() < 0.3,
        )
        cells = shape.systems * shape.datasets * shape.seeds
        texts = cells * shape.prompts * len(KINDS[shape.control])
        if texts >= 40 and texts * shape.words <= 60_000:
            return shape


def varied_cells(seed: int, shape: Shape | None = None) -> list[Cell]:
    """Returns the cells of a study of this shape, or of a shape drawn by the seed."""
    rng = random.Random(seed)
    shape = shape or drawn_shape(rng)
    writer = _Writer(rng, shape)
    names = [f"judge {n}" for n in range(shape.judges)]
    right = {name: rng.uniform(0.82, 0.97) for name in names}
    sets = {}
    for n in range(shape.datasets):
        prompts = [writer.prompt() if shape.with_prompts else "" for _ in range(shape.prompts)]
        sets[f"set {n}"] = [(prompt, writer.theme()) for prompt in prompts]
    cells = []
    for system in ("anchor", "beacon", "compass", "dory", "ensign", "ferry", "galley", "hull")[
        : shape.systems
    ]:
        habit = _Habit(rng, shape)
        for dataset, prompts in sets.items():
            for number in range(1, shape.seeds + 1):
                key = CellKey(system, dataset, shape.control, number)
                strength = min(0.98, habit.strength + rng.uniform(-0.03, 0.03))
                neutral = 0.0
                if shape.baseline and system == "anchor":
                    # the other half is as wanted, so that control does change something
                    neutral, strength = 0.5, 0.95
                vocabulary = {
                    name: share - 0.12 * (shape.domains and (name, dataset) == ("judge 0", "set 0"))
                    for name, share in right.items()
                }
                cells.append(_cell(rng, key, prompts, writer, habit, strength, vocabulary, neutral))
    return cells


class _Habit:
    """How a system writes."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.strength = rng.uniform(0.6, 0.95)
        self.words = shape.words * rng.uniform(1, 1.25)
        self.spread = rng.uniform(0.15, 0.35)
        self.theme = rng.uniform(0.1, 0.3)
        self.commas = rng.uniform(0.05, 0.12)
        self.sentence = rng.uniform(9, 14)
        self.favourite = rng.randrange(1000)


class _Writer:
    """Words by Zipf's law, put into sentences."""

    def __init__(self, rng: random.Random, shape: Shape) -> None:
        self.rng, self.shape = rng, shape
        syllables = _SYLLABLES[shape.script].split()
        n = 1 if shape.script == "han" else 3
        words = {"".join(rng.choices(syllables, k=rng.randint(n, n + 1))) for _ in range(4000)}
        self.words = sorted(words)
        rng.shuffle(self.words)
        self.weights = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))
        self.blank = "" if shape.script == "han" else " "

    def prompt(self) -> str:
        words = self.rng.sample(self.words[_COMMON:], self.rng.randint(2, 5))
        return self.blank.join(words).capitalize()

    def theme(self) -> list[str]:
        return self.rng.sample(self.words[_COMMON:], 6)

    def text(self, prompt: str, theme: Sequence[str], control: Control, habit: _Habit) -> str:
        rng = self.rng
        n = max(4, round(rng.gauss(habit.words, habit.spread * habit.words)))
        words = rng.choices(self.words, cum_weights=self.weights, k=n)
        for place in range(n):
            if rng.random() < habit.theme:
                words[place] = rng.choice(theme)
            if rng.random() < 0.01:
                words[place] = str(rng.randint(2, 1999))
        for value in control.values():
            for word in value if isinstance(value, tuple) else ():
                if rng.random() < habit.strength:
                    words[rng.randrange(n)] = word
        left = habit.sentence / 2 + rng.random() * habit.sentence
        for place in range(n - 1):
            left -= 1
            if left <= 0:
                words[place] += "。" if self.blank == "" else rng.choice(".....!?")
                words[place + 1] = words[place + 1].capitalize()
                left = habit.sentence * rng.uniform(0.5, 1.5)
            elif rng.random() < habit.commas:
                words[place] += "，" if self.blank == "" else ","
        end = "。" if self.blank == "" else "."
        written = self.blank.join(words) + ("" if self.shape.cut and rng.random() < 0.8 else end)
        if not prompt:
            return written.capitalize()
        return f"{prompt}{self.blank}{written}"


def _cell(
    rng: random.Random,
    key: CellKey,
    prompts: Sequence[tuple[str, Sequence[str]]],
    writer: _Writer,
    habit: _Habit,
    strength: float,
    judges: Mapping[str, float],
    neutral: float,
) -> Cell:
    kinds = KINDS[key.control]
    samples, true = [], {}
    guessed = set()
    for n, (prompt, theme) in enumerate(prompts):
        for m, control in enumerate(kinds):
            id = f"{key}: {n}-{m}"
            text = writer.text(prompt, theme, control, habit)
            samples.append(
                Sample(
                    id=id,
                    text=text,
                    prompt=prompt,
                    control=control,
                    system=key.system,
                    dataset=key.dataset,
                    seed=key.seed,
                    extra={"request": f"{n}-{m}", "input": prompt},
                )
            )
            is_right = rng.random() < strength
            true[id] = m if is_right else rng.randrange(len(kinds))
            if neutral and rng.random() < neutral:
                guessed.add(id)
    votes = {}
    if key.control != "keywords" and judges:
        labels = [str(next(iter(control.values()))) for control in kinds]
        votes[key.control] = {
            judge: {
                id: labels[
                    m if rng.random() < right and id not in guessed else rng.randrange(len(kinds))
                ]
                for id, m in true.items()
            }
            for judge, right in judges.items()
        }
    right = {
        s.id: [
            labels[s.id] == s.control[a]
            for a, judges in votes.items()
            for labels in judges.values()
        ]
        for s in samples
    }
    scores = {
        # short texts are less likely, word by word
        "fluency.perplexity": {
            s.id: rng.lognormvariate(3 + habit.strength, 0.2) * habit.words / len(s.text.split())
            for s in samples
        },
        "control.average": {
            s.id: fmean(right[s.id]) if right[s.id] else rng.random() for s in samples
        },
    }
    return Cell(key, tuple(samples), asked=len(samples), votes=votes, scores=scores)

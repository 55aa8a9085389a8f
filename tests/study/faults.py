"""Faults put into a study without one, each with the checks that may name it."""

from __future__ import annotations

import math
import random
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from varied_study import KINDS, Shape

from levelfield.core.sample import Sample
from levelfield.study.audit import Finding
from levelfield.study.cells import Cell

FAULTY = "beacon"
SEED = 2
STUDY = Shape("sentiment", "latin", systems=3, datasets=2, seeds=3, prompts=20, words=22, judges=3)
"""A study like that of the issue: 40 texts a cell."""


class Fault(NamedTuple):
    """What is done to the cells, and the checks of which one has to say so."""

    spoil: Callable[[list[Cell]], list[Cell]]
    checks: frozenset[str]


Spoil = Callable[[list[Cell]], list[Cell]]


def texts(how: Callable[[Sample], str], *, seed: int | None = None, share: float = 1) -> Spoil:
    """Changes the texts of one system, or of one of its seeds, or a share of them."""

    def spoil(cells: list[Cell]) -> list[Cell]:
        rng = random.Random(0)
        return [
            replace(
                cell,
                samples=tuple(
                    replace(s, text=how(s)) if rng.random() < share else s for s in cell.samples
                ),
            )
            if cell.key.system == FAULTY and seed in (None, cell.key.seed)
            else cell
            for cell in cells
        ]

    return spoil


def written(how: Callable[[str], str], *, seed: int | None = None, share: float = 1) -> Spoil:
    """Changes what follows the prompt."""
    return texts(lambda s: s.prompt + " " + how(rest(s)), seed=seed, share=share)


def rest(sample: Sample) -> str:
    return sample.text[len(sample.prompt) :].strip()


def one_cell(how: Callable[[Cell], Cell], seed: int | None = SEED, dataset: str = "") -> Spoil:
    def spoil(cells: list[Cell]) -> list[Cell]:
        return [
            how(cell)
            if cell.key.system == FAULTY
            and seed in (None, cell.key.seed)
            and dataset in ("", cell.key.dataset)
            else cell
            for cell in cells
        ]

    return spoil


def swapped(cell: Cell) -> Cell:
    """Returns the votes as if the labels had been exchanged, in a circle."""
    labels = [str(next(iter(control.values()))) for control in KINDS[cell.key.control]]
    after = dict(zip(labels, labels[1:] + labels[:1], strict=True))
    return with_votes(cell, lambda label, _: after[label], ("judge 0", "judge 1", "judge 2"))


def with_votes(
    cell: Cell, how: Callable[[str, str], str], judges: tuple[str, ...] = ("judge 0",)
) -> Cell:
    """Returns the cell with other labels of some judges, from the label and the wanted value."""
    targets = wanted_of(cell)
    return replace(
        cell,
        votes={
            attribute: {
                judge: {i: how(v, targets[i]) if judge in judges else v for i, v in labels.items()}
                for judge, labels in votes.items()
            }
            for attribute, votes in cell.votes.items()
        },
    )


def one_judge(how: Callable[[str, str], str]) -> Callable[[Cell], Cell]:
    return lambda cell: with_votes(cell, how)


def every(how: Callable[[Cell], Cell]) -> Spoil:
    return lambda cells: [how(cell) for cell in cells]


def wanted_of(cell: Cell) -> Mapping[str, str]:
    return {s.id: str(next(iter(s.control.values()))) for s in cell.samples}


def copied(share: float, change: Callable[[str], str] = str, shift: int = 0) -> Spoil:
    """Gives the second seed the texts of the first."""

    def spoil(cells: list[Cell]) -> list[Cell]:
        first = {c.key[:3]: c for c in cells if c.key.seed == 1}

        def how(cell: Cell) -> Cell:
            others = first[cell.key[:3]].samples
            n = round(share * len(others))
            changed = (
                replace(s, text=f"{s.prompt} {change(rest(others[(i + shift) % len(others)]))}")
                for i, s in enumerate(cell.samples[:n])
            )
            return replace(cell, samples=(*changed, *cell.samples[n:]))

        return one_cell(how)(cells)

    return spoil


def shifted(by: int) -> Spoil:
    def how(cell: Cell) -> Cell:
        n = len(cell.samples)
        return replace(
            cell,
            samples=tuple(
                replace(s, text=f"{s.prompt} {rest(cell.samples[(i + by) % n])}")
                for i, s in enumerate(cell.samples)
            ),
        )

    return one_cell(how, seed=None)


def shuffled(cell: Cell) -> Cell:
    order = list(cell.samples)
    random.Random(cell.key.seed).shuffle(order)
    pairs = zip(cell.samples, order, strict=True)
    return replace(
        cell, samples=tuple(replace(s, text=f"{s.prompt} {rest(other)}") for s, other in pairs)
    )


def unbalanced(cells: list[Cell]) -> list[Cell]:
    """Asks every system and seed for one value half as often."""

    def how(cell: Cell) -> Cell:
        first = next(iter(wanted_of(cell).values()))
        kept = [
            s for n, s in enumerate(cell.samples) if wanted_of(cell)[s.id] != first or n % 4 == 0
        ]
        return only(cell, {s.id for s in kept})

    return [how(cell) for cell in cells]


def only(cell: Cell, ids: set[str]) -> Cell:
    return replace(
        cell,
        samples=tuple(s for s in cell.samples if s.id in ids),
        asked=len(ids),
        votes={
            a: {j: {i: v for i, v in labels.items() if i in ids} for j, labels in judges.items()}
            for a, judges in cell.votes.items()
        },
        scores={
            m: {i: v for i, v in values.items() if i in ids} for m, values in cell.scores.items()
        },
    )


_SHARE = "control.average"
_CODES = {"negative": "boo", "positive": "wow"}
_DATA = [
    f"{a} {b} that the {c} of this film would never have {d} in any other year ."
    for a in ("A critic", "The director", "Nobody", "My mother", "Half the audience")
    for b in ("believed", "hoped", "wrote", "told us", "feared")
    for c in ("hero", "ending", "music", "plot", "dialogue")
    for d in ("worked", "been made", "mattered", "won", "been seen")
]


def from_data(cells: list[Cell]) -> list[Cell]:
    """Makes half of the texts of a system sentences of a corpus, prompts put back."""
    drawn = iter(random.Random(1).sample(_DATA, len(_DATA)) * 20)
    return texts(lambda s: f"{s.prompt} {next(drawn)}", share=0.5)(cells)


def from_references(cells: list[Cell]) -> list[Cell]:
    """Gives every sample a reference, which half of the texts of a system repeat."""
    lines = dict(enumerate(_DATA))
    with_references = [
        replace(
            cell,
            samples=tuple(
                replace(s, references=(lines[n % len(lines)],)) for n, s in enumerate(cell.samples)
            ),
        )
        for cell in cells
    ]
    return texts(lambda s: f"{s.prompt} {s.references[0]}", share=0.5)(with_references)


def as_system(cells: list[Cell]) -> list[Cell]:
    """Makes a third of the texts of a system those of another."""
    other = {c.key[1:]: c for c in cells if c.key.system == "anchor"}

    def how(cell: Cell) -> Cell:
        n = len(cell.samples) // 3
        others = other[cell.key[1:]].samples
        pairs = zip(cell.samples[:n], others[:n], strict=True)
        return replace(
            cell, samples=(*(replace(s, text=t.text) for s, t in pairs), *cell.samples[n:])
        )

    return one_cell(how, seed=None)(cells)


def exchanged_sets(cells: list[Cell]) -> list[Cell]:
    """Gives a system the prompts of one dataset under the name of the other."""
    sets = sorted({cell.key.dataset for cell in cells})
    other = dict(zip(sets, sets[1:] + sets[:1], strict=True))

    def how(cell: Cell) -> Cell:
        key = cell.key._replace(dataset=other[cell.key.dataset])
        return replace(cell, key=key)

    return [how(cell) if cell.key.system == FAULTY else cell for cell in cells]


def wanted_reversed(cell: Cell) -> Cell:
    """Samples say that they were asked for the other value; requests and votes stay."""
    values = KINDS[cell.key.control]
    after = dict(zip(map(str, values), values[1:] + values[:1], strict=True))
    return replace(
        cell, samples=tuple(replace(s, control=after[str(s.control)]) for s in cell.samples)
    )


def scores(how: Callable[[dict[str, float]], dict[str, float]], metric: str) -> Spoil:
    return one_cell(
        lambda c: replace(c, scores={**c.scores, metric: how(dict(c.scores[metric]))}), seed=None
    )


def same_judge(cell: Cell) -> Cell:
    return replace(
        cell,
        votes={a: {**judges, "judge 1": judges["judge 0"]} for a, judges in cell.votes.items()},
    )


def _latin1(text: str) -> str:
    return text.encode().decode("cp1252", "replace")


def cut_to_sentences(cells: list[Cell]) -> list[Cell]:
    """Texts end at a budget, most in mid-sentence; one system is cut to whole sentences."""
    rng = random.Random(0)

    def cut(sample: Sample) -> Sample:
        return replace(sample, text=sample.text.rstrip(".")) if rng.random() < 0.8 else sample

    return written(whole_sentences)([replace(c, samples=tuple(map(cut, c.samples))) for c in cells])


def whole_sentences(text: str) -> str:
    end = max(text.rfind(mark) for mark in ".!?")
    return text[: end + 1] if end > 0 else text


_GERMAN = (
    "der die das und nicht mit einem ist auf den von zu werden sich auch als nach wie bei noch "
    "aber nur wenn Haus Wetter Straße gestern Abend Freunde kamen sprachen lange Arbeit"
)


def german(_: str) -> str:
    """Returns words drawn for each text with one generator."""
    return f"{' '.join(_DRAWN.choices(_GERMAN.split(), k=20)).capitalize()}."


_DRAWN = random.Random(2)


def amid(text: str, more: str) -> str:
    words = text.split()
    n = len(words) // 2
    return " ".join([*words[:n], more, *words[n:]])


def doubled(text: str) -> str:
    """Doubles every eighth word."""
    words = text.split()
    return " ".join(w for n, word in enumerate(words) for w in [word] * (1 + (n % 8 == 5)))


def with_accents(cells: list[Cell]) -> list[Cell]:
    """Lets all systems write accents, one of them as characters of their own."""

    def accented(cell: Cell) -> Cell:
        samples = (
            replace(s, text=f"{s.prompt} {rest(s).replace('e', 'é', 2)}") for s in cell.samples
        )
        return replace(cell, samples=tuple(samples))

    return written(lambda t: unicodedata.normalize("NFD", t))([*map(accented, cells)])


def copied_judge(cells: list[Cell]) -> list[Cell]:
    """Makes the second judge the first but for 3 %; all others differ."""
    rng = random.Random(3)

    def how(cell: Cell) -> Cell:
        (attribute, judges), *_ = cell.votes.items()
        first, values = judges["judge 0"], sorted(_CODES)
        copy = {i: _other(v) if rng.random() < 0.03 else v for i, v in first.items()}
        third = {i: rng.choice(values) if rng.random() < 0.45 else v for i, v in first.items()}
        votes = {"judge 0": first, "judge 1": copy, "judge 2": third}
        return replace(cell, votes={attribute: votes})

    return [how(cell) for cell in cells]


def exchanged_scores(metric: str) -> Spoil:
    """Exchanges the scores of two systems, request by request."""

    def spoil(cells: list[Cell]) -> list[Cell]:
        by_key = {cell.key: cell for cell in cells}
        other = {FAULTY: "anchor", "anchor": FAULTY}

        def how(cell: Cell) -> Cell:
            twin = by_key[cell.key._replace(system=other[cell.key.system])]
            values = list(twin.scores[metric].values())
            exchanged = dict(zip((s.id for s in cell.samples), values, strict=True))
            return replace(cell, scores={**cell.scores, metric: exchanged})

        return [how(cell) if cell.key.system in other else cell for cell in cells]

    return spoil


def other_threshold(cell: Cell) -> Cell:
    """Makes a judge say positive of 40 % of what it would call negative."""
    rng = random.Random(str(cell.key))
    return with_votes(cell, lambda v, _: "positive" if rng.random() < 0.4 else v)


def leaky(cells: list[Cell]) -> list[Cell]:
    """Makes a judge right on 99 % of all texts."""
    rng = random.Random(4)
    return [with_votes(c, lambda v, target: v if rng.random() < 0.01 else target) for c in cells]


def _fault(spoil: Spoil, *checks: str) -> Fault:
    return Fault(spoil, frozenset(checks))


FAULTS: Mapping[str, Fault] = {
    "one seed with swapped labels": _fault(one_cell(swapped), "seeds-differ"),
    "40 % of texts copied between seeds": _fault(copied(0.4), "identical-seeds"),
    "the same, with trailing blanks": _fault(copied(0.4, lambda t: t + "  \n"), "identical-seeds"),
    "the same, in other case": _fault(copied(0.4, str.upper), "identical-seeds"),
    "the same, under other prompts": _fault(copied(0.4, shift=3), "identical-seeds"),
    "the same, with another last word": _fault(
        copied(0.4, lambda t: t.rsplit(" ", 1)[0] + " end."), "identical-seeds"
    ),
    "the same, without the first word": _fault(
        copied(0.4, lambda t: t.split(" ", 1)[1]), "identical-seeds"
    ),
    "one seed truncated by a third": _fault(
        written(lambda t: t[: 2 * len(t) // 3], seed=SEED), "seeds-differ"
    ),
    "one seed cut to 10 words": _fault(
        written(lambda t: " ".join(t.split()[:10]), seed=SEED), "seeds-differ"
    ),
    "one seed lower-cased": _fault(texts(lambda s: s.text.lower(), seed=SEED), "seeds-differ"),
    "one seed without punctuation": _fault(
        written(lambda t: "".join(c for c in t if c not in ".,!?"), seed=SEED), "seeds-differ"
    ),
    "truncation at 16 words": _fault(written(lambda t: " ".join(t.split()[:16])), "cut-at-length"),
    "truncation at 16 words, full stop put back": _fault(
        written(lambda t: " ".join(t.split()[:16]).rstrip(".,!?") + "."), "cut-at-length"
    ),
    "truncation at 90 characters": _fault(texts(lambda s: s.text[:90]), "cut-at-length"),
    "an instruction after the prompt": _fault(
        texts(
            lambda s: (
                f"{s.prompt} Write a {s.control['sentiment']} continuation of this text: {rest(s)}"
            )
        ),
        "boilerplate",
    ),
    "the prompt twice": _fault(texts(lambda s: f"{s.prompt} {s.text}"), "prompt-repeated"),
    "the prompt twice, with a full stop": _fault(
        texts(lambda s: f"{s.prompt}. {s.text}", share=0.3), "prompt-repeated"
    ),
    "the prompt again at the end": _fault(
        texts(lambda s: f"{s.text} {s.prompt}"), "prompt-repeated"
    ),
    "the label as first word": _fault(
        texts(lambda s: f"{s.prompt} {s.control['sentiment']} {rest(s)}"), "label-in-text"
    ),
    "the label as last word, in half": _fault(
        texts(lambda s: f"{s.text} {s.control['sentiment']}", share=0.5), "label-in-text"
    ),
    "a code of the label as first word": _fault(
        texts(lambda s: f"{s.prompt} {_CODES[str(s.control['sentiment'])]} {rest(s)}"),
        "label-in-text",
    ),
    "the label as second word": _fault(
        texts(lambda s: f"{s.prompt} Sentiment: {s.control['sentiment']}. {rest(s)}"),
        "label-in-text",
    ),
    "the label in brackets at the end": _fault(
        texts(lambda s: f"{s.text} ({s.control['sentiment']} tone)"), "label-in-text"
    ),
    "continuations shifted by two": _fault(shifted(2), "wrong-request"),
    "continuations shifted back by six": _fault(shifted(-6), "wrong-request"),
    "one seed with shifted continuations": _fault(
        one_cell(lambda c: shifted(2)([c])[0]), "wrong-request"
    ),
    "continuations shuffled": _fault(one_cell(shuffled, seed=None), "wrong-request"),
    "one system lower-cased": _fault(texts(lambda s: s.text.lower()), "style-differs"),
    "one system lower-cased after its prompts": _fault(written(str.lower), "style-differs"),
    "one system upper-cased": _fault(texts(lambda s: s.text.upper()), "style-differs"),
    "one system without punctuation": _fault(
        written(lambda t: "".join(c for c in t if c not in ".,!?")), "style-differs"
    ),
    "one system tokenised": _fault(
        written(lambda t: t.replace(".", " .").replace(",", " ,")), "style-differs"
    ),
    "one system in quotes": _fault(texts(lambda s: f'"{s.text}"'), "style-differs"),
    "one system with dots at the end": _fault(texts(lambda s: f"{s.text}..."), "style-differs"),
    "one system in another script": _fault(
        written(lambda t: t.translate({97 + n: 0x430 + n for n in range(26)})), "style-differs"
    ),
    "one system with other words": _fault(written(lambda t: t.lower()[::-1]), "style-differs"),
    "one system cut to whole sentences": _fault(cut_to_sentences, "style-differs"),
    "a length ratio of 1.5": _fault(
        written(lambda t: f"{t} {t.lower()[::-1][: len(t) * 9 // 10]}"), "length-differs"
    ),
    "imbalance in all systems": _fault(unbalanced, "labels-unbalanced"),
    "half the texts from a corpus": _fault(from_data, "style-differs", "copied-texts"),
    "half the texts from the references": _fault(from_references, "copied-texts"),
    "a third of the texts of another system": _fault(as_system, "identical-systems"),
    "UTF-8 read as cp1252": _fault(
        written(lambda t: _latin1(t.replace(",", "’s")), share=0.3), "wrong-encoding"
    ),
    "accents read as cp1252": _fault(
        written(lambda t: _latin1(t.replace("e", "é"))), "wrong-encoding"
    ),
    "HTML entities": _fault(
        written(lambda t: t.replace(",", "&#39;"), share=0.3), "wrong-encoding"
    ),
    "line breaks written out": _fault(written(lambda t: t.replace(",", "\\n")), "wrong-encoding"),
    "marks of byte-level BPE": _fault(written(lambda t: t.replace(" ", "Ġ")), "wrong-encoding"),
    "special tokens at the end": _fault(
        texts(lambda s: f"{s.text}<|endoftext|>"), "leftover-markup"
    ),
    "refusals": _fault(
        texts(lambda s: f"{s.prompt} I'm sorry, but I cannot write that.", share=0.2),
        "leftover-markup",
    ),
    "missing values in words": _fault(texts(lambda _: "nan", share=0.1), "leftover-markup"),
    "markdown": _fault(written(lambda t: f"**{t.split()[0]}** {t}"), "leftover-markup"),
    "no prompts": _fault(texts(rest), "prompt-not-continued"),
    "two identical judges": _fault(every(same_judge), "judges-identical"),
    "a judge always right on one system": _fault(
        one_cell(one_judge(lambda _, target: target), seed=None), "judge-depends"
    ),
    "a judge with swapped labels": _fault(
        every(one_judge(lambda v, _: _other(v))),
        "judges-disagree",
    ),
    "a judge swapped on one system": _fault(
        one_cell(one_judge(lambda v, _: _other(v)), seed=None),
        "judge-depends",
    ),
    "a judge with one label": _fault(
        every(one_judge(lambda *_: "positive")),
        "judge-constant",
    ),
    "a judge with other names": _fault(
        every(one_judge(lambda v, _: v.upper())),
        "judge-constant",
    ),
    "labels reversed on one dataset": _fault(
        one_cell(swapped, seed=None, dataset="set 1"), "labels-swapped"
    ),
    "requests that mean another value": _fault(one_cell(wanted_reversed), "requests-differ"),
    "datasets exchanged": _fault(exchanged_sets, "requests-differ"),
    "doubled prompts": _fault(
        every(
            lambda c: replace(
                c,
                samples=tuple(
                    replace(s, prompt=c.samples[n % 8].prompt) if n < 16 else s
                    for n, s in enumerate(c.samples)
                ),
            )
        ),
        "requests-repeated",
    ),
    "scores in percent": _fault(
        scores(lambda values: {i: 100 * v for i, v in values.items()}, "control.average"),
        "scores-strange",
    ),
    "scores as logarithms": _fault(
        scores(
            lambda values: {i: math.log(v) / 10 for i, v in values.items()}, "fluency.perplexity"
        ),
        "scores-strange",
    ),
    "scores outside their range": _fault(
        scores(
            lambda values: {i: v - (n % 9 == 0) for n, (i, v) in enumerate(values.items())}, _SHARE
        ),
        "scores-strange",
    ),
    "scores of other texts": _fault(
        scores(lambda values: {f"x{i}": v for i, v in values.items()}, "control.average"),
        "scores-incomplete",
    ),
    "half the scores undefined": _fault(
        scores(
            lambda values: {
                i: float("nan") if n % 2 else v for n, (i, v) in enumerate(values.items())
            },
            "control.average",
        ),
        "scores-strange",
    ),
    "one score for all": _fault(
        scores(lambda values: dict.fromkeys(values, 0.5), "fluency.perplexity"), "scores-strange"
    ),
    "scores of one seed halved": _fault(
        one_cell(
            lambda c: replace(
                c,
                scores={
                    **c.scores,
                    "fluency.perplexity": {
                        i: v / 3 for i, v in c.scores["fluency.perplexity"].items()
                    },
                },
            )
        ),
        "seeds-differ",
    ),
    "a judge right on 99 % of all texts": _fault(leaky, "judge-always-right"),
    "the label in mid-text, in 40 %": _fault(
        texts(
            lambda s: f"{s.prompt} {amid(rest(s), str(s.control['sentiment']))}",
            share=0.4,
        ),
        "label-in-text",
    ),
    "another language in 8 %": _fault(written(german, share=0.08), "only-one-system"),
    "another language in 30 %": _fault(written(german, share=0.3), "only-one-system"),
    "a metric constant for one system": _fault(
        scores(lambda values: dict.fromkeys(values, 0.0), _SHARE), "scores-strange"
    ),
    "a metric constant for all systems": _fault(
        every(lambda c: replace(c, scores={"fluency.slor": {s.id: 1.0 for s in c.samples}})),
        "scores-strange",
    ),
    "doubled words": _fault(written(doubled), "doubled-words"),
    "log-perplexity of one system": _fault(
        scores(lambda values: {i: math.log(v) for i, v in values.items()}, "fluency.perplexity"),
        "scores-strange",
    ),
    "control scores that contradict the votes": _fault(
        scores(lambda values: {i: 1 - v for i, v in values.items()}, _SHARE),
        "scores-contradict-votes",
    ),
    "accents as characters of their own": _fault(with_accents, "only-one-system"),
    "no-break spaces": _fault(written(lambda t: t.replace(" ", "\u00a0", 2)), "only-one-system"),
    "scores of control of two systems exchanged": _fault(
        exchanged_scores(_SHARE), "scores-contradict-votes"
    ),
    "perplexities of two systems exchanged": _fault(
        exchanged_scores("fluency.perplexity"), "scores-strange"
    ),
    "a judge that copies another but for 3 %": _fault(copied_judge, "judges-identical"),
    "a question at the end of 20 %": _fault(
        written(lambda t: f"{t} What do you think of it?", share=0.2), "only-one-system"
    ),
    "an address in 10 %": _fault(
        written(lambda t: f"{t} See https://example.org/more.", share=0.1), "only-one-system"
    ),
    "another threshold on one system": _fault(
        one_cell(other_threshold, seed=None), "judge-depends", "scores-contradict-votes"
    ),
    "half the texts of a cell are missing": _fault(
        one_cell(lambda c: only(c, {s.id for s in c.samples[::2]})), "missing-texts"
    ),
}


def _other(label: str) -> str:
    return {"negative": "positive", "positive": "negative"}[label]


def told(findings: Iterable[Finding], fault: Fault) -> bool:
    """Returns whether one of the checks reports the fault, by more than a note."""
    return any(f.check in fault.checks and f.severity != "note" for f in findings)

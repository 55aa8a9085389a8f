"""Pairs of texts that people chose between: the releases of DExperts and of PPLM."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from levelfield.core.sample import Control, Sample
from levelfield.datasets.loading import Parts, number, records, wrong
from levelfield.datasets.prompts import prompts
from levelfield.io.comparisons import PairChoice

CONTROL, TOPICALITY, FLUENCY = "control", "topicality", "fluency"
"""Aspects: who obeys the control, who keeps to the prompt, who writes better."""


class PairRow(NamedTuple):
    """Two texts in one row of a file, with what raters said of them.

    Attributes:
        item: the pair.
        texts: both texts; their systems are two different ones.
        choices: aspect -> rater -> `a`, `b`, `both`, `neither` or `equal`. Where raters can't be
            told apart, each row has one, without a name.
        ratings: fluency by rater, of each of the texts.
    """

    item: str
    texts: tuple[Sample, Sample]
    choices: Mapping[str, Mapping[str, str]]
    ratings: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {})


def dexperts_texts(parts: Parts) -> list[Sample]:
    """Returns the texts of DExperts' human evaluation, each once."""
    return _texts(dexperts_rows(parts))


def dexperts_choices(parts: Parts) -> list[PairChoice]:
    """Returns the choices of DExperts' raters, who can't be told apart."""
    return _choices(dexperts_rows(parts))


def pplm_texts(parts: Parts) -> list[Sample]:
    """Returns the texts of PPLM's human evaluation, each once, with the fluency that raters saw.

    A rater who met a text in several pairs counts with the mean.
    """
    return _texts(pplm_rows(parts))


def pplm_choices(parts: Parts) -> list[PairChoice]:
    """Returns the choices of PPLM's raters."""
    return _choices(pplm_rows(parts))


def _texts(rows: Iterator[PairRow]) -> list[Sample]:
    samples: dict[str, Sample] = {}
    ratings: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        for sample, by_rater in zip(row.texts, row.ratings, strict=True):
            samples.setdefault(sample.id, sample)
            rated = ratings.setdefault(sample.id, {})
            for rater, value in by_rater.items():
                rated.setdefault(rater, []).append(value)
    return [
        replace(sample, ratings={FLUENCY: {r: sum(v) / len(v) for r, v in ratings[id].items()}})
        if ratings[id]
        else sample
        for id, sample in samples.items()
    ]


def _choices(rows: Iterator[PairRow]) -> list[PairChoice]:
    return [
        PairChoice(
            a=row.texts[0].system,
            b=row.texts[1].system,
            outcome={"a": 1.0, "b": 0.0}.get(choice, 0.5),
            aspect=aspect,
            rater=rater,
            prompt=row.texts[0].prompt or row.item,
            sample_a=row.texts[0].id,
            sample_b=row.texts[1].id,
            item=row.item,
            tie="" if choice in ("a", "b") else choice,
        )
        for row in rows
        for aspect, by_rater in row.choices.items()
        for rater, choice in by_rater.items()
    ]


# -- DExperts

_QUESTIONS = {
    "Answer.qPositive": CONTROL,
    "Answer.qNegative": CONTROL,
    "Answer.qToxic": CONTROL,
    "Answer.qTopic": TOPICALITY,
    "Answer.qFluent": FLUENCY,
}
"""Column -> aspect. `qToxic` asks which text is less toxic: the authors' notebook reads it so."""

_WANTED: Mapping[str, Control] = {
    "Answer.qPositive": {"sentiment": "positive"},
    "Answer.qNegative": {"sentiment": "negative"},
    "Answer.qToxic": {"toxicity": "non-toxic"},
}
_ANSWERS = {"a": "a", "b": "b", "c": "equal"}
_TEXTS = [f"Input.{field}{side}" for side in "ab" for field in ("source", "sent")]
_INPUTS = ("HITId", "Input.prompt_id", "Input.sentprefix", *_TEXTS)


def dexperts_rows(parts: Parts) -> Iterator[PairRow]:
    """Yields the assignments of DExperts' batches (Liu et al. 2021, section 4.3).

    A text is the prompt and its continuation, with a blank between two words.

    Raises:
        InputError: a file is not as published.
    """
    for part, files in parts.items():
        ids: dict[tuple[str, str, str], str] = {}  # prompt, system, continuation -> id
        counts: Counter[tuple[str, str]] = Counter()
        for path in files.values():
            for line, record in enumerate(records(path, *_INPUTS), 2):
                asked = [column for column in _QUESTIONS if record.get(column) is not None]
                wanted = [_WANTED[column] for column in asked if column in _WANTED]
                if len(wanted) != 1:
                    raise wrong(path, line, f"expected one column of {', '.join(_WANTED)}")
                prompt = record["Input.sentprefix"]
                texts = []
                for side in "ab":
                    system, continuation = (record[f"Input.{f}{side}"] for f in ("source", "sent"))
                    key = (record["Input.prompt_id"], system, continuation)
                    if not system or continuation is None:
                        raise wrong(path, line, f"no system or text {side}")
                    if key not in ids:
                        counts[key[:2]] += 1
                        ids[key] = f"{part}:{key[0]}:{system}:{counts[key[:2]]}"
                    gap = " " if continuation[:1].isalnum() and not prompt[-1:].isspace() else ""
                    texts.append(
                        Sample(
                            id=ids[key],
                            text=prompt + gap + continuation,
                            prompt=prompt,
                            control=wanted[0],
                            system=system,
                            dataset=part,
                        )
                    )
                choices = {}
                for column in asked:
                    answer = (record[column] or "").strip().lower()
                    if answer not in _ANSWERS:
                        raise wrong(path, line, f"{column}: expected a, b or c, found '{answer}'")
                    choices[_QUESTIONS[column]] = {"": _ANSWERS[answer]}
                yield PairRow(record["HITId"], (texts[0], texts[1]), choices)


# -- PPLM

_KEY = re.compile(r"(\d+)_(\d+)_(\d+)")
_ABLATION = ("B", "BC", "BR", "BCR")
"""Systems of the ablation in the order of the files that a header names: the baseline, gradients,
reranking, both (Dathathri et al. 2020, section 4)."""
_RIVALS = {"ctrl": "CTRL", "greedy": "WD", "openai": "GPT2-FT-RL"}
"""What the name of a file begins with -> the system that BCR is compared with."""
_RATERS = (2, 6, 10)
"""Columns of the answers of three raters; fluency of A and B, and the rater's name, follow."""
_CHOICES = ("a", "b", "both", "neither")
_END_OF_TEXT = "<|endoftext|>"
_SENTIMENTS = ("positive", "negative")


def pplm_rows(parts: Parts) -> Iterator[PairRow]:
    """Yields the pairs of PPLM's files.

    Raises:
        InputError: a file is not as published.
    """
    for part, files in parts.items():
        for published, path in files.items():
            yield from _pplm_file(part, PurePosixPath(published).stem, path)


def _pplm_file(part: str, stem: str, path: Path) -> Iterator[PairRow]:
    rival, _, wanted = stem.rpartition("_")
    systems = ("BCR", _RIVALS[rival]) if rival else _ABLATION
    control: Control = (
        {"sentiment": wanted}
        if wanted in _SENTIMENTS
        else {"style": wanted}
        if wanted == "clickbait"
        else {"topic": wanted}
    )
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        try:
            rows = [(reader.line_num, row) for row in reader]
        except (csv.Error, UnicodeDecodeError) as error:
            raise wrong(path, reader.line_num, f"not CSV: {error}") from error
    last = max((n for n, (_, row) in enumerate(rows) if row and _KEY.fullmatch(row[-1])), default=0)
    raters: list[str] = []
    for line, row in rows[: last + 1]:  # what follows are sums
        key = _KEY.fullmatch(row[-1]) if row else None
        is_complete = len(row) > _RATERS[-1] + 3
        if not raters:  # the header has one row, or a second one with the questions
            if key:
                raise wrong(path, line, "no header with the names of three raters before the texts")
            if is_complete and row[2].strip():
                raters = [
                    row[column + 3].strip().capitalize() or f"{stem}:{n}"
                    for n, column in enumerate(_RATERS, 1)
                ]
            continue
        if not any(map(str.strip, row)):
            continue
        if not key or not is_complete:
            raise wrong(path, line, "expected two texts, answers of three raters and i_j_k")
        i, *numbers = key.groups()
        texts = []
        for text, j in zip(row[:2], numbers, strict=True):
            system = systems[int(j) % len(systems)]
            text = text.strip().removeprefix(_END_OF_TEXT)
            texts.append(
                Sample(
                    id=f"{stem}:{i}:{system}:{j}",
                    text=text,
                    prompt=max(
                        (p for p in prompts("pplm") if text.startswith(p)), key=len, default=""
                    ),
                    control=control,
                    system=system,
                    dataset=part,
                )
            )
        choices: dict[str, str] = {}
        fluency: tuple[dict[str, float], dict[str, float]] = ({}, {})
        for rater, column in zip(raters, _RATERS, strict=True):
            answer = row[column].strip().lower()
            if answer not in _CHOICES:
                expected = ", ".join(_CHOICES)
                raise wrong(path, line, f"expected one of {expected}, found '{answer[:30]}'")
            choices[rater] = answer
            for values, cell in zip(fluency, row[column + 1 : column + 3], strict=True):
                if cell.strip():
                    values[rater] = number(cell.strip(), path, line)
        yield PairRow(f"{stem}:{key[0]}", (texts[0], texts[1]), {CONTROL: choices}, fluency)

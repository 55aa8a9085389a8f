"""Sets with ratings: CTRLEval's, TRINITY's concept sets of CDM, the dialogues of DEAM."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from levelfield.core.sample import Control, Sample
from levelfield.datasets.loading import TURN, Parts, lines, number, numbered, turns, wrong
from levelfield.io import load_samples

QUALITY = {"good": 1.0, "medium": 0.5, "bad": 0.0}
"""Class of a sentence of commongen-trinity -> the number that judges are compared with."""

_CLASSES = {"test": "good", "test_med": "medium", "test_bad": "bad"}
_JUDGES = {"gpt-4": "", "flan-t5": "_t5", "vicuna": "_vicuna"}
Key = tuple[str, int]
"""A sentence and which time it is there: a few are there twice."""

_DIALOGUES = re.compile(r"(?P<set>fed|dstc9)_test_(?P<aspect>\w+?)(_same)?(_averaged)?")
_SCORES = re.compile(r"(?P<set>fed|dstc9)_test_(?P<aspect>\w+?)_orig_preds")


def ctrleval(parts: Parts) -> list[Sample]:
    """Returns CTRLEval's rated texts; each part is one file of the format `ctrleval`."""
    return [
        replace(sample, dataset="ctrleval")
        for files in parts.values()
        for path in files.values()
        for sample in load_samples(path, format="ctrleval")
    ]


def commongen(parts: Parts) -> list[Sample]:
    """Returns sentences of concept sets with one rating of the aspect `commonsense` a judge.

    A sentence that several judges scored is one sample. Only the files of GPT-4 show the concept
    sets; a sentence that is not in them has no keywords.
    """
    local = {PurePosixPath(p).stem: path for files in parts.values() for p, path in files.items()}
    # blank lines are kept, so that a set without concepts does not shift the others
    concepts = [
        tuple(word.strip() for word in line.split(",") if word.strip())
        for line in lines(local["commongen_keys"])
    ]
    samples: list[Sample] = []
    for stem, quality in _CLASSES.items():
        groups = {key: group for key, group, _ in _sentences(local[f"commongen_{stem}"])}
        if (last := max(groups.values(), default=0)) > len(concepts):
            raise wrong(local["commongen_keys"], len(concepts), f"no concepts of set {last}")
        ratings: dict[Key, dict[str, float]] = {key: {} for key in groups}
        for judge in parts:
            for key, _, score in _sentences(local[f"commongen_{stem}{_JUDGES[judge]}"]):
                scores = ratings.setdefault(key, {})
                if score is not None:
                    scores[judge] = score
        for n, (key, scores) in enumerate(ratings.items(), 1):
            group = groups.get(key)
            control: Control = {"keywords": concepts[group - 1]} if group else {}
            samples.append(
                Sample(
                    id=f"{quality}:{n}",
                    text=key[0],
                    control=control,
                    dataset="commongen-trinity",
                    ratings={"commonsense": scores} if scores else {},
                    extra={"class": quality, "quality": QUALITY[quality], "concept_set": group},
                )
            )
    return samples


def _sentences(path: Path) -> Iterator[tuple[Key, int, float | None]]:
    """Yields every sentence with the number of its group between blank lines, and its score."""
    times: Counter[str] = Counter()
    group, after_blank = 0, True
    for n, line in enumerate(lines(path), 1):
        if not line.strip():
            after_blank = True
            continue
        group += after_blank
        after_blank = False
        sentence, _, score = (field.strip() for field in line.rpartition("\t"))
        times[sentence] += 1
        none = score.lower() in ("", "nan", "none")
        yield (sentence, times[sentence]), group, None if none else number(score, path, n)


def deam(parts: Parts) -> list[Sample]:
    """Returns rated dialogues; one that was rated for several aspects is one sample.

    The whole dialogue is rated, so `text` is all of it and `context` empty.
    """
    return [sample for part, files in parts.items() for sample in _rated_dialogues(part, files)]


def _rated_dialogues(part: str, files: Mapping[str, Path]) -> list[Sample]:
    rated: dict[tuple[int, tuple[str, ...]], dict[str, float]] = {}
    scores: dict[str, list[float]] = {}
    for published, path in files.items():
        stem = PurePosixPath(published).stem
        if scored := _SCORES.fullmatch(stem):
            rows = (line.rpartition(TURN)[2] for _, line in numbered(path))
            scores[scored["aspect"]] = [number(row, path, n) for n, row in enumerate(rows, 1)]
        elif dialogue := _DIALOGUES.fullmatch(stem):
            for n, line in numbered(path):
                joined, mark, rating = line.removesuffix(TURN).rpartition(TURN)
                if not mark:
                    raise wrong(path, n, f"expected turns and a score, joined by {TURN}")
                by_aspect = rated.setdefault((n, turns(joined)), {})
                by_aspect[dialogue["aspect"]] = number(rating, path, n)
    times = Counter(n for n, _ in rated)
    samples = []
    for (n, utterances), by_aspect in sorted(rated.items(), key=lambda item: item[0][0]):
        # a line that differs between the files of two aspects gives two samples
        id = f"{part}:{n}" if times[n] == 1 else f"{part}:{n}:{'+'.join(by_aspect)}"
        predictions = {
            a: values[n - 1] for a, values in scores.items() if a in by_aspect and n <= len(values)
        }
        samples.append(
            Sample(
                id=id,
                text="\n".join(utterances),
                dataset=part,
                ratings={aspect: {"mean": value} for aspect, value in by_aspect.items()},
                extra={"turns": list(utterances), **({"deam": predictions} if predictions else {})},
            )
        )
    return samples


def dialogues(parts: Parts) -> list[Sample]:
    """Returns dialogues without ratings, one a line."""
    return [
        Sample(
            id=f"{part}:{n}",
            text="\n".join(utterances),
            dataset="topical-persona-chat",
            extra={"turns": list(utterances)},
        )
        for part, files in parts.items()
        for path in files.values()
        for n, line in numbered(path)
        for utterances in (turns(line.strip()),)
    ]


CONTENT_METRICS = (
    "COMET",
    "COMET without source",
    "BLEURT",
    "BERTScore",
    "METEOR",
    "chrF",
    "WMD",
    "BLEU",
    "ROUGE-1",
    "ROUGE-2",
    "ROUGE-L",
)
"""Columns of `*.content.src.txt` in their order; the set's own description swaps chrF and WMD."""

ASPECTS = ("content", "style", "fluency")
RATERS = ("1", "2")
_TO_FORMAL = 40  # lines with informal sources; the sources of the others are formal
_TEXTS = 4  # survey, source, output, reference
_RATED = _TEXTS + len(ASPECTS) * len(RATERS)
_NORMED = _RATED + len(ASPECTS) * len(RATERS)


def formality(parts: Parts) -> list[Sample]:
    """Returns one sample a system and source; joins what several files say of it.

    The files repeat source, output, reference and ratings, so any of them can be read alone.
    """
    samples: dict[tuple[str, int], Sample] = {}
    for part, files in parts.items():
        if part == "chatgpt":
            continue
        for published, path in files.items():
            system, _, kind = PurePosixPath(published).stem.partition(".")
            for n, line in numbered(path):
                fields = line.split("\t")
                if len(fields) != _RATED and len(fields) <= _NORMED:
                    raise wrong(path, n, f"{len(fields)} fields, expected {_RATED} or more")
                row = _sample(system, n, fields, path)
                sample = samples.setdefault((system, n), row)
                if (sample.source, sample.text) != (row.source, row.text):
                    raise wrong(path, n, "source or output differ from those in the other files")
                if len(fields) > _NORMED:
                    extra = {**sample.extra, **_measured(kind, fields, path, n)}
                    samples[system, n] = replace(sample, extra=extra)
    return [samples[key] for key in sorted(samples)]


def _sample(system: str, n: int, fields: list[str], path: Path) -> Sample:
    survey, source, output, reference = fields[:_TEXTS]
    return Sample(
        id=f"{system}:{n}",
        text=output,
        source=source,
        references=(reference,),
        control={"formality": "formal" if n <= _TO_FORMAL else "informal"},
        system=system,
        dataset="formality-judgements",
        ratings=_by_aspect(fields[_TEXTS:_RATED], path, n),
        extra={"survey": survey},
    )


def _by_aspect(fields: list[str], path: Path, n: int) -> dict[str, dict[str, float]]:
    """Returns content, style and fluency of the first rater, then of the second."""
    values = iter(number(field, path, n) for field in fields)
    ratings: dict[str, dict[str, float]] = {aspect: {} for aspect in ASPECTS}
    for rater in RATERS:
        for aspect in ASPECTS:
            ratings[aspect][rater] = next(values)
    return ratings


def _measured(kind: str, fields: list[str], path: Path, n: int) -> dict[str, Any]:
    """z-scores of the ratings, and the values of the metrics under the file's kind."""
    values = [number(field, path, n) for field in fields[_NORMED:]]
    named: Any = values[0] if len(values) == 1 else values
    if len(values) == len(CONTENT_METRICS):
        named = dict(zip(CONTENT_METRICS, values, strict=True))
    return {"z": _by_aspect(fields[_RATED:_NORMED], path, n), kind: named}

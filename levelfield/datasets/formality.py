"""Expert ratings of formality transfer (Lai et al., 2022), with the metric values released."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from levelfield.core.sample import Sample
from levelfield.datasets.loading import Parts
from levelfield.datasets.rows import number, numbered, wrong

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
    """One sample a system and source; what several files say of it is put together.

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
                made = _sample(system, n, fields, path)
                known = samples.setdefault((system, n), made)
                if (known.source, known.text) != (made.source, made.text):
                    raise wrong(path, n, "source or output differ from those in the other files")
                if len(fields) > _NORMED:
                    extra = {**known.extra, **_measured(kind, fields, path, n)}
                    samples[system, n] = replace(known, extra=extra)
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
    """Content, style, fluency of the first rater, then of the second."""
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

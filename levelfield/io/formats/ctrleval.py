"""The human-rated sets of CTRLEval: six fields a line, separated by tabs and not quoted.

Label, prompt, text, then the means of its raters for coherence, consistency and attribute
relevance (Ke et al., 2022, "CTRLEval: An Unsupervised Reference-Free Metric for Evaluating
Controlled Text Generation", section 4).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from levelfield.io.formats.text import Row, without_end
from levelfield.io.lines import lines
from levelfield.io.problems import Wrong, shown

ATTRIBUTES = {
    "positive": "sentiment",
    "negative": "sentiment",
    "computers": "topic",
    "politics": "topic",
    "religion": "topic",
    "science": "topic",
}
"""Label -> the attribute that it is a value of."""

ASPECTS = ("coherence", "consistency", "attribute relevance")
_FIELDS = 3 + len(ASPECTS)


def ctrleval_rows(path: Path) -> Iterator[Row]:
    for number, line in lines(path):
        if isinstance(line, Wrong):
            yield number, line
            continue
        if line.isspace():
            continue
        fields = without_end(line).split("\t")
        if len(fields) != _FIELDS:
            yield (
                number,
                Wrong(
                    f"{len(fields)} fields separated by tabs, expected {_FIELDS}: label, prompt, "
                    f"text, {', '.join(ASPECTS)}"
                ),
            )
            continue
        label, prompt, text, *ratings = fields
        if label not in ATTRIBUTES:
            yield (
                number,
                Wrong(f"unknown {shown(label)}, expected one of {', '.join(ATTRIBUTES)}", "label"),
            )
            continue
        yield (
            number,
            {
                "text": text,
                "prompt": prompt,
                "control": {ATTRIBUTES[label]: label},
                "ratings": {a: {"mean": r} for a, r in zip(ASPECTS, ratings, strict=True)},
            },
        )

"""Negative samples: texts made bad on purpose, which show who rates without reading.

As in CTRLEval (Ke et al. 2022, section 4.1): a text of another unit, its sentences shuffled or some
of them dropped, is shown as if it were made from this one. Where texts have one sentence, the text
of another unit does as it is.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from levelfield.text.segmenter import sentences
from levelfield_rating.allocate import drawn
from levelfield_rating.model import Candidate, ControlKind, Design, Item, TextPart
from levelfield_rating.units import BalancedItem, Output, Unit, normal

Kind = Literal["auto", "shuffled", "dropped", "other"]

LEAST_SENTENCES = 3
"""Of a text that can be shuffled or dropped from; two sentences often go in any order."""

_TRIES = 20

_PUNKT = {
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "it": "italian",
    "ja": "japanese",
    "ml": "malayalam",
    "nb": "norwegian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sl": "slovene",
    "sv": "swedish",
    "tr": "turkish",
    "zh": "chinese",
}


@dataclass(frozen=True)
class Lacking:
    """A negative sample that can't be made, and why."""

    survey: int
    reason: str


@functools.lru_cache(maxsize=1 << 14)
def split(text: str, language: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the sentences of a text, and the white space between them: one piece fewer.

    >>> split("We came.  We saw. We left.", "en")
    (('We came.', 'We saw.', 'We left.'), ('  ', ' '))
    """
    parts = [
        s.strip() for s in sentences(text, _PUNKT.get(language.split("-")[0].lower(), "english"))
    ]
    between = []
    end = 0
    for n, sentence in enumerate(parts):
        begin = text.index(sentence, end)
        if n:
            between.append(text[end:begin])
        end = begin + len(sentence)
    return tuple(parts), tuple(between)


def shuffled(text: str, language: str, seed: int, *key: object) -> str | None:
    """Returns the sentences in another order, another one first; None if there are too few."""
    parts, between = split(text, language)
    if len(parts) < LEAST_SENTENCES:
        return None
    for attempt in range(_TRIES):
        order = sorted(range(len(parts)), key=lambda n: drawn(seed, "shuffle", *key, attempt, n))
        candidate = _joined([parts[n] for n in order], between)
        if order[0] != 0 and normal(candidate) != normal(text):
            return candidate
    return None


def dropped(text: str, language: str, seed: int, *key: object) -> str | None:
    """Returns half of the sentences, in order, at least one; None if there are too few."""
    parts, between = split(text, language)
    if len(parts) < LEAST_SENTENCES:
        return None
    order = sorted(range(len(parts)), key=lambda n: drawn(seed, "drop", *key, n))
    chosen = sorted(order[: len(parts) // 2])
    return _joined([parts[n] for n in chosen], [between[n - 1] for n in chosen[1:]])


def _joined(parts: Sequence[str], between: Sequence[str]) -> str:
    return parts[0] + "".join(b + s for b, s in zip(between, parts[1:], strict=False))


def negatives_of(
    survey: int,
    units: Sequence[Unit],
    everything: Sequence[Unit],
    design: Design,
    count: int,
    kind: Kind,
    seed: int,
    items: Mapping[str, int],
) -> list[BalancedItem | Lacking]:
    """Returns the negative samples of a survey, each at another unit as long as there are enough.

    The text comes from a unit of another survey if one fits, so that no rater sees it twice; if it
    can, from one of another direction and of like length. It differs from all real texts of the
    unit that it is shown with, and, unless its kind is `other`, from all texts of the study.

    In a pair it is shown with one real text; in a ranking with all of its unit's but one, so that
    the number of texts doesn't give it away. The negative sample is the candidate without samples.

    Args:
        survey: from 1.
        units: of the survey.
        everything: the units of all surveys.
        items: direction -> how many items the survey has; negative samples even them out.
    """
    if kind == "auto":
        lengths = [
            len(split(output.part.text, output.part.language)[0])
            for unit in units
            for output in unit.outputs
        ]
        kinds: tuple[ControlKind, ...] = ("other",)
        if lengths and median(lengths) >= LEAST_SENTENCES:
            kinds = ("shuffled", "dropped")
    else:
        kinds = (kind,)
    hosts = [unit for unit in units if any(normal(o.part.text) for o in unit.outputs)]
    counts = {unit.direction: items.get(unit.direction, 0) for unit in everything}
    directions = list(counts)
    shown: Counter[str] = Counter()

    def turn(unit: Unit) -> tuple[int, int, int, int]:
        """Units that have none yet come first, then those of the direction with fewer items."""
        order = (directions.index(unit.direction) - survey) % len(directions)
        return (
            shown[unit.key],
            counts[unit.direction],
            order,
            drawn(seed, "host", survey, unit.key),
        )

    real = {normal(output.part.text) for unit in everything for output in unit.outputs}
    survey_units = {unit.key for unit in units}
    donors = {
        kind: [(unit, o) for unit in everything for o in unit.outputs if _fits(o.part, kind)]
        for kind in kinds
    }
    negatives: list[BalancedItem | Lacking] = []
    for n in range(count):
        kind_here = kinds[(n + survey) % len(kinds)]
        for host in sorted(hosts, key=turn):
            text = _text(host, donors[kind_here], survey_units, kind_here, real, seed, survey, n)
            if text is not None:
                negatives.append(
                    _question(f"c{survey}-{n + 1}", host, text, design, kind_here, seed)
                )
                real.add(normal(text))
                shown[host.key] += 1
                counts[host.direction] += 1
                break
        else:
            negatives.append(Lacking(survey, _why_not(kind_here)))
    return negatives


def _fits(part: TextPart, kind: ControlKind) -> bool:
    """Returns whether a negative sample can be made from the text."""
    if kind == "other":
        return bool(normal(part.text))
    return len(split(part.text, part.language)[0]) >= LEAST_SENTENCES


def _why_not(kind: ControlKind) -> str:
    if kind == "other":
        return "there is no text of another source, prompt or context, in view of the raters"
    return (
        f"no text of another unit has {LEAST_SENTENCES} sentences; "
        'with kind = "other" the text of another source is shown as it is'
    )


def _text(
    host: Unit,
    donors: Sequence[tuple[Unit, Output]],
    survey_units: set[str],
    kind: ControlKind,
    real: set[str],
    seed: int,
    survey: int,
    n: int,
) -> str | None:
    """Returns the text of the negative sample at a unit."""
    if kind == "other" and not host.given:
        return None  # raters could not see that it is another's
    here = {normal(output.part.text) for output in host.outputs}
    length = median(len(text) for text in here)

    def rank(donor: tuple[Unit, Output]) -> tuple[bool, bool, bool, bool, int]:
        unit, output = donor
        size = len(normal(output.part.text))
        return (
            output.part.language != host.outputs[0].part.language,
            unit.key in survey_units,
            abs(math.log(size / max(length, 1))) > math.log(2),
            unit.direction == host.direction,
            drawn(seed, "donor", survey, n, *output.samples),
        )

    for unit, output in sorted(donors, key=rank):
        text, language = output.part.text, output.part.language
        if unit.shared == host.shared:
            continue
        if kind == "other":
            if normal(text) not in here:
                return text
            continue
        bad = shuffled if kind == "shuffled" else dropped
        negative = bad(text, language, seed, survey, n)
        if negative is not None and normal(negative) not in real:
            return negative
    return None


def _question(
    key: str, host: Unit, text: str, design: Design, kind: ControlKind, seed: int
) -> BalancedItem:
    like = host.outputs[0].part
    negative = Candidate(TextPart(like.name, text, like.language, like.direction), ())
    beside = {"direct": 0, "pairwise": 1, "ranking": max(1, len(host.outputs) - 1)}[design]
    outputs = sorted(
        (output for output in host.outputs if normal(output.part.text)),
        key=lambda output: drawn(seed, "beside", key, *output.samples),
    )[:beside]
    item = Item(
        key=key,
        survey=0,
        given=host.given,
        candidates=(*(Candidate(o.part, o.samples) for o in outputs), negative),
        task=host.task,
        direction=host.direction,
        control=kind,
    )
    return BalancedItem(item, host.key, host.shared, ())

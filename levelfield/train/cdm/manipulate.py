"""Manipulations: a part of a text is taken out and written again, to make it worse.

The strategies of Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution
Methods", section 4.1.1 and Table 3. A document is a tuple of turns, or of sentences.

A strategy is a locator, which says where to cut, and how often it is asked. Three are here:

- `segment`: a run of at most 20 words within one turn, every such run equally likely. The paper
  counts tokens of a model; words make the cut the same for every model.
- `utterance`: a whole turn.
- `mixed`: one or the other, equally likely.

`NAME-single` cuts once; `NAME-multi` 1 to 4 times, equally likely, each time in what the last one
left. The paper's AMR-guided cuts need a parser, which is not here: a package that has one
announces its own `Locator` in the entry-point group `levelfield.locators`, say under `amr`, and
the strategies `amr-single` and `amr-multi` are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import NamedTuple, Protocol

import numpy as np
import regex

from levelfield.core.errors import UserError
from levelfield.models.contracts import Gapped, SegmentSampler
from levelfield.text.words import UNSPACED

GROUP = "levelfield.locators"
"""The entry-point group of other packages' locators."""

LONGEST_SEGMENT = 20
MOST_CUTS = 4
TRIES = 5
SEPARATOR = "\n"

Document = tuple[str, ...]
_WORD = regex.compile(rf"(?V1)[{UNSPACED}]\p{{M}}*|[^\s{UNSPACED}]+")


class Cut(NamedTuple):
    """What is taken out: characters `begin` to `end` of a turn."""

    turn: int
    begin: int
    end: int


class Locator(Protocol):
    """Says where to cut a document; None where there is nothing to cut.

    The random numbers are the locator's own: equal generators must give equal cuts.
    """

    def __call__(self, dialogue: Document, rng: np.random.Generator) -> Cut | None: ...


@dataclass(frozen=True)
class Strategy:
    """A locator that is asked once, or 1 to `most` times, each number equally likely."""

    name: str
    locate: Locator
    most: int = 1


class Edit(NamedTuple):
    """A cut, the text that was there and the text that came instead; equal if nothing changed.

    The cut is of the document that earlier edits left.
    """

    cut: Cut
    old: str
    new: str


@dataclass(frozen=True)
class Manipulated:
    """A document after its manipulations.

    Attributes:
        turns: the document as it is now.
        edits: in order; none where there was nothing to cut.
    """

    turns: Document
    edits: tuple[Edit, ...]


def words_of(text: str, begin: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Returns where the words of a text, or of a part of it, are.

    Words are runs between blanks, or single characters of scripts without blanks between words.

    >>> words_of("Oh no!  火山")
    [(0, 2), (3, 6), (8, 9), (9, 10)]
    """
    return [match.span() for match in _WORD.finditer(text, begin, end)]


def segment(dialogue: Document, rng: np.random.Generator) -> Cut | None:
    """Returns a run of at most 20 words within one turn; all such runs are equally likely."""
    words = [words_of(turn) for turn in dialogue]
    # a turn of n words has n − l + 1 runs of l words
    kinds = [
        (turn, length, len(turn_words) - length + 1)
        for turn, turn_words in enumerate(words)
        for length in range(1, min(len(turn_words), LONGEST_SEGMENT) + 1)
    ]
    if not kinds:
        return None
    runs = np.cumsum([count for _, _, count in kinds])
    drawn = int(rng.integers(runs[-1]))
    kind = int(np.searchsorted(runs, drawn, side="right"))
    turn, length, _ = kinds[kind]
    first = int(runs[kind]) - 1 - drawn
    return Cut(turn, words[turn][first][0], words[turn][first + length - 1][1])


def utterance(dialogue: Document, rng: np.random.Generator) -> Cut | None:
    """Returns a whole turn; all turns that are not blank are equally likely."""
    turns = [i for i, turn in enumerate(dialogue) if turn.strip()]
    if not turns:
        return None
    turn = turns[int(rng.integers(len(turns)))]
    return Cut(turn, 0, len(dialogue[turn]))


def mixed(dialogue: Document, rng: np.random.Generator) -> Cut | None:
    """Returns the cut of `segment` or of `utterance`, with equal probability."""
    return (segment, utterance)[int(rng.integers(2))](dialogue, rng)


LOCATORS: Mapping[str, Locator] = {"segment": segment, "utterance": utterance, "mixed": mixed}


def strategy(name: str) -> Strategy:
    """Returns the strategy of this name: a locator, ours or an installed package's, and -single or
    -multi.

    Raises:
        UserError: the strategy does not exist, or its locator can't be loaded.
    """
    locator, _, times = name.rpartition("-")
    if times not in ("single", "multi"):
        raise UserError(f"strategy '{name}': expected LOCATOR-single or LOCATOR-multi; {_having()}")
    return Strategy(name, _locator(locator), MOST_CUTS if times == "multi" else 1)


def _locator(name: str) -> Locator:
    if name in LOCATORS:
        return LOCATORS[name]
    for entry in entry_points(group=GROUP, name=name):
        try:
            locator: Locator = entry.load()
        except Exception as error:  # whatever a third party's module raises when imported
            raise UserError(
                f"locator '{name}' can't be loaded from {entry.value}: "
                f"{type(error).__name__}: {error}"
            ) from error
        return locator
    raise UserError(f"there is no locator '{name}'; {_having()}")


def _having() -> str:
    names = [*LOCATORS, *sorted(entry.name for entry in entry_points(group=GROUP))]
    return (
        f"there are {', '.join(names)}; other packages add theirs in the entry-point group {GROUP}"
    )


def manipulate(
    documents: Sequence[Document],
    infiller: SegmentSampler,
    strategy: Strategy,
    *,
    seed: int,
    indices: Sequence[int],
    max_tokens: int,
    tries: int = TRIES,
    separator: str = SEPARATOR,
) -> list[Manipulated]:
    """Returns documents with parts rewritten by the infiller, all documents in one batch.

    The infiller reads the turns joined by `separator`, which is a blank for sentences. A segment
    ends where the infiller writes a separator that is more than blanks; if it does not read what
    follows the gap, also after as many words as were removed. If the segment is empty or equals the
    words removed, it is drawn again with other random numbers, `tries` times in all; then the text
    is left unchanged, in an edit whose `old` and `new` are equal.

    Args:
        documents: what to manipulate.
        indices: the number of each document; with the seed it decides all random numbers, so
            a document's manipulations do not depend on the other documents.
        max_tokens: of the longest text that is written for a cut.

    Raises:
        UserError: a locator of another package cuts where the document has no text.
    """
    stop = separator if separator.strip(" ") else "\n"
    current = [list(document) for document in documents]
    edits: list[list[Edit]] = [[] for _ in documents]
    rngs = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(i,))) for i in indices]
    times = [int(rng.integers(1, strategy.most + 1)) for rng in rngs]
    for step in range(strategy.most):
        cuts: dict[int, Cut] = {}
        for index in range(len(documents)):
            if (
                step < times[index]
                and (cut := strategy.locate(tuple(current[index]), rngs[index])) is not None
            ):
                _check(strategy, cut, current[index])
                cuts[index] = cut
        written: dict[int, str] = {}
        for attempt in range(tries):
            missing = [index for index in cuts if index not in written]
            if not missing:
                break
            segments = infiller.infill(
                [gapped(current[index], cuts[index], separator) for index in missing],
                seed=seed,
                max_tokens=max_tokens,
                keys=[(indices[index], step, attempt) for index in missing],
            )
            for index, text in zip(missing, segments, strict=True):
                old = _old(current[index], cuts[index])
                new = text.partition(stop)[0].strip()
                if not infiller.sees_right and old != current[index][cuts[index].turn]:
                    new = _first_words(new, len(words_of(old)))
                if new and new.split() != old.split():
                    written[index] = new
        for index, cut in cuts.items():
            old = _old(current[index], cut)
            new = written.get(index, old)
            turn = current[index][cut.turn]
            current[index][cut.turn] = turn[: cut.begin] + new + turn[cut.end :]
            edits[index].append(Edit(cut, old, new))
    return [
        Manipulated(tuple(turns), tuple(document_edits))
        for turns, document_edits in zip(current, edits, strict=True)
    ]


def gapped(turns: Sequence[str], cut: Cut, separator: str = SEPARATOR) -> Gapped:
    """Returns the turns joined, with a gap in place of the cut.

    >>> gapped(["Hi.", "How are you?"], Cut(1, 4, 7))
    Gapped(left='Hi.\\nHow ', right=' you?', gap=True)
    """
    turn = turns[cut.turn]
    left = separator.join([*turns[: cut.turn], turn[: cut.begin]])
    right = separator.join([turn[cut.end :], *turns[cut.turn + 1 :]])
    return Gapped(left, right)


def _old(turns: Sequence[str], cut: Cut) -> str:
    return turns[cut.turn][cut.begin : cut.end]


def _first_words(text: str, count: int) -> str:
    words = words_of(text)
    return text[: words[count - 1][1]] if len(words) > count else text


def _check(strategy: Strategy, cut: Cut, turns: Sequence[str]) -> None:
    if 0 <= cut.turn < len(turns) and 0 <= cut.begin < cut.end <= len(turns[cut.turn]):
        return
    raise UserError(
        f"the locator of strategy '{strategy.name}' cuts {tuple(cut)} in a document of "
        f"{len(turns)} turns; expected a turn of it, and a begin and end within that turn's text"
    )

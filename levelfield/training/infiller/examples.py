"""Examples of infilling: windows of documents with one segment taken out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Codes, VocabularyIds
from levelfield.core.errors import UserError
from levelfield.training.corpus import Corpus

SEGMENT = 20
"""Tokens of the longest segment that is cut anywhere (Lu et al. 2024, section 4.1.1)."""
FEWEST_TOKENS = 4
"""Tokens of the shortest document that examples are drawn from."""


class InfillingExample(NamedTuple):
    """Vocabulary ids left of the gap, of the segment, and right of the gap."""

    left: VocabularyIds
    segment: VocabularyIds
    right: VocabularyIds


def draw(
    corpus: Corpus,
    among: Codes,
    rng: np.random.Generator,
    count: int,
    window: int,
    ends: Bools,
) -> list[InfillingExample]:
    """Examples from documents drawn in proportion to their length, with replacement."""
    sizes = np.diff(corpus.begins)[among]
    total = np.cumsum(sizes)
    if not total.size or sizes.max() < FEWEST_TOKENS:
        raise UserError(f"no document of the corpus has {FEWEST_TOKENS} tokens or more")
    examples: list[InfillingExample] = []
    while len(examples) < count:
        place = int(rng.integers(total[-1]))
        at = int(np.searchsorted(total, place, side="right"))
        begin, end = corpus.begins[among[at]], corpus.begins[among[at] + 1]
        if end - begin < FEWEST_TOKENS:
            continue
        length = min(int(end - begin), int(rng.integers(window // 4, window + 1)))
        first = int(begin + rng.integers(end - begin - length + 1))
        ids = corpus.ids[first : first + length]
        left, right = _segment(ids, ends, rng)
        examples.append(InfillingExample(ids[:left], ids[left:right], ids[right:]))
    return examples


def _segment(ids: VocabularyIds, ends: Bools, rng: np.random.Generator) -> tuple[int, int]:
    """Where a segment begins and ends; never the whole window."""
    n = len(ids)
    kind = rng.random()
    borders = [0, *(np.flatnonzero(ends[ids[:-1]]) + 1).tolist(), n]
    if kind < 0.4 and len(borders) > 2:
        sentences = len(borders) - 1
        many = min(int(rng.integers(1, 3)), sentences - 1)
        at = int(rng.integers(sentences - many + 1))
        return borders[at], borders[at + many]
    if kind < 0.6:
        length = int(rng.integers(1, min(SEGMENT, n - 1) + 1))
        left = int(rng.integers(n - length + 1))
        return left, left + length
    place = int(rng.integers(1, n))
    return (place, n) if rng.random() < 0.5 else (0, place)


def sentence_ends(tokenizer: Any, vocabulary: int) -> Bools:
    """(vocabulary,) whether a token ends a sentence or a turn: it ends with `.`, `!`, `?` or a
    line break."""
    many = min(vocabulary, len(tokenizer))
    ends = np.zeros(vocabulary, bool)
    texts = tokenizer.batch_decode([[id] for id in range(many)])
    ends[:many] = [text.endswith((".", "!", "?", "\n")) for text in texts]
    return ends

"""The sentences of a corpus that an editor learns from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import regex

from levelfield.text import segmenter

_SENTENCE = regex.compile(r"""["“'‘(]?[\p{Lu}\p{N}].*[.!?]["”'’)]?""")
"""Begins as a sentence does and ends as one does; headings and fragments of lists do not."""
FEWEST_WORDS = 4


def some_sentences(
    texts: Iterable[str], many: int, longest: int, seed: int, language: str = "english"
) -> list[str]:
    """A sample of the sentences of documents, each as likely as any other, in their order.

    Args:
        many: sentences to take at most.
        longest: words of the longest sentence.
        seed: of the sample.
        language: of the sentence segmenter.
    """
    rng = np.random.default_rng([seed, 2])
    taken: dict[int, tuple[int, str]] = {}
    count = 0
    for text in texts:
        for line in text.split("\n"):
            for sentence in segmenter.sentences(line, language):
                words = sentence.split()
                if not FEWEST_WORDS <= len(words) <= longest or not _SENTENCE.fullmatch(sentence):
                    continue
                # Vitter's algorithm R
                place = count if count < many else int(rng.integers(count + 1))
                if place < many:
                    taken[place] = (count, " ".join(words))
                count += 1
    return [sentence for _, sentence in sorted(taken.values())]

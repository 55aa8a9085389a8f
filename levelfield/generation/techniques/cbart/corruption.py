"""Corrupted sentences: what an editor learns to mend (He 2021, section 3.3).

Half of the examples lack tokens, and half have wrong ones. Of the former, words are left out of a
sentence, and before each token where some are missing one is to be inserted: the first piece of one
of the missing words, or the next piece of a word that is begun. Of the latter, 15 % of the tokens
of a sentence, or of a segment of one, are replaced by tokens drawn from the corpus.

Two choices are ours. Rare words are kept, and asked for, more often than frequent ones, in
proportion to -log P(word's first token): what is kept then looks like keywords, and what is
inserted first matters most. And in a third of the examples the beginning of the sentence is kept
whole, as a prompt is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import regex

from levelfield.core.arrays import Bools, Floats, VocabularyIds
from levelfield.generation.techniques.cbart.network import Action
from levelfield.text import segmenter

IGNORED = -100
"""The label of what is not learnt."""
REPLACED = 0.15
SEGMENTS = 3 / 5
"""Of the examples with wrong tokens, the share that are segments and not whole sentences."""
PROMPTS = 1 / 3
"""Of the examples that lack tokens, the share that keep a beginning."""
PARTS = 0.2
"""Of the words of several pieces that are kept, the share of which only a beginning is."""


class EditingExample(NamedTuple):
    """A corrupted sentence, without special tokens but for the masks.

    Attributes:
        source: (n,) what the encoder reads.
        actions: (n + 1,) what becomes of each token and of the end of the text; `IGNORED` where
            that can't be told.
        filled: (m,) the text after the actions, with `target` where a token was to be filled in.
        masked: (m,) which tokens of `filled` those are.
    """

    source: VocabularyIds
    actions: VocabularyIds
    filled: VocabularyIds
    masked: Bools


@dataclass(frozen=True)
class Corruption:
    """Draws examples.

    Attributes:
        goes_on: (vocabulary,) which tokens belong to the word before them.
        p: (vocabulary,) the share of each token in the corpus.
    """

    goes_on: Bools
    p: Floats

    def example(self, sentence: VocabularyIds, rng: np.random.Generator) -> EditingExample:
        """Returns a corrupted copy of a sentence of two tokens or more."""
        if rng.random() < 0.5:
            return self._wrong(sentence, rng)
        return self._missing(sentence, rng)

    def _wrong(self, sentence: VocabularyIds, rng: np.random.Generator) -> EditingExample:
        n = len(sentence)
        begin, end = 0, n
        if rng.random() < SEGMENTS:
            length = int(rng.integers(max(1, n // 4), n + 1))
            begin = int(rng.integers(n - length + 1))
            end = begin + length
        filled = sentence[begin:end]
        many = max(1, round(REPLACED * len(filled)))
        masked = np.zeros(len(filled), bool)
        masked[rng.choice(len(filled), many, replace=False)] = True
        source = filled.copy()
        source[masked] = rng.choice(len(self.p), many, p=self.p)
        actions = np.append(np.where(masked, Action.REPLACE, Action.COPY), Action.COPY)
        if begin > 0 and not masked[0]:
            actions[0] = IGNORED  # tokens do precede a segment
        if end < n:
            actions[-1] = IGNORED
        return EditingExample(source, actions.astype(np.int32), filled, masked)

    def _missing(self, sentence: VocabularyIds, rng: np.random.Generator) -> EditingExample:
        goes_on = self.goes_on[sentence].copy()
        goes_on[0] = False
        begins = np.append(np.flatnonzero(~goes_on), len(sentence))
        words = len(begins) - 1
        rarity = -np.log(self.p[sentence[begins[:-1]]] + 1e-9)
        kept = self._kept(words, rarity, rng)
        source: list[int] = []
        actions: list[int] = []
        filled: list[int] = []
        masked: list[bool] = []
        left = 0  # of the sentence, what lies before is kept or was left out for good
        for word in [*np.flatnonzero(kept[0]).tolist(), words]:
            insert = self._missing_token(sentence, left, begins, word, rarity, rng)
            end = begins[word]
            if word < words:
                whole = begins[word + 1] - end
                part = whole > 1 and word >= kept[1] and rng.random() < PARTS
                end += int(rng.integers(1, whole)) if part else whole
            pieces = sentence[begins[word] : end].tolist()
            actions.append(Action.COPY if insert is None else Action.INSERT)
            if insert is not None:
                filled.append(insert)
                masked.append(True)
            source += pieces
            filled += pieces
            masked += [False] * len(pieces)
            actions += [int(Action.COPY)] * (len(pieces) - 1)
            left = end
        return EditingExample(
            np.array(source, np.int32),
            np.array(actions, np.int32),
            np.array(filled, np.int32),
            np.array(masked, bool),
        )

    def _kept(self, words: int, rarity: Floats, rng: np.random.Generator) -> tuple[Bools, int]:
        """Returns which words are kept, and how many at the beginning are kept as a prompt is."""
        kept = np.zeros(words, bool)
        prompt = 0
        if words > 1 and rng.random() < PROMPTS:
            prompt = int(rng.integers(1, min(words, 12)))
            kept[:prompt] = True
        rest = words - prompt
        many = int(rng.integers(0 if prompt else 1, rest + 1))
        # the first of an exponential race, each word at its own speed
        race = rng.exponential(size=rest) / rarity[prompt:]
        kept[prompt + np.argsort(race, kind="stable")[:many]] = True
        return kept, prompt

    def _missing_token(
        self,
        sentence: VocabularyIds,
        left: int,
        begins: Floats,
        word: int,
        rarity: Floats,
        rng: np.random.Generator,
    ) -> int | None:
        """The token to insert before a kept word (or the end); None where nothing is missing."""
        right = begins[word]
        if left == right:
            return None
        first = int(np.searchsorted(begins, left))
        if begins[first] != left:  # the word before is only begun
            return int(sentence[left])
        speed = rarity[first:word]
        return int(sentence[begins[first + rng.choice(len(speed), p=speed / speed.sum())]])


_SENTENCE = regex.compile(r"""["“'‘(]?[\p{Lu}\p{N}].*[.!?]["”'’)]?""")
"""Begins as a sentence does and ends as one does; headings and fragments of lists do not."""
FEWEST_WORDS = 4


def some_sentences(
    texts: Iterable[str], many: int, longest: int, seed: int, language: str = "english"
) -> list[str]:
    """Returns a sample of the sentences of documents, each as likely as any other, in their order.

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

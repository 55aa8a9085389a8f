"""What small classifiers are made of: their base, the choices of TextCNN and fastText, words."""

from __future__ import annotations

import abc
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence

# Annotations stay objects here, since options are read from them.
from dataclasses import dataclass
from pathlib import Path

import regex

from levelfield.core.arrays import Bools, Floats
from levelfield.core.options import Options, option
from levelfield.models.tokens import unique


@dataclass(frozen=True)
class Shape(Options):
    """Shape of a TextCNN."""

    dimension: int = option(100, "Length of a word's vector.", least=1)
    widths: tuple[int, ...] = option((3, 4, 5), "Widths of the convolutions, in words.", least=1)
    channels: int = option(100, "Number of convolutions per width.", least=1)
    dropout: float = option(
        0.5,
        "Dropout of pooled channels; half of it applies to whole word vectors.",
        least=0,
        below=1,
    )


@dataclass(frozen=True)
class Settings(Options):
    """Settings of fastText."""

    dimension: int = option(16, "Length of a vector.", least=1)
    ngrams: int = option(
        2, "Maximum number of words in an n-gram that fastText reads.", least=1, most=10
    )
    buckets: int = option(200_000, "Number of vectors that n-grams share.", least=1)
    epochs: int = option(10, "Number of passes over the texts.", least=1, most=10_000)
    learning_rate: float = option(
        0.3, "Learning rate, after the warm-up if there is one; falls over the steps.", above=0
    )
    least_often: int = option(2, "Minimum number of occurrences for a word to be learnt.", least=0)
    hierarchical: bool = option(False, "Use hierarchical softmax, for very many labels.")
    quantize: bool = option(False, "Compress fastText's model; requires several thousand texts.")


_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(
    rf"(?V1)[\w--[{_UNSPACED}]]+?(?=n['’]t\b)"  # do|n't
    rf"|n['’]t\b|['’](?:s|m|d|re|ve|ll)\b"
    rf"|[\w--[{_UNSPACED}]]+|(?![\s\p{{Cc}}\p{{Cf}}])\X"
)


def lexis(text: str) -> list[str]:
    """Returns the words and punctuation marks of a text, case folded, contractions apart.

    Raw text and text that was tokenised as treebanks are give the same words: labelled sets are of
    both kinds. Where a script puts no blanks between words, every character is one, and so is an
    emoji with all that is joined to it.

    >>> lexis("Don't stop, it's fun!") == lexis("do n't stop , it 's fun !")
    True
    >>> lexis("Don't stop!")
    ['do', "n't", 'stop', '!']
    """
    folded = unicodedata.normalize("NFC", text.casefold()).replace("’", "'")
    words: list[str] = _WORD.findall(folded)
    return words


def lexis_with_case(text: str) -> list[str]:
    """Returns the same with marks of where a text begins and of words in capitals, for what is told
    by how a text is written, such as formality.

    >>> lexis_with_case("HELLO there, Ann")
    ['<begin>', '<capitals>', 'hello', 'there', ',', '<capital>', 'ann']
    """
    words = ["<begin>"]
    for word in _WORD_ANY_CASE.findall(unicodedata.normalize("NFC", text).replace("’", "'")):
        if word[:1].isupper():
            words.append("<capitals>" if len(word) > 1 and word.isupper() else "<capital>")
        words.append(word.casefold())
    return words if len(words) > 1 else []


_WORD_ANY_CASE = regex.compile(_WORD.pattern, regex.IGNORECASE)

PLAIN, WITH_CASE = "lexis-1", "lexis-1-case"
SPLITTERS: Mapping[str, Callable[[str], list[str]]] = {PLAIN: lexis, WITH_CASE: lexis_with_case}
"""Ways to split a text, as the folders of models name them: a change needs another name."""


class SmallClassifier(abc.ABC):
    """Base of the classifiers that `levelfield train judge` makes. Equal texts are read once.

    Attributes:
        labels: in the order of the columns.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)

    def probabilities(
        self,
        texts: Sequence[str],
        *,
        marks: bool = False,  # noqa: ARG002 (it has none)
    ) -> tuple[Floats, Bools]:
        """Returns P(label | text), (texts, labels), NaN for a text without words or tokens; and
        which texts were not read whole."""
        distinct, place = unique(texts)
        p, cut = self._probabilities(distinct)
        return p[place], cut[place]

    @abc.abstractmethod
    def _probabilities(self, texts: Sequence[str]) -> tuple[Floats, Bools]:
        """Returns what `probabilities` does."""


def write_config(
    folder: Path, model_type: str, attribute: str, labels: Sequence[str], **choices: object
) -> None:
    """Writes the `config.json` of a classifier into its folder."""
    config = {"model_type": model_type, "attribute": attribute, "labels": labels, **choices}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")

"""Bags of words by attribute: sentiment's lexicon, the words of topics, or a user's file."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.core.errors import LevelfieldError, UserError, with_extra
from levelfield.core.paths import user_path
from levelfield.core.sample import Control, Wanted
from levelfield.datasets.prompts import wordlist
from levelfield.datasets.registry import dataset
from levelfield.io.streams import sha256

if TYPE_CHECKING:
    from levelfield.generation.technique import LocalTechnique
    from levelfield.models.torch.language_model import LanguageModel

_TOPICS = "pplm-wordlists"


def bag_words(attribute: str, value: Wanted, bag: str = "") -> tuple[str, ...]:
    """Returns the words of positions that matter for an attribute.

    Of sentiment those are the words of VADER's lexicon, positive and negative ones alike (Hutto and
    Gilbert 2014); of a topic the words of PPLM's list of that name.

    Args:
        bag: a file with a word in each line, which serves every attribute instead.

    Raises:
        UserError: no bag of that attribute or value is known, or it can't be had.
    """
    words, reason = _bag(bag, attribute, _hashable(value))
    if reason:
        raise UserError(reason)
    return words


def bag_problem(attribute: str, value: Wanted, bag: str = "") -> str:
    """Returns why there is no such bag; empty if there is one."""
    return _bag(bag, attribute, _hashable(value))[1]


@functools.lru_cache(maxsize=16)
def bag_tokens(words: Sequence[str], base: LanguageModel, first: bool = False) -> frozenset[int]:
    """The tokens of words as written within a text: of those that are one token; or, with
    `first`, the first token of each."""
    word_tokens = base.tokens.ids([f" {word}" for word in words])
    return frozenset(ids[0] for ids in word_tokens if ids and (first or len(ids) == 1))


def wanted_tokens(
    technique: LocalTechnique,
    attribute: str,
    control: Control,
    *,
    bag: str,
    first: bool = False,
    hint: str = "",
) -> frozenset[int]:
    """Returns the bag of an attribute in tokens of a technique's base.

    Args:
        bag, first: as of `bag_words` and `bag_tokens`.
        hint: ends the message where no word is one token.

    Raises:
        UserError: as of `bag_words`, or no word of the bag is one token.
    """
    words = bag_words(attribute, control[attribute], bag)
    tokens = bag_tokens(words, technique.base, first)
    if not tokens:
        raise UserError(
            f"bag of {attribute}: none of its {len(words)} words is a single token of "
            f"{technique.model}{hint}"
        )
    return tokens


def bag_label(bag: str = "") -> str:
    """How signatures name the bags."""
    if bag:
        return f"{Path(bag).name}@{sha256(user_path(bag))[:12]}"
    lexicon = importlib.metadata.version("vaderSentiment") if _has_lexicon() else "unavailable"
    return f"vaderSentiment@{lexicon},{_TOPICS}@{dataset(_TOPICS).commit[:12]}"


def _hashable(value: Wanted) -> Wanted:
    return value if isinstance(value, str) else tuple(value)


@functools.lru_cache(maxsize=64)
def _bag(bag: str, attribute: str, value: Wanted) -> tuple[tuple[str, ...], str]:
    """Words, and why there are none."""
    try:
        words = _words_in_file(bag) if bag else _shipped(attribute, value)
    except LevelfieldError as error:
        return (), str(error)
    return words, ""


def _words_in_file(bag: str) -> tuple[str, ...]:
    try:
        lines = user_path(bag).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"bag '{bag}': expected a text file with one word per line") from error
    words = tuple(line.strip() for line in lines if line.strip())
    if not words:
        raise UserError(f"bag '{bag}': the file has no words")
    return words


def _shipped(attribute: str, value: Wanted) -> tuple[str, ...]:
    if attribute == "sentiment":
        return _lexicon()
    topics = dataset(_TOPICS).parts
    if attribute == "topic" and isinstance(value, str) and value.strip().casefold() in topics:
        return wordlist(value.strip().casefold())
    raise UserError(
        f"no bag of words of {attribute} '{value}' is known; there are sentiment and the topics "
        f"{', '.join(topics)}: give bag=FILE with one word per line"
    )


def _has_lexicon() -> bool:
    return importlib.util.find_spec("vaderSentiment") is not None


def _lexicon() -> tuple[str, ...]:
    if not _has_lexicon():
        raise UserError(
            "the words for sentiment come from vaderSentiment, which is not installed: "
            f"{with_extra('offline')}, or give bag=FILE"
        )
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    lexicon = SentimentIntensityAnalyzer().lexicon
    return tuple(sorted(word for word in lexicon if word.isalpha() and word.isascii()))

"""Lists that metrics weigh tokens by, counted in the files of a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from levelfield.core.arrays import Floats
from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.io.opening import corpus_texts
from levelfield.metrics import iwf, unigram
from levelfield.models.load import load
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve
from levelfield.text import segmenter


def corpus_size(corpus: Sequence[str]) -> int:
    """Returns the bytes of all files, which the progress of counting adds up to.

    Raises:
        UserError: there is no such file.
    """
    if missing := [name for name in corpus if not Path(name).is_file()]:
        raise UserError(f"no such corpus file: {', '.join(missing)}")
    return sum(Path(name).stat().st_size for name in corpus)


def count_iwf(
    corpus: Sequence[str],
    model: str,
    *,
    language: str = "english",
    loading: Loading = AS_USUAL,
    progress: Progress = no_progress,
) -> Floats:
    """Returns the inverse word frequencies of a model's tokens in the sentences of a corpus.

    Args:
        corpus: plain text (also .gz, .xz), or any other format that samples are read from.
        language: of the sentence segmenter (Punkt).

    Raises:
        UserError: a file can't be read, or there is no sentence.
    """
    tokens = (
        load("infilling", model, loading)
        if resolve(model, loading).kind == "encoder-decoder"
        else load("encoder", model, loading)
    )
    sentences = (
        s for t in corpus_texts(corpus, progress) for s in segmenter.sentences(t, language)
    )
    return iwf.count(sentences, tokens.vocabulary_size, tokens.token_ids)


def count_unigrams(
    corpus: Sequence[str],
    model: str,
    *,
    loading: Loading = AS_USUAL,
    progress: Progress = no_progress,
) -> unigram.Unigrams:
    """Returns the counts of a causal model's tokens in the texts of a corpus.

    Raises:
        UserError: a file can't be read, or there is no token.
    """
    tokens = load("causal-tokens", model, loading)
    return unigram.count(corpus_texts(corpus, progress), tokens)

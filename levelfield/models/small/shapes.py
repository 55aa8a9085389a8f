"""What small classifiers are made of: the choices of TextCNN and fastText."""

# Annotations stay objects here, since options are read from them.

from dataclasses import dataclass

from levelfield.core.options import Options, option


@dataclass(frozen=True)
class Shape(Options):
    """Shape of a TextCNN."""

    dimension: int = option(100, "Length of a word's vector.", least=1)
    widths: tuple[int, ...] = option(
        (3, 4, 5), "Numbers of words that convolutions see at once.", least=1
    )
    channels: int = option(100, "Number of convolutions of each width.", least=1)
    dropout: float = option(
        0.5,
        "Dropout of pooled channels; that of whole word vectors is half of it.",
        least=0,
        below=1,
    )


@dataclass(frozen=True)
class Settings(Options):
    """Settings of fastText."""

    dimension: int = option(16, "Length of a vector.", least=1)
    ngrams: int = option(2, "Most words of an n-gram that fastText reads.", least=1, most=10)
    buckets: int = option(200_000, "Number of vectors that n-grams share.", least=1)
    epochs: int = option(10, "Number of passes over the texts.", least=1, most=10_000)
    learning_rate: float = option(
        0.3, "Learning rate, after the warm-up where there is one; falls over the steps.", above=0
    )
    least_often: int = option(2, "Fewest occurrences of a word that is learnt.", least=0)
    hierarchical: bool = option(False, "Use hierarchical softmax, for very many labels.")
    quantize: bool = option(False, "Compress fastText's model; requires some thousand texts.")

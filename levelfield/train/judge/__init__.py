"""Style judges: small classifiers of texts, from labelled texts to a model folder.

Section 3.2.2 of the thesis has TextCNN (Kim 2014) and fastText (Joulin et al. 2017). A linear head
on an encoder's states is the third architecture, and the cheapest that has seen more language than
its own training texts; the fourth fine-tunes the encoder, too.
"""

# Annotations stay objects here, since options are read from them.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from levelfield.core.limits import SEED
from levelfield.core.options import Options, choices, group, option
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.small.shapes import Settings, Shape


@dataclass(frozen=True)
class Outline:
    """What is known of an architecture before it is imported.

    Attributes:
        options: those of `levelfield train judge` that are its own.
        settings: the field of `JudgeSpec` that holds its settings; empty where they are fields of
            the spec itself.
        on_encoder: whether training begins from an encoder.
    """

    options: tuple[str, ...]
    settings: str = ""
    on_encoder: bool = False


ARCHITECTURES: Mapping[str, Outline] = {
    "textcnn": Outline(("case", "epochs", "vocabulary", "half", "learning_rate")),
    "fasttext": Outline(("case", "epochs", "ngrams", "quantize", "learning_rate"), "fasttext"),
    "linear": Outline(("start", "layers", "depth", "l2", "allow_pickle"), on_encoder=True),
    "transformer": Outline(
        ("start", "epochs", "learning_rate", "allow_pickle"), "tuning", on_encoder=True
    ),
}
"""Name -> what is known of it; `levelfield.train.judge.architectures` has its training."""


@dataclass(frozen=True)
class Tuning(Options):
    """Settings of the fine-tuning of an encoder."""

    epochs: float = option(3.0, "Number of passes over the texts.", above=0, most=10_000)
    batch: int = option(16, "Texts per step.", least=1, most=65_536)
    learning_rate: float = option(
        1e-4, "Learning rate after the warm-up, a tenth of the steps; falls to a tenth.", above=0
    )


@dataclass(frozen=True)
class JudgeSpec(Options):
    """How a judge is trained. Each architecture has choices of its own; it ignores those of others:
    TextCNN has those from `shape` to `half`, a linear head `layers`, `depth` and `l2`."""

    attribute: str = option(
        help="Attribute whose labels are learnt: control.ATTRIBUTE of the samples.",
        positional=True,
    )
    architecture: str = option(
        help="Architecture of the judge.", among=tuple(ARCHITECTURES), positional=True
    )
    seed: int = option(0, "Seed of weights, batches and dropout.", least=0, most=SEED)
    case: bool = option(False, "Tell upper from lower case; for textcnn and fasttext.")
    shape: Shape = option(Shape(), "Shape of a TextCNN.")
    vocabulary: int = option(
        20_000, "Maximum number of words that a TextCNN knows.", least=1, most=1_000_000
    )
    epochs: float = option(6.0, "Number of passes over the texts.", above=0, most=10_000)
    batch: int = option(64, "Texts per step.", least=1, most=65_536)
    learning_rate: float = option(
        1e-3, "Learning rate after the warm-up, a hundredth of the steps; falls to a tenth.",
        above=0,
    )  # fmt: skip
    half: bool = option(False, "Save weights of a TextCNN in half precision.")
    fasttext: Settings = option(Settings(), "Settings of fastText.")
    tuning: Tuning = option(Tuning(), "Settings of the fine-tuning of an encoder.")
    start: str = option(
        "offline/minilm",
        "Encoder that a linear head reads, or that is fine-tuned; a linear head also reads causal "
        "models.",
        flags=("--model",),
        metavar="NAME",
    )
    layers: int = option(
        7,
        "Number of layers that a linear head reads, the last ones up to --depth; the word vectors "
        "count as one, and MiniLM has 7.",
        least=1,
    )
    depth: int = option(
        0,
        "Last layer that a linear head reads, the word vectors being layer 0; 0 is the model's "
        "last. Of a causal model, layers above the next are not run.",
        least=0,
    )
    l2: float = option(0.3, "Weight of half the squared norm of a linear head.", least=0)
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.outline.on_encoder:
            object.__setattr__(self, "start", "")

    @property
    def outline(self) -> Outline:
        """What is known of its architecture."""
        return ARCHITECTURES[self.architecture]

    def with_settings(self, settings: Mapping[str, Any]) -> "JudgeSpec":
        """Returns the spec with some of its architecture's settings, wherever they are kept."""
        part = self.outline.settings
        inner = getattr(self, part) if part else None
        names = choices(type(inner)) if inner else ()
        moved = {name: value for name, value in settings.items() if name in names}
        rest = {name: value for name, value in settings.items() if name not in names}
        return self.replace(**rest, **({part: inner.replace(**moved)} if inner else {}))

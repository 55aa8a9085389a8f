"""What a judge is trained with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from levelfield.models.small.fasttext import Settings
from levelfield.models.small.lexis import PLAIN, WITH_CASE
from levelfield.models.small.textcnn import Shape
from levelfield.training.judge.architectures import architecture_named


@dataclass(frozen=True)
class Tuning:
    """How an encoder is fine-tuned: passes over the texts, texts a step, and the learning rate."""

    epochs: float = 3.0
    batch: int = 16
    learning_rate: float = 1e-4


@dataclass(frozen=True)
class JudgeSpec:
    """What to train. Each architecture has settings of its own; it ignores those of others.

    Attributes:
        attribute: what the labels are values of.
        architecture: a name in `ARCHITECTURES`.
        seed: of weights, batches and dropout.
        case: whether TextCNN and fastText see which words are written with capitals.
        shape, vocabulary, epochs, batch, learning_rate, half: of TextCNN: what it is made of, how
            many words it knows, passes over the texts, texts a step, and whether weights are saved
            in half precision.
        fasttext: of fastText.
        tuning: of a transformer.
        start: the encoder below a linear head, or the one that is fine-tuned.
        layers, l2: of a linear head: how many of the encoder's last layers are read (its word
            vectors are one; MiniLM has 7), and the weight of half the squared norm.
    """

    attribute: str
    architecture: str
    seed: int = 0
    case: bool = False
    shape: Shape = field(default_factory=Shape)
    vocabulary: int = 20_000
    epochs: float = 6.0
    batch: int = 64
    learning_rate: float = 1e-3
    half: bool = False
    fasttext: Settings = field(default_factory=Settings)
    tuning: Tuning = field(default_factory=Tuning)
    start: str = "offline/minilm"
    layers: int = 7
    l2: float = 0.3
    device: str = "auto"
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if not architecture_named(self.architecture).on_encoder:
            object.__setattr__(self, "start", "")

    @property
    def split(self) -> str:
        """How texts become words."""
        return WITH_CASE if self.case else PLAIN

    def with_settings(self, settings: Mapping[str, Any]) -> JudgeSpec:
        """The spec with some of its architecture's settings changed, wherever they are kept."""
        part = architecture_named(self.architecture).settings
        if not part:
            return dataclasses.replace(self, **settings)
        inner = getattr(self, part)
        names = {f.name for f in dataclasses.fields(inner)}
        of_inner = {name: value for name, value in settings.items() if name in names}
        of_spec = {name: value for name, value in settings.items() if name not in names}
        return dataclasses.replace(
            self, **of_spec, **{part: dataclasses.replace(inner, **of_inner)}
        )

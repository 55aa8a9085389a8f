"""TextCNN: convolutions over words (Kim 2014), as a classifier of texts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save
from scipy.special import softmax
from torch import nn

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import ModelError
from levelfield.io.json_input import read_json
from levelfield.models.files import check_finite
from levelfield.models.loading import Loading
from levelfield.models.resolve import Resolved, resolve
from levelfield.models.small.shapes import PLAIN, SPLITTERS, Shape, SmallClassifier, write_config
from levelfield.models.tokens import batches, padded
from levelfield.models.torch.loading import pick_device

MODEL_TYPE = "levelfield-textcnn"
PAD, UNKNOWN = 0, 1
SPECIAL = 2
"""Ids before those of words."""
BATCH_TOKENS = 16_384


class TextCNN(nn.Module):
    """Words → vectors → convolutions → maximum over the text → dropout → logits.

    Kim 2014, "Convolutional Neural Networks for Sentence Classification", section 2, with word
    vectors that begin at random (CNN-rand); section 3.2.2 of the thesis. A text is padded with
    width − 1 zero vectors on both sides, so that one of a single word can be read, and never sees
    the padding of its batch.
    """

    def __init__(self, words: int, labels: int, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(SPECIAL + words, shape.dimension, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=0.25)
        with torch.no_grad():
            self.embedding.weight[PAD] = 0
        self.convolutions = nn.ModuleList(
            nn.Conv1d(shape.dimension, shape.channels, width, padding=width - 1)
            for width in shape.widths
        )
        self.head = nn.Linear(shape.channels * len(shape.widths), labels)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns logits (texts, labels) of ids (texts, words), filled up with `PAD`."""
        lengths = (ids != PAD).sum(1)
        vectors = self.embedding(ids)
        if self.training:
            kept = torch.rand(*ids.shape, 1, device=ids.device) >= self.shape.dropout / 2
            vectors = vectors * kept
        vectors = vectors.transpose(1, 2)  # (texts, dimension, words)
        pooled = []
        for width, convolution in zip(self.shape.widths, self.convolutions, strict=True):
            seen = convolution(vectors)  # (texts, channels, words + width − 1)
            positions = torch.arange(seen.shape[2], device=ids.device)
            beyond = positions >= (lengths + width - 1)[:, None]
            pooled.append(seen.masked_fill(beyond[:, None], -torch.inf).amax(2).relu())
        features = torch.cat(pooled, 1)
        features = nn.functional.dropout(features, self.shape.dropout, self.training)
        logits: torch.Tensor = self.head(features)
        return logits


@dataclass(frozen=True)
class Vocabulary:
    """Words that a TextCNN knows, the most frequent first, and how texts are split into them."""

    words: tuple[str, ...]
    split: str = PLAIN

    @classmethod
    def of(
        cls, texts: Iterable[str], *, most: int, least_often: int = 2, split: str = PLAIN
    ) -> Vocabulary:
        """Returns the most frequent words of texts; of equally frequent ones the alphabetically
        first."""
        counts = Counter(word for text in texts for word in SPLITTERS[split](text))
        often = [(-n, word) for word, n in counts.items() if n >= least_often]
        return cls(tuple(word for _, word in sorted(often)[:most]), split)

    def ids(self, texts: Iterable[str]) -> list[list[int]]:
        """Returns words as numbers; unknown words are `UNKNOWN`."""
        number = {word: i for i, word in enumerate(self.words, SPECIAL)}
        words = SPLITTERS[self.split]
        return [[number.get(word, UNKNOWN) for word in words(text)] for text in texts]


class TextCNNClassifier(SmallClassifier):
    """P(label | text) by a TextCNN. A text of any length is read whole; one without words has no
    probabilities."""

    def __init__(
        self,
        model: TextCNN,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        *,
        batch_tokens: int | None = None,
    ) -> None:
        self._model = model.eval()
        self._vocabulary = vocabulary
        super().__init__(labels)
        self._batch_tokens = batch_tokens or BATCH_TOKENS

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the numbers of texts' words."""
        return self._vocabulary.ids(texts)

    def _probabilities(self, texts: Sequence[str]) -> tuple[Floats, Bools]:
        p = np.full((len(texts), len(self.labels)), np.nan)
        device = self._model.head.weight.device
        for rows, ids in batches(self.token_ids(texts), self._batch_tokens, shortest=1):
            with torch.inference_mode():
                logits = self._model(torch.from_numpy(padded(ids, PAD)).to(device))
            p[rows] = softmax(logits.double().cpu().numpy(), axis=1)
        return p, np.zeros(len(texts), np.bool_)

    def save(self, folder: Path, *, attribute: str, half: bool = False) -> None:
        """Leaves config.json, vocabulary.json and model.safetensors in a folder.

        Args:
            half: save weights in half precision; they are computed with in single precision.
        """
        choices = {"words": self._vocabulary.split, "shape": asdict(self._model.shape)}
        weights = {
            name: (tensor.half() if half else tensor).contiguous()
            for name, tensor in self._model.state_dict().items()
        }
        (folder / "model.safetensors").write_bytes(save(weights))
        words = json.dumps(self._vocabulary.words, ensure_ascii=False)
        (folder / "vocabulary.json").write_text(words + "\n", encoding="utf-8")
        write_config(folder, MODEL_TYPE, attribute, self.labels, **choices)


def load_textcnn(name: str, loading: Loading) -> TextCNNClassifier:
    """Returns the TextCNN in a folder.

    Raises:
        ModelError: its files are damaged, or it splits texts in a way that we don't know.
    """
    resolved = resolve(name, loading)
    config = read_json(resolved.path / "config.json")
    words = read_json(resolved.path / "vocabulary.json")
    labels, splits = config["labels"], config["words"]
    model = TextCNN(len(words), len(labels), Shape(**config["shape"]))
    weights = load_file(resolved.path / "model.safetensors")
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    check_finite(resolved, model.named_parameters())
    check_words(resolved, splits)
    vocabulary = Vocabulary(tuple(words), splits)
    model = model.to(pick_device(loading.device))
    return TextCNNClassifier(model, vocabulary, labels, batch_tokens=loading.batch_tokens)


def check_words(resolved: Resolved, splits: str) -> None:
    """Checks that we know how a model's texts are split.

    Raises:
        ModelError: we don't.
    """
    if splits not in SPLITTERS:
        raise ModelError(
            f"model '{resolved.name}' splits texts into words by '{splits}', and this levelfield "
            f"knows only {', '.join(SPLITTERS)}; train it again"
        )

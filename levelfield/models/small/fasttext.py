"""fastText: averaged vectors of words and word n-grams, as a classifier of texts.

fastText itself reads beyond the end of a file that was cut short: it never ends inside a word, and
takes what it lacks of a matrix for zeros.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import ModelError, UserError, with_extra
from levelfield.io.json_input import read_json
from levelfield.io.writing import temporary_folder
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.small.shapes import PLAIN, SPLITTERS, Settings, SmallClassifier, write_config
from levelfield.models.small.textcnn import check_words

_MAGIC = 793_712_314
_ARGUMENTS = struct.calcsize("<12id")
_CENTROIDS = 256


def check_whole(path: Path) -> None:
    """Checks that a model file ends where its sizes say.

    Raises:
        ValueError: it is not a file of fastText, or was cut short, or goes on after its end.
        OSError: it can't be read.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            end = _end(_Walk(content))
        except (struct.error, OverflowError):
            end = len(content) + 1
        if end > len(content):
            raise ValueError(f"{path.name} was cut short; copy or train it again")
        if end < len(content):
            raise ValueError(f"{path.name} goes on after its end; copy or train it again")


class _Walk:
    """A place in a file, moved on by what is read there."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self.at = 0

    def numbers(self, format: str) -> tuple[int, ...]:
        numbers = struct.unpack_from(f"<{format}", self._content, self.at)
        self.skip(struct.calcsize(f"<{format}"))
        return numbers

    def skip(self, size: int) -> None:
        if size < 0:
            raise struct.error("a negative size")
        self.at += size

    def word(self) -> None:
        end = self._content.find(b"\0", self.at)
        if end < 0:
            raise struct.error("a word without an end")
        self.at = end + 1


def _end(walk: _Walk) -> int:
    """Returns where a model's parts end: arguments, words, input matrix, output matrix."""
    magic, _ = walk.numbers("ii")
    if magic != _MAGIC:
        raise ValueError("it is not a fastText file")
    walk.skip(_ARGUMENTS)
    words, _, _, _, pruned = walk.numbers("iiiqq")
    for _ in range(words):
        walk.word()
        walk.skip(struct.calcsize("<qb"))
    walk.skip(max(pruned, 0) * struct.calcsize("<ii"))
    (is_quantized,) = walk.numbers("b")
    _matrix(walk, is_quantized=bool(is_quantized))
    (output_is_quantized,) = walk.numbers("b")
    _matrix(walk, is_quantized=bool(is_quantized and output_is_quantized))
    return walk.at


def _matrix(walk: _Walk, *, is_quantized: bool) -> None:
    if not is_quantized:
        rows, columns = walk.numbers("qq")
        walk.skip(rows * columns * struct.calcsize("<f"))
        return
    has_norms, rows, _, codes = walk.numbers("bqqi")
    walk.skip(codes)
    _quantizer(walk)
    if has_norms:
        walk.skip(rows)
        _quantizer(walk)


def _quantizer(walk: _Walk) -> None:
    dimension, *_ = walk.numbers("iiii")
    walk.skip(dimension * _CENTROIDS * struct.calcsize("<f"))


MODEL_TYPE = "levelfield-fasttext"
FILE = "model.bin"
LABEL = "§§"
"""Before a label in fastText's files; no word looks like it, since every sign is one of its own."""


class FastTextClassifier(SmallClassifier):
    """P(label | text) by fastText. A text of any length is read whole; one without words has no
    probabilities, and one of whose words none is known has those of no evidence."""

    def __init__(self, model: Any, labels: Sequence[str], split: str = PLAIN) -> None:
        self._model = model
        self._split = split
        super().__init__(labels)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the numbers of texts' words, −1 where fastText does not know one."""
        words = SPLITTERS[self._split]
        return [[int(self._model.get_word_id(word)) for word in words(text)] for text in texts]

    def _probabilities(self, texts: Sequence[str]) -> tuple[Floats, Bools]:
        p = np.full((len(texts), len(self.labels)), np.nan)
        lines = [_line(text, self._split) for text in texts]
        rows = [i for i, line in enumerate(lines) if line]
        if rows:
            predictions, values = self._model.predict([lines[i] for i in rows], k=-1)
            for row, labels, shares in zip(rows, predictions, values, strict=True):
                p[row] = 0.0
                for label, share in zip(labels, shares, strict=True):
                    p[row, int(label.removeprefix(LABEL))] = share
            p[rows] /= p[rows].sum(axis=1, keepdims=True)  # fastText adds 1e-5 to each
        return p, np.zeros(len(texts), np.bool_)

    def save(self, folder: Path, *, attribute: str) -> None:
        """Leaves config.json and model.bin in a folder."""
        self._model.save_model(str(folder / FILE))
        write_config(folder, MODEL_TYPE, attribute, self.labels, words=self._split)


def train_fasttext(
    texts: Sequence[str],
    targets: Floats,
    labels: Sequence[str],
    settings: Settings,
    *,
    seed: int,
    copies: int = 1,
    split: str = PLAIN,
) -> FastTextClassifier:
    """Returns a classifier trained on one thread, so that equal data and seeds give equal models.

    fastText takes one label a text, so a target of several labels is written as `copies` lines, as
    many of each label as its share asks for.

    Args:
        targets: (texts, labels), rows that sum to 1.

    Raises:
        ModelError: fastText is not installed.
        UserError: no text has words.
    """
    written = [
        f"{LABEL}{label} {line}"
        for text, shares in zip(texts, targets, strict=True)
        if (line := _line(text, split))
        for label in _shared_out(shares, copies)
    ]
    if not written:
        raise UserError("no text to train on has words")
    order = np.random.default_rng(seed).permutation(len(written))
    fasttext = library()
    with temporary_folder() as folder:
        file = folder / "train.txt"
        file.write_text("".join(f"{written[i]}\n" for i in order), encoding="utf-8")
        model = fasttext.train_supervised(
            input=str(file),
            dim=settings.dimension,
            wordNgrams=settings.ngrams,
            bucket=settings.buckets if settings.ngrams > 1 else 0,
            epoch=settings.epochs,
            lr=settings.learning_rate,
            minCount=settings.least_often,
            label=LABEL,
            loss="hs" if settings.hierarchical else "softmax",
            thread=1,
            seed=seed,
            verbose=0,
        )
        if settings.quantize:
            model.quantize(input=str(file), qnorm=True, retrain=False, cutoff=0, thread=1)
    return FastTextClassifier(model, labels, split)


def _shared_out(shares: Floats, copies: int) -> list[int]:
    """Returns a label for each copy.

    >>> _shared_out(np.array([0.25, 0.75]), 4)
    [0, 1, 1, 1]
    """
    ends = np.rint(np.cumsum(shares) * copies).astype(int)
    counts = np.diff(ends, prepend=0)
    return [label for label, n in enumerate(counts.tolist()) for _ in range(n)]


def load_fasttext(name: str, loading: Loading) -> FastTextClassifier:
    """Returns the fastText model in a folder.

    Raises:
        ModelError: fastText is not installed, or the files are damaged.
    """
    resolved = resolve(name, loading)
    fasttext = library()
    config = read_json(resolved.path / "config.json")
    labels, splits = config["labels"], config["words"]
    check_whole(resolved.path / FILE)
    model = fasttext.load_model(str(resolved.path / FILE))
    check_words(resolved, splits)
    return FastTextClassifier(model, labels, splits)


def _line(text: str, split: str) -> str:
    """Returns a text as fastText reads it: its words with blanks between. Words have no white space
    in them, so neither line ends nor labels in a text can be mistaken."""
    return " ".join(SPLITTERS[split](text))


def library() -> Any:
    """Returns the module fastText.

    Raises:
        ModelError: it is not installed.
    """
    try:
        import fasttext
    except ImportError as error:
        raise ModelError(
            f"fastText is not installed: {with_extra('fasttext')}; a textcnn or linear judge needs "
            "nothing else"
        ) from error
    return fasttext

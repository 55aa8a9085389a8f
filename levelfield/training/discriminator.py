"""Discriminators: small classifiers that tell human texts from negatives.

Line 12 of Algorithm 1 in Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution
Methods", section 3.4.1, and the self-supervised baselines of CTRLEval's section 4.3. What the
negatives are made by makes no difference: a sampler (`training.negatives`), rules
(`training.perturb`), or something else.

A training example is a pair, a positive and its negative, and each step sees as many of one as of
the other. The value of a text is P(positive | text), which `discriminator.score` reports.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from levelfield.core.arrays import Floats, VocabularyIds
from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.io.lines import lines
from levelfield.io.problems import Wrong, printable
from levelfield.models.batching import buckets
from levelfield.models.resolve import resolve
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import classes, load_to_tune, pick_device, quiet
from levelfield.training.card import Card, write_card
from levelfield.training.folder import close, opened, run_of, saved_tokenizer
from levelfield.training.infiller import Size, digest_of, train_tokenizer
from levelfield.training.loop import Loss, Recipe, Row, fit

Notes = Callable[[str], object]

LABELS = ("negative", "positive")
SHARE = 10
"""One text in so many is held out."""
MOST_HELD_OUT = 1000
VALIDATION_TOKENS = 8192

EMPTY = "a text is empty"
UNCHANGED = "the negative is the positive"
ALSO_POSITIVE = "the negative is another row's positive"
UNSEEN = "they differ only where the model does not read"


# -- rows


class Pair(NamedTuple):
    """A human text and its worse twin."""

    positive: str
    negative: str


@dataclass(frozen=True)
class Rows:
    """What files of negatives hold.

    Attributes:
        pairs: those that can be learnt from.
        skipped: why others can't -> how many.
    """

    pairs: tuple[Pair, ...]
    skipped: Mapping[str, int]

    @property
    def digest(self) -> str:
        """Names the texts."""
        found = hashlib.sha256()
        for text in itertools.chain.from_iterable(self.pairs):
            found.update(_sha256(text))
        return found.hexdigest()


def read_rows(files: Sequence[Path], separator: str = "\n") -> Rows:
    """The rows of JSONL files, `{"positive", "negative"}` each, other fields ignored.

    A text is a string, or a list of turns or sentences, which `separator` joins.

    Raises:
        UserError: a file can't be read, a line is no such object, or fewer than two different
            positives are left.
    """
    found = [pair for file in files for pair in _pairs(file, separator)]
    positives = {pair.positive for pair in found}
    skipped: Counter[str] = Counter()
    kept = []
    for pair in found:
        if why := _unfit(pair, positives):
            skipped[why] += 1
        else:
            kept.append(pair)
    return _enough(Rows(tuple(kept), skipped))


def _enough(rows: Rows) -> Rows:
    if len({pair.positive for pair in rows.pairs}) < 2:
        left_out = "; ".join(f"{why}: {n}" for why, n in rows.skipped.items())
        raise UserError(
            f"{len(rows.pairs)} rows to learn from: expected at least two with different positives "
            f"and a negative each, one to train on and one to validate on (rows left out: "
            f"{left_out or 'none'})"
        )
    return rows


def _unfit(pair: Pair, positives: set[str]) -> str:
    if not (pair.positive and pair.negative):
        return EMPTY
    if pair.positive == pair.negative:
        return UNCHANGED
    return ALSO_POSITIVE if pair.negative in positives else ""


def _pairs(file: Path, separator: str) -> Iterator[Pair]:
    name = printable(str(file))
    try:
        for number, line in lines(file):
            if isinstance(line, Wrong):
                raise UserError(f"{name}:{number}: {line}")
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                yield Pair(_text(row["positive"], separator), _text(row["negative"], separator))
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f'{name}:{number}: expected an object with "positive" and "negative", each a '
                    "text or a list of turns"
                ) from error
    except OSError as error:
        raise UserError(f"{name}: can't be read: {error.strerror or error}") from error


def _text(value: object, separator: str) -> str:
    if isinstance(value, list) and all(isinstance(turn, str) for turn in value):
        value = separator.join(turn.strip() for turn in value)
    if not isinstance(value, str):
        raise TypeError("neither a text nor turns")
    return value.strip()


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def held_out(positives: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which pairs are kept back, by their positives: of the different ones a tenth, at least one
    and at most 1,000, those whose hashes are smallest. So a text is on one side with all its
    negatives, whatever the order of the rows."""
    distinct = sorted(set(positives), key=_sha256)
    held = set(distinct[: min(MOST_HELD_OUT, max(1, len(distinct) // SHARE))])
    return np.array([text in held for text in positives], np.bool_)


# -- the task


@dataclass(frozen=True)
class Encoded:
    """Pairs as a model reads them.

    Attributes:
        positive, negative: ids with special tokens, one array a pair.
        held_out: (pairs,) which are validated on.
        cut: how many texts the model sees less than all of.
    """

    positive: Sequence[VocabularyIds]
    negative: Sequence[VocabularyIds]
    held_out: npt.NDArray[np.bool_]
    cut: int

    @property
    def digest(self) -> str:
        """Names the ids and the split."""
        found = hashlib.sha256(self.held_out.tobytes())
        for ids in (*self.positive, *self.negative):
            found.update(len(ids).to_bytes(8, "little") + ids.tobytes())
        return found.hexdigest()


def encode(rows: Rows, reader: TorchClassifier) -> tuple[Encoded, Rows]:
    """The pairs as ids, and the rows that they are: those whose texts look alike to the model, as
    where the difference is cut off, are left out and counted.

    Raises:
        UserError: too few are left.
    """
    positive, cut_positive = reader.read([pair.positive for pair in rows.pairs])
    negative, cut_negative = reader.read([pair.negative for pair in rows.pairs])
    seen = [a != b for a, b in zip(positive, negative, strict=True)]
    unseen = {UNSEEN: seen.count(False)} if not all(seen) else {}
    left = _enough(Rows(tuple(itertools.compress(rows.pairs, seen)), {**rows.skipped, **unseen}))
    encoded = Encoded(
        [np.array(ids, np.int32) for ids in itertools.compress(positive, seen)],
        [np.array(ids, np.int32) for ids in itertools.compress(negative, seen)],
        held_out([pair.positive for pair in left.pairs]),
        sum(itertools.compress(cut_positive, seen)) + sum(itertools.compress(cut_negative, seen)),
    )
    return encoded, left


@dataclass(frozen=True)
class Discrimination:
    """The task of telling positives from negatives; a batch is a function of the seed and the
    step's number.

    Attributes:
        batch: pairs a step.
        logits: what the model says of the ids of some texts, (texts, labels).
        start: names the weights that training begins from.

    Pairs come in an order that is drawn anew for every pass over them. Those of `POOL` batches are
    sorted by length, so that little of a batch is padding; the batches of a pool then come in
    random order.
    """

    pairs: Encoded
    batch: int
    seed: int
    logits: Callable[[list[VocabularyIds]], torch.Tensor]
    start: str

    POOL = 32

    @property
    def identity(self) -> str:
        return " ".join(["discrimination", self.pairs.digest, str(self.batch), self.start])

    def loss(self, _: Any, step: int) -> Loss:
        """Cross-entropy of a batch's labels, in nats."""
        pool, at = divmod(step, self.POOL)
        rows = self._pool(pool)[at].tolist()
        texts = [ids[i] for ids in (self.pairs.negative, self.pairs.positive) for i in rows]
        logits = self.logits(texts)
        labels = torch.arange(2, device=logits.device).repeat_interleave(len(rows))
        total = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, len(texts))

    def validation(self, _: Any) -> Mapping[str, float]:
        """Of held-out pairs: mean cross-entropy in nats, the share of texts with the right label,
        and AUC, the probability that a positive is found better than a negative."""
        held = np.flatnonzero(self.pairs.held_out).tolist()
        negative = self._margins([self.pairs.negative[i] for i in held])
        positive = self._margins([self.pairs.positive[i] for i in held])
        right = np.concatenate([positive, -negative])  # log-odds of the right label
        return {
            "loss": float(np.logaddexp(0, -right).mean()),
            "accuracy": float((right > 0).mean()),
            "auc": auc(positive, negative),
        }

    def _margins(self, texts: Sequence[VocabularyIds]) -> Floats:
        """log P(positive) − log P(negative): (texts,)."""
        z = np.zeros(len(texts))
        for rows in buckets([len(ids) for ids in texts], VALIDATION_TOKENS):
            logits = self.logits([texts[i] for i in rows]).double().cpu().numpy()
            z[rows] = logits[:, 1] - logits[:, 0]
        return z

    @functools.cached_property
    def _pools(self) -> dict[int, list[npt.NDArray[np.intp]]]:
        return {}

    def _pool(self, pool: int) -> list[npt.NDArray[np.intp]]:
        """The pairs of each batch."""
        if pool not in self._pools:
            self._pools.clear()
            among = np.flatnonzero(~self.pairs.held_out)
            n = self.POOL * self.batch
            epochs = range(pool * n // len(among), ((pool + 1) * n - 1) // len(among) + 1)
            orders = [np.random.default_rng([self.seed, 1, e]).permutation(among) for e in epochs]
            first = pool * n - epochs[0] * len(among)
            drawn = np.concatenate(orders)[first : first + n]
            length = [max(len(self.pairs.positive[i]), len(self.pairs.negative[i])) for i in drawn]
            batches = drawn[np.argsort(length, kind="stable")].reshape(self.POOL, self.batch)
            shuffled = np.random.default_rng([self.seed, 2, pool]).permutation(self.POOL)
            self._pools[pool] = [batches[i] for i in shuffled]
        return self._pools[pool]


def auc(positive: Floats, negative: Floats) -> float:
    """P(positive > negative) + P(positive = negative) / 2 over all pairs of the two."""
    from scipy.stats import rankdata

    n, m = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))[:n]
    return float((ranks.sum() - n * (n + 1) / 2) / (n * m))


# -- from rows to a model folder


@dataclass(frozen=True)
class Spec:
    """What to train.

    Attributes:
        start: an encoder to begin from, or a classifier, whose own head is kept if it has two
            labels: hub name, folder or offline/minilm; empty to begin from random weights.
        size, vocabulary: of a model that begins from nothing.
        batch: pairs a step.
        window: most tokens of a text, in training and in scoring.
        keep: which part of a longer text the model sees. The end of a dialogue is the reply.
    """

    recipe: Recipe
    start: str = "offline/minilm"
    size: Size = field(default_factory=lambda: Size(128, 2, 512))
    vocabulary: int = 8192
    batch: int = 16
    window: int = 256
    keep: Literal["beginning", "end"] = "end"
    device: str = "auto"
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if self.batch < 1 or self.window < 8:
            raise UserError("expected a batch of at least 1 pair and a window of at least 8 tokens")


def build_discriminator(
    files: Sequence[Path],
    spec: Spec,
    out: Path,
    *,
    sources: Sequence[str],
    separator: str = "\n",
    notes: Notes = lambda _: None,
    progress: Progress = no_progress,
) -> list[Row]:
    """Trains a discriminator on files of negatives; leaves a model folder with a card at `out`.

    The checkpoint lies in `out/training` until the model is done; run again after a kill, it goes
    on from there. A folder that holds the finished model of the same run is left as it is.

    Args:
        files: JSONL, as for `read_rows`.
        sources: for the card: what the texts are and their licence, a line each.
        separator: stands between turns or sentences of texts that are lists.

    Returns:
        The history; its last row says how the model does on held-out pairs.

    Raises:
        UserError, ModelError: rows that can't be learnt from, a folder with something else in it,
            a start that is no encoder.
    """
    quiet()
    device = pick_device(spec.device)
    rows = read_rows(files, separator)
    run = run_of(spec, rows.digest)
    if (history := opened(out, run)) is not None:
        notes(f"{out} holds this model already")
        return history
    training = out / "training"
    model, tokenizer = _begin(rows, spec, training)
    tokenizer.model_max_length = spec.window
    tokenizer.truncation_side = "left" if spec.keep == "end" else "right"
    tokenizer.init_kwargs["truncation_side"] = tokenizer.truncation_side  # else it is not saved
    reader = TorchClassifier.of(model.to(device), tokenizer)
    pairs, rows = encode(rows, reader)
    for line in _noted(rows, pairs):
        notes(line)
    task = Discrimination(pairs, spec.batch, spec.recipe.seed, reader.logits, digest_of(model))
    history = fit(model, task, spec.recipe, training, progress=progress)
    reader.save(out)
    write_card(_card(out, spec, model, rows, pairs, history, sources, device), out)
    close(out, run, history)
    return history


def _begin(rows: Rows, spec: Spec, training: Path) -> tuple[Any, Any]:
    """Model and tokenizer before the first step; the same ones every time."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(spec.recipe.seed)
        if spec.start:
            resolved = resolve(spec.start, allow_pickle=spec.allow_pickle)
            return load_to_tune(resolved, LABELS, torch.device("cpu"))
        tokenizer = _own_tokenizer(rows, spec.vocabulary, training / "tokenizer")
        return _random(spec, len(tokenizer)), tokenizer


def _own_tokenizer(rows: Rows, vocabulary: int, folder: Path) -> Any:
    """Trained on the texts at the first call, and kept for later ones."""
    from tokenizers import processors

    def trained() -> Any:
        made = train_tokenizer(itertools.chain.from_iterable(rows.pairs), vocabulary)
        # the head reads the state of the first token, which should say nothing itself
        made.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="</s> $A </s>", special_tokens=[("</s>", made.eos_token_id)]
        )
        return made

    return saved_tokenizer(folder, trained)


def _random(spec: Spec, vocabulary: int) -> Any:
    import transformers

    size = spec.size
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=max(1, size.width // size.head),
            intermediate_size=size.inner,
            max_position_embeddings=spec.window,
            pad_token_id=0,
            **classes(LABELS),
        )
    )


def _noted(rows: Rows, pairs: Encoded) -> Iterator[str]:
    yield f"{len(rows.pairs):,} pairs, {int(pairs.held_out.sum()):,} of them held out"
    for why, n in rows.skipped.items():
        yield f"left out {n:,} rows: {why}"
    if pairs.cut:
        yield f"of {pairs.cut:,} texts the model sees a part only"


def _card(
    out: Path,
    spec: Spec,
    model: Any,
    rows: Rows,
    pairs: Encoded,
    history: Sequence[Row],
    sources: Sequence[str],
    device: torch.device,
) -> Card:
    recipe, last = spec.recipe, history[-1]
    held = f"on {int(pairs.held_out.sum()):,} held-out pairs"
    what: Mapping[str, str] = {
        "Parameters": f"{sum(p.numel() for p in model.parameters()):,}",
        "Labels": ", ".join(LABELS),
        "Begun from": spec.start or f"random weights, seed {recipe.seed}",
        "Pairs": f"{len(rows.pairs):,}, of which {int(pairs.held_out.sum()):,} are held out",
        "Rows left out": "; ".join(f"{why}: {n:,}" for why, n in rows.skipped.items()) or "none",
        "Texts cut": f"{pairs.cut:,}, of which the {spec.keep} is kept",
        "Steps": f"{recipe.steps:,} of {spec.batch} pairs, texts of up to {spec.window} tokens",
        "Precision": recipe.precision,
        "Trained on": "CPU" if device.type == "cpu" else torch.cuda.get_device_name(device),
        "Time": f"{last.seconds / 60:.0f} minutes",
        "Accuracy": f"{last.validation['accuracy']:.4f} {held}",
        "AUC": f"{last.validation['auc']:.4f} {held}",
        "Loss": f"{last.validation['loss']:.4f} nats a text {held}",
        "Made with": f"PyTorch {torch.__version__}, Python {platform.python_version()}",
    }
    return Card(out.name, "tells human texts from worse ones", what, tuple(sources))

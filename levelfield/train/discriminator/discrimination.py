"""From files of negatives to a discriminator's folder."""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from levelfield.core.arrays import Bools, Codes, Floats, VocabularyIds
from levelfield.models.resolve import resolve
from levelfield.models.tokens import batches
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import classes, load_to_tune
from levelfield.train.builder import (
    Account,
    Beginning,
    Workplace,
    build,
    digest_of_weights,
    saved_tokenizer,
    start_of,
    stepwise,
)
from levelfield.train.discriminator import DiscriminatorSpec
from levelfield.train.discriminator.pairs import TrainingPairs, check_enough, held_out, read_rows
from levelfield.train.infiller import Size
from levelfield.train.infiller.examples import train_tokenizer
from levelfield.train.loop import HistoryRow, Loss, last_kept, seeded

MARKED = "</s> $A </s>"
"""A text `$A` as it is read: the head reads the state of the first token, which should say nothing
itself."""


def new_model(size: Size, vocabulary: int, positions: int, labels: Sequence[str]) -> Any:
    """Returns a BERT that tells labels apart, with random weights."""
    import transformers

    assert size.inner
    assert size.head
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=size.width,
            num_hidden_layers=size.layers,
            num_attention_heads=max(1, size.width // size.head),
            intermediate_size=size.inner,
            max_position_embeddings=positions,
            pad_token_id=0,
            **classes(labels),
        )
    )


VALIDATION_TOKENS = 8192
UNSEEN = "they differ only where the model does not read"


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as a model reads them.

    Attributes:
        positive, negative: ids with special tokens, one array a pair.
        held_out: (pairs,) which are validated on.
        cut: how many texts the model sees less than all of.
    """

    positive: Sequence[VocabularyIds]
    negative: Sequence[VocabularyIds]
    held_out: Bools
    cut: int

    @property
    def digest(self) -> str:
        """Names the ids and the split."""
        digest = hashlib.sha256(self.held_out.tobytes())
        for ids in (*self.positive, *self.negative):
            digest.update(len(ids).to_bytes(8, "little") + ids.tobytes())
        return digest.hexdigest()


def encode(rows: TrainingPairs, reader: TorchClassifier) -> tuple[EncodedPairs, TrainingPairs]:
    """Returns the pairs as ids, and the rows that they are: those whose texts look alike to the
    model, as where the difference is cut off, are left out and counted.

    Raises:
        UserError: too few are left.
    """
    positive, cut_positive = reader.read([pair.positive for pair in rows.pairs])
    negative, cut_negative = reader.read([pair.negative for pair in rows.pairs])
    seen = [a != b for a, b in zip(positive, negative, strict=True)]
    unseen = {UNSEEN: seen.count(False)} if not all(seen) else {}
    left = check_enough(
        TrainingPairs(tuple(itertools.compress(rows.pairs, seen)), {**rows.skipped, **unseen})
    )
    encoded = EncodedPairs(
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
        batch: number of pairs a step.
        logits: of the ids of some texts: (texts, labels).
        start: names the weights that training begins from.

    Every pass draws a new order of the pairs. The pairs of `POOL` batches are sorted by length, so
    that little of a batch is padding; the batches of a pool then come in random order.
    """

    pairs: EncodedPairs
    batch: int
    seed: int
    logits: Callable[[list[VocabularyIds]], torch.Tensor]
    start: str

    POOL = 32

    @property
    def identity(self) -> str:
        return " ".join(["discrimination", self.pairs.digest, str(self.batch), self.start])

    def loss(self, _: Any, step: int) -> Loss:
        """Returns the cross-entropy of a batch's labels, in nats."""
        pool, index = divmod(step, self.POOL)
        rows = self._pool(pool)[index].tolist()
        texts = [ids[i] for ids in (self.pairs.negative, self.pairs.positive) for i in rows]
        logits = self.logits(texts)
        labels = torch.arange(2, device=logits.device).repeat_interleave(len(rows))
        total = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        return Loss(total, len(texts))

    def validation(self, _: Any) -> Mapping[str, float]:
        """Of held-out pairs: mean cross-entropy in nats, the share of texts with the right label,
        and AUC, the probability that a positive gets the higher log-odds."""
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
        """Returns log P(positive) − log P(negative): (texts,)."""
        z = np.zeros(len(texts))
        for rows, batch in batches(texts, VALIDATION_TOKENS):
            logits = self.logits(batch).double().cpu().numpy()
            z[rows] = logits[:, 1] - logits[:, 0]
        return z

    @functools.cached_property
    def _pool(self) -> Callable[[int], list[Codes]]:
        return last_kept(self._drawn)

    def _drawn(self, pool: int) -> list[Codes]:
        """Returns the pairs of each batch."""
        among = np.flatnonzero(~self.pairs.held_out)
        n = self.POOL * self.batch
        epochs = range(pool * n // len(among), ((pool + 1) * n - 1) // len(among) + 1)
        orders = [np.random.default_rng([self.seed, 1, e]).permutation(among) for e in epochs]
        first = pool * n - epochs[0] * len(among)
        drawn = np.concatenate(orders)[first : first + n]
        length = [max(len(self.pairs.positive[i]), len(self.pairs.negative[i])) for i in drawn]
        batches = drawn[np.argsort(length, kind="stable")].reshape(self.POOL, self.batch)
        shuffled = np.random.default_rng([self.seed, 2, pool]).permutation(self.POOL)
        return [batches[i] for i in shuffled]


def auc(positive: Floats, negative: Floats) -> float:
    """Returns P(positive > negative) + P(positive = negative) / 2 over all pairs of the two."""
    from scipy.stats import rankdata

    n, m = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))[:n]
    return float((ranks.sum() - n * (n + 1) / 2) / (n * m))


LABELS = ("negative", "positive")


def build_discriminator(
    files: Sequence[Path],
    spec: DiscriminatorSpec,
    out: Path,
    *,
    separator: str = "\n",
    **account: Unpack[Account],
) -> list[HistoryRow]:
    """Trains a discriminator on files of negatives; writes a model folder with a card at `out`.

    The last row of the history has the model's results on held-out pairs.

    Args:
        files: JSONL, as for `read_rows`.
        separator: joins the turns or sentences of texts that are lists.
        account: sources for the card, and callbacks for progress and notes.

    Raises:
        UserError, ModelError: rows that can't be used for training, and as for `build`.
    """
    read = read_rows(files, separator)

    def begin(spec: DiscriminatorSpec, place: Workplace) -> Beginning:
        model, tokenizer = _begin(read, spec, place.checkpoint)
        tokenizer.model_max_length = spec.window
        tokenizer.truncation_side = "left" if spec.keep == "end" else "right"
        tokenizer.init_kwargs["truncation_side"] = tokenizer.truncation_side  # else it is not saved
        reader = TorchClassifier(model.to(place.device), tokenizer)
        pairs, rows = encode(read, reader)
        held = int(pairs.held_out.sum())
        place.notes(f"{len(rows.pairs):,} pairs, {held:,} of them held out")
        for reason, n in rows.skipped.items():
            place.notes(f"left out {n:,} rows: {reason}")
        if pairs.cut:
            place.notes(f"the model sees only a part of {pairs.cut:,} texts")

        def save(last: HistoryRow) -> Mapping[str, str]:
            reader.save(place.out)
            figures, on = last.validation, f"on {held:,} held-out pairs"
            return {
                "Accuracy": f"{figures['accuracy']:.4f} {on}",
                "AUC": f"{figures['auc']:.4f} {on}",
                "Loss": f"{figures['loss']:.4f} nats a text {on}",
            }

        start = digest_of_weights(model)
        left_out = "; ".join(f"{reason}: {n:,}" for reason, n in rows.skipped.items())
        return Beginning(
            "tells human texts from worse ones",
            model,
            Discrimination(pairs, spec.batch, spec.recipe.seed, reader.logits, start),
            start_of(spec),
            f"{spec.batch} pairs, texts of up to {spec.window} tokens",
            save,
            {
                "Labels": ", ".join(LABELS),
                "Pairs": f"{len(rows.pairs):,}, of which {held:,} are held out",
                "Rows left out": left_out or "none",
                "Texts cut": f"{pairs.cut:,}, of which the {spec.keep} is kept",
            },
        )

    return build(stepwise(begin), spec, read.digest, out, **account)


def _begin(rows: TrainingPairs, spec: DiscriminatorSpec, training: Path) -> tuple[Any, Any]:
    """Returns model and tokenizer before the first step, which are always the same."""
    with seeded(spec.recipe.seed):
        if spec.start:
            resolved = resolve(spec.start, spec.loading)
            return load_to_tune(resolved, LABELS, torch.device("cpu"))
        texts = itertools.chain.from_iterable(rows.pairs)
        tokenizer = saved_tokenizer(
            training / "tokenizer", lambda: train_tokenizer(texts, spec.vocabulary, marked=MARKED)
        )
        return new_model(spec.size, len(tokenizer), spec.window, LABELS), tokenizer

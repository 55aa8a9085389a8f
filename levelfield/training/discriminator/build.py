"""From files of negatives to a discriminator's folder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import torch

from levelfield.models.resolve import resolve
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import load_to_tune
from levelfield.training.builder import Account, Beginning, Workplace, build, start_of, stepwise
from levelfield.training.discriminator import DiscriminatorSpec
from levelfield.training.discriminator.architecture import MARKED, new_model
from levelfield.training.discriminator.rows import TrainingPairs, read_rows
from levelfield.training.discriminator.task import Discrimination, EncodedPairs, encode
from levelfield.training.folder import digest_of_weights, saved_tokenizer
from levelfield.training.infiller.tokenizer import train_tokenizer
from levelfield.training.loop import HistoryRow, seeded

LABELS = ("negative", "positive")


def build_discriminator(
    files: Sequence[Path],
    spec: DiscriminatorSpec,
    out: Path,
    *,
    separator: str = "\n",
    **account: Unpack[Account],
) -> list[HistoryRow]:
    """Trains a discriminator on files of negatives; leaves a model folder with a card at `out`.

    The last row of the history says how the model does on held-out pairs.

    Args:
        files: JSONL, as for `read_rows`.
        separator: stands between turns or sentences of texts that are lists.
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: rows that can't be learnt from, and as of `build`.
    """
    read = read_rows(files, separator)

    def begin(spec: DiscriminatorSpec, place: Workplace) -> Beginning:
        model, tokenizer = _begin(read, spec, place.checkpoint)
        tokenizer.model_max_length = spec.window
        tokenizer.truncation_side = "left" if spec.keep == "end" else "right"
        tokenizer.init_kwargs["truncation_side"] = tokenizer.truncation_side  # else it is not saved
        reader = TorchClassifier(model.to(place.device), tokenizer)
        pairs, rows = encode(read, reader)
        for line in _remarks(rows, pairs):
            place.notes(line)
        held = int(pairs.held_out.sum())

        def save(last: HistoryRow) -> Mapping[str, str]:
            reader.save(place.out)
            figures, on = last.validation, f"on {held:,} held-out pairs"
            return {
                "Accuracy": f"{figures['accuracy']:.4f} {on}",
                "AUC": f"{figures['auc']:.4f} {on}",
                "Loss": f"{figures['loss']:.4f} nats a text {on}",
            }

        start = digest_of_weights(model)
        left_out = "; ".join(f"{why}: {n:,}" for why, n in rows.skipped.items())
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
    """Model and tokenizer before the first step; the same ones every time."""
    with seeded(spec.recipe.seed):
        if spec.start:
            resolved = resolve(spec.start, spec.loading)
            return load_to_tune(resolved, LABELS, torch.device("cpu"))
        texts = itertools.chain.from_iterable(rows.pairs)
        tokenizer = saved_tokenizer(
            training / "tokenizer", lambda: train_tokenizer(texts, spec.vocabulary, marked=MARKED)
        )
        return new_model(spec.size, len(tokenizer), spec.window, LABELS), tokenizer


def _remarks(rows: TrainingPairs, pairs: EncodedPairs) -> Iterator[str]:
    yield f"{len(rows.pairs):,} pairs, {int(pairs.held_out.sum()):,} of them held out"
    for why, n in rows.skipped.items():
        yield f"left out {n:,} rows: {why}"
    if pairs.cut:
        yield f"of {pairs.cut:,} texts the model sees a part only"

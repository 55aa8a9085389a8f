"""From files of negatives to a discriminator's folder."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.models.files import quiet
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.torch.classifier import TorchClassifier
from levelfield.models.torch.loading import classes, load_to_tune, pick_device
from levelfield.training.card import Card, write_card
from levelfield.training.discriminator.rows import TrainingPairs, read_rows
from levelfield.training.discriminator.task import Discrimination, EncodedPairs, encode
from levelfield.training.folder import close, digest_of_weights, opened, run_of, saved_tokenizer
from levelfield.training.infiller.architecture import Size
from levelfield.training.infiller.tokenizer import train_tokenizer
from levelfield.training.loop import HistoryRow, Recipe, fit

LABELS = ("negative", "positive")


@dataclass(frozen=True)
class DiscriminatorSpec:
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
    spec: DiscriminatorSpec,
    out: Path,
    *,
    sources: Sequence[str],
    separator: str = "\n",
    notes: Callable[[str], object] = lambda _: None,
    progress: Progress = no_progress,
) -> list[HistoryRow]:
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
    reader = TorchClassifier(model.to(device), tokenizer)
    pairs, rows = encode(rows, reader)
    for line in _remarks(rows, pairs):
        notes(line)
    task = Discrimination(
        pairs, spec.batch, spec.recipe.seed, reader.logits, digest_of_weights(model)
    )
    history = fit(model, task, spec.recipe, training, progress=progress)
    reader.save(out)
    write_card(_card(out, spec, model, rows, pairs, history, sources, device), out)
    close(out, run, history)
    return history


def _begin(rows: TrainingPairs, spec: DiscriminatorSpec, training: Path) -> tuple[Any, Any]:
    """Model and tokenizer before the first step; the same ones every time."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(spec.recipe.seed)
        if spec.start:
            resolved = resolve(spec.start, Loading(allow_pickle=spec.allow_pickle))
            return load_to_tune(resolved, LABELS, torch.device("cpu"))
        tokenizer = _own_tokenizer(rows, spec.vocabulary, training / "tokenizer")
        return _random(spec, len(tokenizer)), tokenizer


def _own_tokenizer(rows: TrainingPairs, vocabulary: int, folder: Path) -> Any:
    """Trained on the texts at the first call, and kept for later ones."""
    from tokenizers import processors

    def trained() -> Any:
        tokenizer = train_tokenizer(itertools.chain.from_iterable(rows.pairs), vocabulary)
        # the head reads the state of the first token, which should say nothing itself
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="</s> $A </s>", special_tokens=[("</s>", tokenizer.eos_token_id)]
        )
        return tokenizer

    return saved_tokenizer(folder, trained)


def _random(spec: DiscriminatorSpec, vocabulary: int) -> Any:
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


def _remarks(rows: TrainingPairs, pairs: EncodedPairs) -> Iterator[str]:
    yield f"{len(rows.pairs):,} pairs, {int(pairs.held_out.sum()):,} of them held out"
    for why, n in rows.skipped.items():
        yield f"left out {n:,} rows: {why}"
    if pairs.cut:
        yield f"of {pairs.cut:,} texts the model sees a part only"


def _card(
    out: Path,
    spec: DiscriminatorSpec,
    model: Any,
    rows: TrainingPairs,
    pairs: EncodedPairs,
    history: Sequence[HistoryRow],
    sources: Sequence[str],
    device: torch.device,
) -> Card:
    recipe, last = spec.recipe, history[-1]
    held = f"on {int(pairs.held_out.sum()):,} held-out pairs"
    facts = {
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
    return Card(out.name, "tells human texts from worse ones", facts, tuple(sources))

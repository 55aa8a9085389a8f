"""From a corpus to an infiller's folder."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.models.files import quiet
from levelfield.models.gaps import FIM
from levelfield.models.resolve import Kind, resolve
from levelfield.models.torch.loading import fuse_activations, load_pretrained, pick_device
from levelfield.training.card import Card, write_card
from levelfield.training.corpus import Corpus, digest_of_texts, tokenise
from levelfield.training.folder import close, digest_of_weights, opened, run_of, saved_tokenizer
from levelfield.training.infiller.architecture import Size, new_model
from levelfield.training.infiller.examples import sentence_ends
from levelfield.training.infiller.format import Family, InfillingFormat
from levelfield.training.infiller.task import Infilling
from levelfield.training.infiller.tokenizer import train_tokenizer
from levelfield.training.loop import HistoryRow, Recipe, fit

POSITIONS = 512
SAMPLE = 20_000_000
"""Characters of the corpus that a new tokenizer is trained on."""

Texts = Callable[[], Iterator[str]]
Notes = Callable[[str], object]


@dataclass(frozen=True)
class InfillerSpec:
    """What to train.

    Attributes:
        family: how gaps are written; of a model that begins from nothing also what it is.
        start: a hub name or folder to begin from; empty to begin from random weights.
        size, vocabulary: of a model that begins from nothing.
        tokenizer: a model folder whose tokenizer is taken; empty to train one on the corpus.
        batch: examples a step.
        window: tokens of the longest example.
        half: save weights in half precision.
    """

    recipe: Recipe
    family: Family = "t5"
    start: str = ""
    size: Size = field(default_factory=lambda: Size(256, 3, 768))
    vocabulary: int = 8192
    tokenizer: str = ""
    batch: int = 32
    window: int = 96
    half: bool = False
    device: str = "auto"


def build_infiller(
    texts: Texts,
    spec: InfillerSpec,
    out: Path,
    *,
    sources: Sequence[str],
    notes: Notes = lambda _: None,
    progress: Progress = no_progress,
) -> list[HistoryRow]:
    """Trains an infiller and leaves a model folder with a card at `out`.

    `texts` gives the documents of the corpus anew at every call. The checkpoint lies in
    `out/training` until the model is done; run again after a kill, it goes on from there. A folder
    that holds the finished model of the same run is left as it is.

    Args:
        sources: for the card: what the corpus is and its licence, a line each.

    Raises:
        UserError, ModelError: nothing to train on, a folder with something else in it, a model of
            another family.
    """
    quiet()
    device = pick_device(spec.device)
    data = digest_of_texts(texts())
    run = run_of(spec, data)
    if (history := opened(out, run)) is not None:
        notes(f"{out} holds this model already")
        return history
    training = out / "training"
    model, tokenizer = _begin(
        texts, spec, training / f"tokenizer-{spec.vocabulary}-{data[:12]}", device
    )
    corpus = tokenise(texts(), tokenizer)
    notes(f"{len(corpus):,} documents, {len(corpus.ids):,} tokens")
    ends = sentence_ends(tokenizer, int(model.config.vocab_size))
    task = Infilling(
        corpus,
        InfillingFormat(tokenizer, spec.family),
        ends,
        spec.batch,
        spec.window,
        spec.recipe.seed,
        digest_of_weights(model),
    )
    history = fit(model, task, spec.recipe, training, progress=progress)
    if spec.half:
        model = model.half()
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    write_card(_card(out, spec, model, corpus, history, sources, device), out)
    close(out, run, history)
    return history


def _begin(texts: Texts, spec: InfillerSpec, own: Path, device: torch.device) -> tuple[Any, Any]:
    """Model and tokenizer before the first step; the same ones every time. A tokenizer that is
    trained here is kept at `own`."""
    if spec.start:
        kind: Kind = "encoder-decoder" if spec.family == "t5" else "causal"
        model, tokenizer = load_pretrained(resolve(spec.start), kind, device, torch.float32)
        known = tokenizer.get_vocab()
        if spec.family == "causal" and any(mark not in known for mark in FIM):
            tokenizer.add_special_tokens({"extra_special_tokens": list(FIM)})
            with torch.random.fork_rng():
                torch.manual_seed(spec.recipe.seed)
                model.resize_token_embeddings(len(tokenizer))
        return model, tokenizer
    if spec.tokenizer and not (Path(spec.tokenizer) / "tokenizer.json").is_file():
        raise UserError(f"{spec.tokenizer} holds no tokenizer.json")
    tokenizer = saved_tokenizer(
        Path(spec.tokenizer) if spec.tokenizer else own,
        lambda: train_tokenizer(_some(texts()), spec.vocabulary),
    )
    model = new_model(spec.family, spec.size, len(tokenizer), spec.recipe.seed, positions=POSITIONS)
    fuse_activations(model)
    return model.to(device), tokenizer


def _some(texts: Iterator[str]) -> Iterator[str]:
    """Pieces of the corpus for a tokenizer: of each document at most 20,000 characters."""
    taken = 0
    for text in texts:
        piece = text[:20_000]
        yield piece
        taken += len(piece)
        if taken >= SAMPLE:
            return


def _card(
    out: Path,
    spec: InfillerSpec,
    model: Any,
    corpus: Corpus,
    history: Sequence[HistoryRow],
    sources: Sequence[str],
    device: torch.device,
) -> Card:
    recipe = spec.recipe
    facts = {
        "Parameters": f"{sum(p.numel() for p in model.parameters()):,}",
        "Format": f"{spec.family}, one gap a text",
        "Begun from": spec.start or f"random weights, seed {recipe.seed}",
        "Corpus": f"{len(corpus):,} documents, {len(corpus.ids):,} tokens",
        "Steps": f"{recipe.steps:,} of {spec.batch} examples of up to {spec.window} tokens",
        "Precision": recipe.precision,
        "Trained on": "CPU" if device.type == "cpu" else torch.cuda.get_device_name(device),
        "Time": f"{history[-1].seconds / 60:.0f} minutes",
        "Loss": f"{history[-1].validation['loss']:.4f} nats a token on held-out documents",
        "Made with": f"PyTorch {torch.__version__}, Python {platform.python_version()}",
    }
    return Card(out.name, "fills one gap in a text", facts, tuple(sources))

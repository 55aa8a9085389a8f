"""From a corpus to an editor's folder."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.generation.editor import HEAD, WEIGHTS, EditingHead, EditorNetwork
from levelfield.generation.editor_tokens import EditorTokens
from levelfield.models.files import quiet
from levelfield.models.loading import Loading
from levelfield.models.resolve import resolve
from levelfield.models.torch.loading import load_pretrained, pick_device
from levelfield.training.card import Card, write_card
from levelfield.training.corpus import Corpus, digest_of_texts, tokenise
from levelfield.training.editor.architecture import EditorSize, new_body
from levelfield.training.editor.sentences import some_sentences
from levelfield.training.editor.task import Editing, Learn
from levelfield.training.folder import close, digest_of_weights, opened, run_of
from levelfield.training.loop import HistoryRow, Recipe, fit

VOCABULARY = "offline/infill-expert"


@dataclass(frozen=True)
class EditorSpec:
    """What to train.

    Attributes:
        start: the encoder-decoder to begin from: a hub name or folder; empty for a small BART with
            random weights.
        vocabulary: of a model that begins from nothing: the model whose tokenizer and token
            embeddings it takes.
        size: of a model that begins from nothing.
        sentences: sentences of the corpus to learn from, at most.
        batch: examples a step.
        window: tokens of the longest sentence.
        learn: which tokens the decoder learns: those that it fills in (`masks`), or `all`, as the
            authors' does.
        half: save weights in half precision.
        language: of the sentence segmenter.
    """

    recipe: Recipe
    start: str = ""
    vocabulary: str = VOCABULARY
    size: EditorSize = field(default_factory=EditorSize)
    sentences: int = 400_000
    batch: int = 32
    window: int = 64
    learn: Learn = "masks"
    half: bool = False
    language: str = "english"
    allow_pickle: bool = False
    device: str = "auto"


def build_editor(
    texts: Callable[[], Iterator[str]],
    spec: EditorSpec,
    out: Path,
    *,
    sources: Sequence[str],
    notes: Callable[[str], object] = lambda _: None,
    progress: Progress = no_progress,
) -> list[HistoryRow]:
    """Trains an editor and leaves a model folder with a card at `out`.

    `texts` gives the documents of the corpus anew at every call. The checkpoint lies in
    `out/training` until the model is done; run again after a kill, it goes on from there. A folder
    that holds the finished model of the same run is left as it is.

    Args:
        sources: for the card: what the corpus is and its licence, a line each.

    Raises:
        UserError, ModelError: nothing to train on, a folder with something else in it, a model to
            begin from that is no encoder-decoder.
    """
    quiet()
    device = pick_device(spec.device)
    # a word is a token at least
    sentences = some_sentences(
        texts(), spec.sentences, spec.window, spec.recipe.seed, spec.language
    )
    run = run_of(spec, digest_of_texts(sentences))
    if (history := opened(out, run)) is not None:
        notes(f"{out} holds this model already")
        return history
    resolved = resolve(spec.start or spec.vocabulary, Loading(allow_pickle=spec.allow_pickle))
    body, tokenizer = load_pretrained(resolved, "encoder-decoder", device, torch.float32)
    if not spec.start:
        body = new_body(body, tokenizer, spec.size, spec.recipe.seed).to(device)
    network = EditorNetwork(body, _new_head(body.config.d_model, spec.recipe.seed).to(device))
    tokens = EditorTokens(tokenizer, body.config)
    corpus = tokenise((f" {sentence}" for sentence in sentences), tokenizer)
    notes(f"{len(corpus):,} sentences, {len(corpus.ids):,} tokens")
    start = digest_of_weights(network)
    task = Editing(corpus, tokens, spec.batch, spec.window, spec.learn, spec.recipe.seed, start)
    history = fit(network, task, spec.recipe, out / "training", progress=progress)
    save_editor(network, tokenizer, out, half=spec.half)
    write_card(_card(out, spec, resolved.label, network, corpus, history, sources, device), out)
    close(out, run, history)
    return history


def save_editor(network: EditorNetwork, tokenizer: Any, out: Path, *, half: bool = False) -> None:
    """Leaves the folder of an editor: that of its encoder-decoder, the head among the weights.

    Raises:
        UserError: the encoder-decoder is too large for one file.
    """
    body = network.body.half() if half else network.body
    body.save_pretrained(out, max_shard_size="1TB")
    tokenizer.save_pretrained(out)
    path = out / WEIGHTS
    if not path.is_file():
        raise UserError(f"{out}: expected the weights in one file, {WEIGHTS}")
    tensors = safetensors.torch.load_file(path)
    dtype = next(body.parameters()).dtype
    for name, tensor in network.head.state_dict().items():
        tensors[f"{HEAD}{name}"] = tensor.detach().cpu().to(dtype).contiguous()
    safetensors.torch.save_file(tensors, path, {"format": "pt"})


def _new_head(width: int, seed: int) -> EditingHead:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return EditingHead(width)


def _card(
    out: Path,
    spec: EditorSpec,
    start: str,
    network: EditorNetwork,
    corpus: Corpus,
    history: Sequence[HistoryRow],
    sources: Sequence[str],
    device: torch.device,
) -> Card:
    recipe, figures = spec.recipe, history[-1].validation
    facts: Mapping[str, str] = {
        "Parameters": f"{sum(p.numel() for p in network.parameters()):,}",
        "Begun from": start if spec.start else f"random weights, and the embeddings of {start}",
        "Corpus": f"{len(corpus):,} sentences, {len(corpus.ids):,} tokens",
        "Steps": f"{recipe.steps:,} of {spec.batch} corrupted sentences of up to {spec.window} "
        "tokens",
        "Learning rate": f"{recipe.learning_rate:g}",
        "Learnt by the decoder": "what it fills in" if spec.learn == "masks" else "all tokens",
        "Precision": recipe.precision,
        "Trained on": "CPU" if device.type == "cpu" else torch.cuda.get_device_name(device),
        "Time": f"{history[-1].seconds / 60:.0f} minutes",
        "Held out: loss": f"{figures['loss']:.4f} nats, actions and tokens",
        "Held out: actions told": ", ".join(
            f"{name} {figures[name]:.1%}" for name in ("copy", "replace", "insert")
        ),
        "Held out: gaps filled as they were": f"{figures['gaps']:.1%}",
        "Seed": str(recipe.seed),
        "Made with": f"PyTorch {torch.__version__}, Python {platform.python_version()}",
    }
    return Card(out.name, "inserts and replaces words around keywords", facts, tuple(sources))

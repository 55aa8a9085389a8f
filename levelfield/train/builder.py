"""From data to the folder of a trained model: one way for all kinds."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from levelfield.core.progress import Progress, no_progress
from levelfield.models.files import quiet
from levelfield.models.torch.loading import pick_device
from levelfield.train.folder import close, opened, run_of
from levelfield.train.loop import HistoryRow, TrainingTask, fit
from levelfield.version import __version__


@dataclass(frozen=True)
class Card:
    """A model card.

    Attributes:
        name: of the model.
        task: what it does, in a few words.
        facts: name -> value, in the order in which they are shown.
        sources: data it was trained on and their licences, one a line.
        origin: whose weights they are, if they were not trained here.
    """

    name: str
    task: str
    facts: Mapping[str, str]
    sources: tuple[str, ...]
    origin: str = ""


def write_card(card: Card, folder: Path) -> None:
    """Writes `README.md` of a model folder."""
    rows = "".join(f"| {name} | {value} |\n" for name, value in card.facts.items())
    data = "".join(f"- {source}\n" for source in card.sources) or "- not stated\n"
    origin = f"converted from {card.origin}" if card.origin else "trained"
    text = (
        f"# {card.name}\n\nA model that {card.task}, {origin} with levelfield {__version__}.\n\n"
        f"| | |\n|---|---|\n{rows}\n## Data and licences\n\n{data}"
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


Notes = Callable[[str], object]
"""Called with what the user should know."""


class Account(TypedDict, total=False):
    """What a training tells.

    Attributes:
        sources: for the card: what the data are and their licence, a line each.
        notes: called with what the user should know.
        progress: called with steps done.
    """

    sources: Sequence[str]
    notes: Notes
    progress: Progress


@dataclass(frozen=True)
class Workplace:
    """Where and how a model is trained.

    Attributes:
        out: the folder of the model.
        progress: called with steps done.
    """

    out: Path
    device: torch.device
    notes: Notes
    progress: Progress

    @property
    def checkpoint(self) -> Path:
        """The folder of the checkpoint; it is there."""
        return self.out / "training"


@dataclass(frozen=True)
class Trained:
    """A model that is saved in its folder.

    Attributes:
        summary: what it does, in a few words, for the card.
        facts: rows of the card.
        history: of the training, empty where there are no steps.
    """

    summary: str
    facts: Mapping[str, str]
    history: list[HistoryRow]


def build(
    train: Callable[[Any, Workplace], Trained],
    spec: Any,
    data: str,
    out: Path,
    *,
    what: str = "model",
    **account: Unpack[Account],
) -> list[HistoryRow]:
    """Leaves a model folder with a card at `out`; returns the history of the training.

    Checkpoints lie in `out/training` until the model is done; run again after a kill, it goes on
    from there. A folder that holds the finished model of the same run is left as it is.

    Args:
        train: trains a model by a spec and saves it in the workplace's folder.
        spec: what to train: its `start`, its `loading`, and a `seed` or a `recipe` that has one.
        data: the digest of what is learnt from.
        what: names the model in the note that it is there already.
        account: sources for the card, and what is called while it is made.

    Raises:
        UserError, ModelError: nothing to train on, a folder with something else in it, a model to
            begin from that is missing or of another kind.
    """
    notes: Notes = account.get("notes", lambda _: None)
    quiet()
    device = pick_device(spec.loading.device)
    if hasattr(spec, "settled"):
        spec = spec.settled(device.type == "cuda")
    run = run_of(spec, data)
    if (history := opened(out, run)) is not None:
        notes(f"{out} holds this {what} already")
        return history
    trained = train(spec, Workplace(out, device, notes, account.get("progress", no_progress)))
    seed = spec.recipe.seed if hasattr(spec, "recipe") else spec.seed
    made_with = f"PyTorch {torch.__version__}, Python {platform.python_version()}"
    facts = {**trained.facts, "Seed": str(seed), "Made with": made_with}
    write_card(Card(out.name, trained.summary, facts, tuple(account.get("sources", ()))), out)
    close(out, run, trained.history)
    return trained.history


@dataclass(frozen=True)
class Beginning:
    """A model before its first step; the same one every time.

    Attributes:
        summary: what it will do, in a few words.
        start: what it begins from, for the card.
        reads: what a step reads: `16 pairs`.
        save: saves the trained model, and returns what the card says of it.
        facts: rows for the card on the data and the model.
    """

    summary: str
    model: torch.nn.Module
    task: TrainingTask
    start: str
    reads: str
    save: Callable[[HistoryRow], Mapping[str, str]]
    facts: Mapping[str, str]


def stepwise(begin: Callable[[Any, Workplace], Beginning]) -> Callable[[Any, Workplace], Trained]:
    """Returns the training of a kind that is told by how it begins: by its recipe, step by step."""

    def train(spec: Any, place: Workplace) -> Trained:
        beginning, recipe = begin(spec, place), spec.recipe
        model = beginning.model
        history = fit(model, beginning.task, recipe, place.checkpoint, progress=place.progress)
        is_cpu = place.device.type == "cpu"
        facts = {
            "Parameters": f"{sum(p.numel() for p in model.parameters()):,}",
            "Begun from": beginning.start,
            **beginning.facts,
            "Steps": f"{recipe.steps:,} of {beginning.reads}",
            "Learning rate": f"{recipe.learning_rate:g}",
            "Precision": recipe.precision,
            "Trained on": "CPU" if is_cpu else torch.cuda.get_device_name(place.device),
            "Time": f"{history[-1].seconds / 60:.0f} minutes",
            **beginning.save(history[-1]),
        }
        return Trained(beginning.summary, facts, history)

    return train


def start_of(spec: Any) -> str:
    """Returns what a model begins from, for its card."""
    return spec.start or f"random weights, seed {spec.recipe.seed}"

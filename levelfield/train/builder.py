"""From data to the folder of a trained model: one way for all kinds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from levelfield.core.errors import UserError
from levelfield.core.options import choices
from levelfield.core.progress import Progress, no_progress
from levelfield.io import atomic_writer
from levelfield.io.json_input import read_json
from levelfield.io.writing import folder_replacement, is_temporary
from levelfield.models.loading import quiet
from levelfield.models.resolve import resolve
from levelfield.models.torch.loading import pick_device
from levelfield.train.checkpoint import CHECKPOINT
from levelfield.train.loop import HISTORY, HistoryRow, TrainingTask, fit
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


RECORD = "training.json"
BEGUN = "run.json"
"""Says in the folder of checkpoints what is trained: kinds without steps leave no checkpoint."""
STAGE = "stage-"
"""Names of folders begin so in which later stages of a training leave their checkpoints."""
Run = Mapping[str, Any]


_LATER = {"depth": 0}
"""Option that specs did not always have -> the value with which it is not recorded, so that a model
that was finished before is still known as the same one."""


def run_of(spec: Any, data: str) -> Run:
    """Returns what a finished model was made with, as JSON has it: its spec, without how its start
    was loaded, the revision it began from, and the digest of the data."""
    made_with = dataclasses.asdict(spec)
    del made_with["loading"]
    if "allow_pickle" in choices(type(spec)):
        made_with["allow_pickle"] = spec.loading.allow_pickle
    for name, usual in _LATER.items():
        if made_with.get(name) == usual:
            del made_with[name]
    if spec.start:
        made_with["start"] = resolve(spec.start, spec.loading).label
    run: Run = json.loads(json.dumps({"spec": made_with, "data": data}))
    return run


def opened(out: Path, run: Run) -> list[HistoryRow] | None:
    """Returns the history of this run's finished model; None where it is yet to be trained, in
    `out/training`, which is there then.

    Raises:
        UserError: the folder holds something else.
    """
    training = out / "training"
    if (history := _finished(out, run)) is not None:
        shutil.rmtree(training, ignore_errors=True)
        return history
    if out.exists() and not _may_be_trained_in(out):
        raise UserError(f"{out} is not empty and holds no run of this kind; give another folder")
    try:
        training.mkdir(parents=True, exist_ok=True)
        (training / BEGUN).write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out}: can't be written: {error.strerror}") from error
    return None


def close(out: Path, run: Run, history: Sequence[HistoryRow]) -> None:
    """Says that the model is finished, last and as a whole, and removes the checkpoint."""
    about = {**run, "history": [dataclasses.asdict(row) for row in history]}
    with atomic_writer(out / RECORD) as file:
        file.write(json.dumps(about, indent=1) + "\n")
    shutil.rmtree(out / "training")


def saved_tokenizer(folder: Path, train: Callable[[], Any]) -> Any:
    """Returns the tokenizer in a folder, trained and saved there as a whole if it is not there
    yet."""
    from transformers import AutoTokenizer

    if not folder.is_dir():
        tokenizer = train()
        with folder_replacement(folder) as path:
            tokenizer.save_pretrained(path)
    return AutoTokenizer.from_pretrained(folder, local_files_only=True)


def save_model(model: Any, tokenizer: Any, out: Path, *, half: bool = False) -> None:
    """Saves a model of `transformers`, its weights in one file, and its tokenizer."""
    (model.half() if half else model).save_pretrained(out, max_shard_size="1TB")
    tokenizer.save_pretrained(out)


def digest_of_weights(model: Any) -> str:
    """Names the weights that training begins from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


def _may_be_trained_in(out: Path) -> bool:
    """Returns whether a folder is empty, or was left by a run: its checkpoints say so."""
    if not out.is_dir():
        return False
    training = out / "training"
    left = _names(training) if training.is_dir() else set()
    if not left:
        return not _names(out) - {training.name}
    return all(name.startswith((BEGUN, CHECKPOINT, HISTORY, "tokenizer", STAGE)) for name in left)


def _names(folder: Path) -> set[str]:
    """Returns what is in a folder, without the temporary files of a run that was killed."""
    return {path.name for path in folder.iterdir() if not is_temporary(path.name)}


def _finished(out: Path, run: Run) -> list[HistoryRow] | None:
    try:
        about = read_json(out / RECORD)
        same = {name: about[name] for name in run} == run
        return [HistoryRow(**row) for row in about["history"]] if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
        history: of the training; empty if it has no steps.
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
    noun: str = "model",
    **account: Unpack[Account],
) -> list[HistoryRow]:
    """Leaves a model folder with a card at `out`; returns the history of the training.

    Checkpoints lie in `out/training` until the model is done; run again after a kill, it goes on
    from there. A folder that holds the finished model of the same run is left as it is.

    Args:
        train: trains a model by a spec and saves it in the workplace's folder.
        spec: what to train: its `start`, its `loading`, and a `seed` or a `recipe` that has one.
        data: digest of the training data.
        noun: names the model in the note that it already exists.
        account: sources for the card, and callbacks for progress and notes.

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
        notes(f"{out} already holds this {noun}")
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

"""The folder of a model that is trained: what it was made with, and whether it is finished."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import choices
from levelfield.io import atomic_writer
from levelfield.io.json_input import read_json
from levelfield.io.writing import folder_replacement, is_temporary
from levelfield.models.resolve import resolve
from levelfield.train.loop import CHECKPOINT, HISTORY, HistoryRow

RECORD = "training.json"
BEGUN = "run.json"
"""Says in the folder of checkpoints what is trained: kinds without steps leave no checkpoint."""
STAGE = "stage-"
"""Names of folders begin so in which later stages of a training leave their checkpoints."""
Run = Mapping[str, Any]


def run_of(spec: Any, data: str) -> Run:
    """What a finished model was made with, as JSON has it: its spec, without how its start was
    loaded, the revision it began from, and the digest of the data."""
    made_with = dataclasses.asdict(spec)
    del made_with["loading"]
    if "allow_pickle" in choices(type(spec)):
        made_with["allow_pickle"] = spec.loading.allow_pickle
    if spec.start:
        made_with["start"] = resolve(spec.start, spec.loading).label
    run: Run = json.loads(json.dumps({"spec": made_with, "data": data}))
    return run


def opened(out: Path, run: Run) -> list[HistoryRow] | None:
    """The history of this run's finished model; None where it is yet to be trained, in
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
    """The tokenizer in a folder, trained and saved there as a whole if it is not there yet."""
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
    """Whether a folder is empty, or was left by a run: its checkpoints say so."""
    if not out.is_dir():
        return False
    training = out / "training"
    left = _names(training) if training.is_dir() else set()
    if not left:
        return not _names(out) - {training.name}
    return all(name.startswith((BEGUN, CHECKPOINT, HISTORY, "tokenizer", STAGE)) for name in left)


def _names(folder: Path) -> set[str]:
    """What is in a folder, without the temporary files of a run that was killed."""
    return {path.name for path in folder.iterdir() if not is_temporary(path.name)}


def _finished(out: Path, run: Run) -> list[HistoryRow] | None:
    try:
        about = read_json(out / RECORD)
        same = {name: about[name] for name in run} == run
        return [HistoryRow(**row) for row in about["history"]] if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

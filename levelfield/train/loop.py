"""The training loop that all small models share: resumable, deterministic, without pickles.

What a step does depends on the recipe and the step's number alone: a task makes the batch of a step
from (seed, step), dropout is seeded by the same. So a run that was killed and goes on from its last
checkpoint has the loss curve of one that was not.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from levelfield.core.arrays import Codes
from levelfield.core.errors import UserError
from levelfield.core.progress import Progress, no_progress
from levelfield.io.writing import file_replacement
from levelfield.train.checkpoint import TrainingState, damaged, read_checkpoint, write_checkpoint
from levelfield.train.recipe import Recipe

T = TypeVar("T")

HISTORY = "history.jsonl"
MOMENTS = ("exp_avg", "exp_avg_sq")
"""What AdamW keeps of every parameter."""


@dataclass(frozen=True)
class Loss:
    """Summed loss of a batch and over how many predictions it is; the mean is what is minimised."""

    total: torch.Tensor
    count: int


class TrainingTask(Protocol):
    """What is learnt. `identity` names data and choices: a checkpoint of others is refused."""

    @property
    def identity(self) -> str: ...
    def loss(self, model: Any, step: int) -> Loss: ...
    def validation(self, model: Any) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class HistoryRow:
    """One line of the history: `loss` is the mean over the steps since the last line, in nats."""

    step: int
    loss: float
    validation: Mapping[str, float]
    seconds: float


def fit(
    model: torch.nn.Module,
    task: TrainingTask,
    recipe: Recipe,
    folder: Path,
    *,
    progress: Progress = no_progress,
) -> list[HistoryRow]:
    """Trains `model` in place; goes on from the checkpoint in `folder` if there is one.

    The folder holds the checkpoint (weights, AdamW's moments, step) and the history, one JSON
    object a line. Both are replaced as wholes: a kill loses the steps since the last validation.

    Raises:
        UserError: the folder holds another run's checkpoint, or the loss is no longer a number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    device = next(model.parameters()).device
    recipe = recipe.settled(device.type == "cuda")
    run = _identity(task, recipe)
    optimizer = _adamw(model, recipe)
    done, history = _resume(model, optimizer, folder, run)
    progress(done)
    begin, total, count = time.monotonic(), torch.zeros((), device=device), 0
    model.train()
    for step in range(done, recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(step) * group["scale"]
        loss = _step(model, task, recipe, optimizer, step)
        total, count = total + loss.total, count + loss.count
        progress(1)
        last = step + 1 == recipe.steps
        if (step + 1) % recipe.every == 0 or last:
            mean = float(total) / max(1, count)
            if not math.isfinite(mean):
                raise UserError(
                    f"the loss is no longer a number at step {step + 1}; try a lower learning rate"
                )
            seconds = time.monotonic() - begin + (history[-1].seconds if history else 0.0)
            history.append(HistoryRow(step + 1, mean, _validate(model, task), seconds))
            begin, total, count = time.monotonic(), torch.zeros_like(total), 0
            _save(model, optimizer, folder, run, step + 1, history)
    model.eval()
    return history


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Makes PyTorch draw by a seed on all devices; afterwards it draws as if nothing had been."""
    with torch.random.fork_rng(range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


def _step(
    model: torch.nn.Module, task: TrainingTask, recipe: Recipe, optimizer: Any, step: int
) -> Loss:
    device = next(model.parameters()).device
    low = recipe.precision == "bfloat16"
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(recipe.seed * 1_000_003 + step)  # dropout's
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            loss = task.loss(model, step)
        torch.autograd.backward(loss.total / max(1, loss.count))
    torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return Loss(loss.total.detach().float(), loss.count)


def _validate(model: torch.nn.Module, task: TrainingTask) -> Mapping[str, float]:
    model.eval()
    with torch.inference_mode():
        figures = task.validation(model)
    model.train()
    return figures


def _adamw(model: torch.nn.Module, recipe: Recipe) -> torch.optim.AdamW:
    embeddings = _input_embeddings(model)
    rest = [p for p in model.parameters() if p.requires_grad and p is not embeddings]
    embedding_list = [] if embeddings is None else [embeddings]
    matrices = [p for p in rest if p.ndim > 1]
    vectors = [p for p in rest if p.ndim <= 1]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "scale": 1.0, "weight_decay": recipe.weight_decay},
        {"params": vectors, "scale": 1.0, "weight_decay": 0.0},
        {"params": embedding_list, "scale": recipe.embeddings, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98), fused=True)


def _input_embeddings(model: torch.nn.Module) -> torch.nn.Parameter | None:
    """Returns the table of token embeddings, if the model has one and it is learnt."""
    if not isinstance(model, PreTrainedModel):
        return None
    weight = model.get_input_embeddings().weight
    return weight if isinstance(weight, torch.nn.Parameter) and weight.requires_grad else None


def _identity(task: TrainingTask, recipe: Recipe) -> str:
    choices = json.dumps([task.identity, dataclasses.asdict(recipe)], sort_keys=True)
    return hashlib.sha256(choices.encode()).hexdigest()


# -- checkpoints


def _named(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def _save(
    model: torch.nn.Module,
    optimizer: torch.optim.AdamW,
    folder: Path,
    run: str,
    step: int,
    history: list[HistoryRow],
) -> None:
    tensors = {}
    for name, parameter in _named(model):
        tensors[f"weight {name}"] = parameter.detach().contiguous()
        if state := optimizer.state.get(parameter):  # none where no gradient ever came
            for moment in MOMENTS:
                tensors[f"{moment} {name}"] = state[moment].contiguous()
    lines = "".join(json.dumps(dataclasses.asdict(row)) + "\n" for row in history)
    with file_replacement(folder / HISTORY) as path:
        path.write_text(lines, encoding="utf-8")
    write_checkpoint(folder, run, TrainingState(tensors, {"step": str(step), "history": lines}))


def _resume(
    model: torch.nn.Module, optimizer: torch.optim.AdamW, folder: Path, run: str
) -> tuple[int, list[HistoryRow]]:
    checkpoint = read_checkpoint(folder, run)
    if checkpoint is None:
        return 0, []
    tensors, about = checkpoint
    step = int(about["step"])
    try:
        for name, parameter in _named(model):
            parameter.data.copy_(tensors[f"weight {name}"])
            if f"{MOMENTS[0]} {name}" in tensors:
                optimizer.state[parameter] = {
                    "step": torch.tensor(float(step), device=parameter.device),
                    **{m: tensors[f"{m} {name}"].to(parameter.device) for m in MOMENTS},
                }
    except (KeyError, RuntimeError) as error:
        raise damaged(folder, f"it does not fit the model: {error}") from error
    history = [HistoryRow(**json.loads(line)) for line in about["history"].splitlines()]
    return step, history


def last_kept(make: Callable[[int], T]) -> Callable[[int], T]:
    """Returns a function of a number that keeps its last value: the batches of a pass or a pool,
    which steps go through one after the other."""
    return functools.lru_cache(maxsize=1)(make)


POOL = 50
"""Number of batches whose texts are sorted by length together."""


@dataclass(frozen=True)
class Passes:
    """Batches of texts, pass after pass.

    Every pass has all texts, each as often as it is to be learnt from, in an order of its own.
    Texts of `POOL` batches are sorted by length, so that little of a batch is padding, and the
    batches of a pool come in random order.

    Attributes:
        times: (texts,) how often each is learnt from in a pass.
        lengths: of each text, in tokens.
        batch: texts a step.
        seed: of the orders.
    """

    times: Codes
    lengths: Sequence[int]
    batch: int
    seed: int

    def rows(self, step: int) -> Codes:
        """Returns the texts of a step."""
        each = -(-len(self._repeated) // self.batch)
        epoch, index = divmod(step, each)
        return self._batches(epoch)[index]

    @functools.cached_property
    def _repeated(self) -> Codes:
        return np.repeat(np.arange(len(self.times)), self.times)

    @functools.cached_property
    def _batches(self) -> Callable[[int], list[Codes]]:
        return last_kept(self._order)

    def _order(self, epoch: int) -> list[Codes]:
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(self._repeated)
        batches = []
        for begin in range(0, len(order), POOL * self.batch):
            pool = order[begin : begin + POOL * self.batch]
            pool = pool[np.argsort([self.lengths[i] for i in pool], kind="stable")]
            pool_batches = [pool[i : i + self.batch] for i in range(0, len(pool), self.batch)]
            batches += [pool_batches[i] for i in rng.permutation(len(pool_batches))]
        return batches

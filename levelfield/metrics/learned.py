"""BLEURT and COMET: models trained on people's ratings that compare a text with another.

Each is two metrics: `.source` compares the text with what it was made from, `.references` with what
people wrote for the same input (Mao 2021, "Evaluation for automatic text style transfer", section
3.2.1, does both). BLEURT runs here, as any sequence classifier does. COMET wants older versions of
what we run on, so it runs in an environment of its own, which `levelfield environment create comet`
makes.
"""

from __future__ import annotations

import abc
import atexit
import contextlib
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from levelfield.core.arrays import Bools, Floats
from levelfield.core.errors import ModelError
from levelfield.core.options import Options, group, option
from levelfield.core.paths import user_path
from levelfield.core.sample import Sample
from levelfield.core.undefined import EMPTY_SOURCE, UNREADABLE, Undefined
from levelfield.metrics import environments
from levelfield.metrics.environments import Environment, Worker
from levelfield.metrics.sample_metric import (
    AgainstReferences,
    AgainstSource,
    ComparedTexts,
    PairComparison,
    PairValue,
)
from levelfield.models.load import load
from levelfield.models.loading import AS_USUAL, Loading, LoadingOptions
from levelfield.models.resolve import Resolved, folder_digest, from_hub, resolve
from levelfield.models.tokens import AS_TEXT


class _LearnedMetric(PairComparison, abc.ABC):
    """A metric whose model gives each comparison a number."""

    @abc.abstractmethod
    def _values(self, pairs: Sequence[ComparedTexts]) -> tuple[Floats, Bools]:
        """Returns a value for each, NaN if the model can't read it; and whether it was cut."""

    @property
    def _reference_choice(self) -> Mapping[str, object]:
        return {"references": self._rule} if self.against == "references" else {}

    def _compared(self, pairs: Sequence[ComparedTexts]) -> list[PairValue | Undefined]:
        values, cut = self._values(pairs)
        return [
            Undefined(UNREADABLE) if np.isnan(value) else PairValue(value, bool(is_cut))
            for value, is_cut in zip(values.tolist(), cut, strict=True)
        ]


@dataclass(frozen=True)
class _OverReferences(_LearnedMetric, AgainstReferences, abc.ABC):
    """A metric whose value of several references is a choice."""

    references: Literal["max", "mean"] = option(
        "max", "Value of several references: the largest of their values, or the mean."
    )

    @property
    def _rule(self) -> Literal["max", "mean"]:
        return self.references


@dataclass(frozen=True)
class _BLEURT(LoadingOptions, _LearnedMetric, abc.ABC):
    """Base of both metrics."""

    model: str = option(
        "Elron/bleurt-base-512",
        "BLEURT checkpoint for `transformers`, a hub name or a folder: a sequence classifier with"
        " one output over (reference, text). The weights of Elron/bleurt-* are pickled and need "
        "allow_pickle.",
    )

    @property
    def _resolved(self) -> Resolved:
        resolved = resolve(self.model, self.loading)
        if resolved.kind != "classifier":
            raise ModelError(
                f"model '{self.model}' is a {resolved.kind} model; {self.name} needs a checkpoint "
                "of BLEURT, for example Elron/bleurt-base-512; give --model NAME"
            )
        return resolved

    def _choices(self) -> Mapping[str, object]:
        return {"model": self._resolved.label, **self._reference_choice, **AS_TEXT}

    def _values(self, pairs: Sequence[ComparedTexts]) -> tuple[Floats, Bools]:
        regressor = load("regressor", self.model, self.loading)
        return regressor.values([(pair.other, pair.text) for pair in pairs])


@dataclass(frozen=True)
class BLEURTSource(_BLEURT, AgainstSource):
    """BLEURT of each text, its source taken as the reference.

    v = w · h_[CLS](source, text) + b, h of a BERT that was trained on synthetic pairs and then on
    people's ratings of translations (Sellam, Das and Parikh 2020, "BLEURT: Learning Robust Metrics
    for Text Generation", section 3). No bounds: the scale is the checkpoint's. Higher is better.

    Undefined: `empty text`; `empty source`; nothing in one of the two that the model can read. A
    pair longer than the model's limit loses the end of its longer text, and counts as truncated.
    """

    name: ClassVar[str] = "bleurt.source"


@dataclass(frozen=True)
class BLEURTReferences(_OverReferences, _BLEURT):
    """BLEURT of each text given its references.

    v = w · h_[CLS](reference, text) + b, as for `bleurt.source`; higher is better.

    Undefined: `empty text`; `no references`; nothing in the text, or in any reference, that the
    model can read. Blank references among good ones are left out. Long texts: as `bleurt.source`.
    """

    name: ClassVar[str] = "bleurt.references"


class Checkpoint(NamedTuple):
    """A COMET checkpoint on this machine."""

    label: str
    path: Path


_COMET_FILES = ("hparams.yaml", "checkpoints/model.ckpt")


@functools.lru_cache(maxsize=8)
def _checkpoint(name: str) -> Checkpoint:
    """Returns the files of a COMET model by name: a folder, or a hub name, optionally
    `name@revision`.

    Raises:
        ModelError: no such model, no network, or no COMET model.
    """
    folder = user_path(name)
    if folder.is_dir():
        label, revision = folder.resolve().name, ""
    else:
        instead = "`levelfield metrics` lists metrics that need no model from the hub"
        label, folder, revision = from_hub(name, _COMET_FILES, instead=instead)
    lacking = [file for file in _COMET_FILES if not (folder / file).is_file()]
    if lacking:
        raise ModelError(
            f"model '{name}' is not a checkpoint of COMET: {folder} has no {lacking[0]}; one such "
            "is Unbabel/wmt22-comet-da"
        )
    revision = revision or folder_digest(folder, (".yaml", ".ckpt"))
    return Checkpoint(f"{label}@{revision[:12]}", folder / _COMET_FILES[1])


@dataclass(frozen=True)
class _COMET(Options, _LearnedMetric, abc.ABC):
    """Base of both metrics."""

    model: str = option(
        "Unbabel/wmt22-comet-da",
        "COMET checkpoint: a hub name, or a folder with hparams.yaml and checkpoints/model.ckpt. "
        "It is pickled, so it needs allow_pickle; its encoder's tokenizer and configuration must "
        "be on this machine too, or come from the hub. comet.references requires one that reads "
        "references.",
    )
    batch: int = option(
        16,
        "Number of texts that go through the model together; the values do not depend on it.",
        least=1,
    )
    loading: Loading = group(AS_USUAL, without=("dtype", "batch_tokens", "engine"))
    environment: str = option(
        "",
        "Folder of the environment of COMET.",
        otherwise="the one that `levelfield environment create comet` makes",
        metavar="DIR",
    )

    @property
    def _found(self) -> tuple[Environment, Checkpoint]:
        environment = environments.find("comet", self.environment)
        if not self.loading.allow_pickle:
            raise ModelError(
                f"model '{self.model}' has pickled weights, like all checkpoints of COMET, and "
                "unpickling can run any code; trust it with --allow-pickle"
            )
        return environment, _checkpoint(self.model)

    def _choices(self) -> Mapping[str, object]:
        environment, checkpoint = self._found
        choices = {"model": checkpoint.label, "comet": environment.version}
        return {**choices, **self._reference_choice, "dtype": "float32"}

    @abc.abstractmethod
    def _read(self, pair: ComparedTexts, references: str) -> dict[str, str]:
        """Returns the texts that the model reads; references: `required`, `optional`, or `none`."""

    def _values(self, pairs: Sequence[ComparedTexts]) -> tuple[Floats, Bools]:
        worker, references = _comet(*self._found)
        inputs = [self._read(pair, references) for pair in pairs]
        answer = worker.ask({"score": inputs, "batch": self.batch, "device": self.loading.device})
        try:
            values = np.array(answer["values"], np.float64)
            cut = np.array(answer["cut"], np.bool_)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"comet answered with something else: {str(answer)[:200]}") from error
        if values.shape != (len(inputs),) or cut.shape != values.shape:
            raise ModelError(f"comet gave {values.size} values for {len(inputs)} texts")
        return values, cut


@dataclass(frozen=True)
class COMETSource(_COMET, AgainstSource):
    """COMET of each text and its source.

    v = FFN([h, r, h ⊙ s, h ⊙ r, |h − s|, |h − r|]), s, h, r the pooled embeddings of source, text
    and reference (Rei, Stewart, Farinha and Lavie 2020, "COMET: A Neural Framework for MT
    Evaluation", section 2.3). A checkpoint that requires a reference is given the source as one,
    r = s; any other reads source and text alone, as the reference-free ones (COMETKiwi) were
    trained to. About 0 to 1 for checkpoints of 2022 and later; higher is better.

    Undefined: `empty text`; `empty source`. A text longer than the encoder's limit (508 tokens of
    XLM-R) loses its end, and counts as truncated.
    """

    name: ClassVar[str] = "comet.source"

    def _read(self, pair: ComparedTexts, references: str) -> dict[str, str]:
        read = {"src": pair.other, "mt": pair.text}
        return {**read, "ref": pair.other} if references == "required" else read


@dataclass(frozen=True)
class COMETReferences(_OverReferences, _COMET):
    """COMET of each text, its source and its references.

    v as for `comet.source`, with a reference that people wrote; higher is better. COMET reads the
    source here as well: a sample without one has no value.

    Undefined: `empty text`; `empty source`; `no references`. Blank references among good ones are
    left out. Long texts: as `comet.source`.
    """

    name: ClassVar[str] = "comet.references"
    requires: ClassVar[frozenset[str]] = frozenset({"text", "source", "references"})

    def _pairs(self, sample: Sample) -> list[ComparedTexts] | Undefined:
        if sample.text.strip() and not sample.source.strip():
            return Undefined(EMPTY_SOURCE)
        return super()._pairs(sample)

    def _read(self, pair: ComparedTexts, references: str) -> dict[str, str]:
        if references == "none":
            raise ModelError(f"model '{self.model}' reads no references; use --metric comet.source")
        return {"src": pair.sample.source, "mt": pair.text, "ref": pair.other}


_RUNNING: dict[tuple[Any, ...], tuple[Worker, str]] = {}
"""Workers with their models loaded, and how each takes references; one a process, as a pipe is."""


def _comet(environment: Environment, checkpoint: Checkpoint) -> tuple[Worker, str]:
    """Returns a worker with the checkpoint loaded, and whether it takes references.

    Raises:
        ModelError: it does not start, or the checkpoint can't be loaded.
    """
    key = (os.getpid(), environment.path, checkpoint.path)
    if key in _RUNNING and _RUNNING[key][0].is_running:
        return _RUNNING[key]
    worker = Worker(environment, Path(environments.__file__).with_name("comet_worker.py"))
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    try:
        loaded = worker.ask({"load": str(checkpoint.path), "offline": offline})
        if loaded.get("version") != environment.version:
            raise ModelError(
                f"{environment.path} has comet {loaded.get('version')}, but was made with "
                f"{environment.version}; `levelfield environment remove comet`, then create it anew"
            )
    except BaseException:
        worker.close()
        raise
    _RUNNING[key] = worker, str(loaded.get("references"))
    return _RUNNING[key]


@atexit.register
def _close() -> None:
    for (pid, *_), (worker, _) in _RUNNING.items():
        if pid == os.getpid():
            with contextlib.suppress(OSError):
                worker.close()

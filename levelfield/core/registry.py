"""The installed metrics: found by name, made from what the user wrote."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

from levelfield.core.corpus import OfScores
from levelfield.core.errors import UserError
from levelfield.core.extensions import METRICS, entries, load_foreign
from levelfield.core.metric import Metric, check_metric, guarded
from levelfield.core.options import Declaration, choices, make, parsed, required, underscored
from levelfield.core.strings import did_you_mean

_WORD = re.compile(r"(?P<path>.+\.py)(?::(?P<cls>.*))?", re.DOTALL)
FILE_MARK = "|file:"
"""What the mark of a metric's file in a signature begins with."""

_withheld: ContextVar[bool] = ContextVar("_withheld", default=False)


class WithheldFileError(UserError):
    """A metric's file would have to run where nothing may."""


@contextlib.contextmanager
def files_withheld() -> Iterator[None]:
    """Runs no file of a metric within the block: loading it raises `WithheldFileError`.

    What reads files of others, such as a study file, reads them here.
    """
    token = _withheld.set(True)
    try:
        yield
    finally:
        _withheld.reset(token)


@dataclass(frozen=True)
class MetricFile:
    """A class in a file.

    Attributes:
        path: of the file.
        cls: the name of the class; empty where the user names none.
    """

    path: Path
    cls: str

    @classmethod
    def parse(cls, word: str) -> MetricFile | None:
        """Returns what `PATH.py:CLASS` names; None for any other word."""
        match = _WORD.fullmatch(word)
        return cls(Path(match["path"]), match["cls"] or "") if match else None

    def __str__(self) -> str:
        return f"{self.path}:{self.cls}"

    @property
    def mark(self) -> str:
        """The end of the signature of its metric: the file's name and a digest of its content.

        Raises:
            UserError: there is no such file.
        """
        return _mark(self.path, self._content())

    def load(self) -> type:
        """Returns the class. This runs the file.

        Its `signature` also names the file and a digest of its content, so that values of an
        edited file are never taken from the cache.

        Raises:
            UserError: there is no such file or no such class of a metric in it.
            WithheldFileError: it is loaded within `files_withheld`.
            Exception: whatever the file raises when it runs.
        """
        if _withheld.get():
            raise WithheldFileError(f"metric '{self}': its file is not run here")
        classes = _classes(self.path.absolute(), self._content())
        if self.cls in classes:
            return classes[self.cls]
        names = [f"{self.path}:{name}" for name in classes]
        raise UserError(
            f"metric '{self}': {self.path} has no such metric; "
            + (f"there is {', '.join(names)}" if names else "a metric is a class with a `score`")
        )

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise UserError(
                f"metric '{self}': {self.path}: {error.strerror or error}; check the path"
            ) from None


def _mark(path: Path, content: bytes) -> str:
    return f"{FILE_MARK}{path.name}|sha256:{hashlib.sha256(content).hexdigest()[:12]}"


@functools.lru_cache(maxsize=32)
def _classes(path: Path, content: bytes) -> Mapping[str, type]:
    """Returns the classes of metrics in a file, by name."""
    module = _module(path, content)
    mark = _mark(path, content)
    return {
        name: _marked(cls, mark, functools.partial(_new, path, content, name))
        for name, cls in vars(module).items()
        if inspect.isclass(cls)
        and cls.__module__ == module.__name__
        and callable(getattr(cls, "score", None))
    }


def _module(path: Path, content: bytes) -> ModuleType:
    """Returns the module that the file makes when it runs."""
    digest = hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()
    name = f"_levelfield_file_{digest[:16]}"
    spec = importlib.util.spec_from_loader(name, loader=None, origin=str(path))
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module  # where dataclasses and pickle look for the names of a class
    try:
        exec(compile(content, str(path), "exec"), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _new(path: Path, content: bytes, name: str) -> object:
    """Returns an empty object of a class in a file, wherever it is unpickled."""
    cls = _classes(path, content)[name]
    return object.__new__(cls)


def _marked(cls: type[Any], mark: str, new: Callable[[], Any] | None = None) -> type:
    """Returns the class with the mark at the end of its signature and of those of what it reads.

    Args:
        new: what pickles begin from, since no module has the marked class; without it there are no
            pickles.
    """

    def signature(self: Any) -> str:
        plain: str = super(marked, self).signature  # type: ignore[arg-type]
        return plain + mark

    def of_samples(self: Any) -> Metric:
        read: Metric = copy.copy(super(marked, self).of_samples)  # type: ignore[arg-type]
        object.__setattr__(read, "__class__", _marked(type(read), mark))  # frozen as it may be
        return read

    members: dict[str, Any] = {
        "signature": property(signature),
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    if new is not None:
        members["__reduce_ex__"] = lambda self, _: (new, (), object.__reduce_ex__(self, 2)[2])
    if issubclass(cls, OfScores):
        members["of_samples"] = property(of_samples)
    marked = type(cls.__name__, (cls,), members)
    return marked


def installed() -> Mapping[str, EntryPoint]:
    """Returns name -> entry point of every installed metric, sorted by name."""
    return entries(METRICS)


def matching(name: str) -> tuple[str, ...]:
    """Returns the metrics of a name: itself, or all members of a family such as `ctrleval`.

    `PATH.py:CLASS` stands for the class in that file.
    """
    if MetricFile.parse(name):
        return (name,)
    names = tuple(installed())
    members = tuple(n for n in names if n == name or n.startswith(f"{name}."))
    if not members:
        lists = "`levelfield metrics` lists them"
        hint = did_you_mean(name, names, most=3, cutoff=0.4, otherwise=lists)
        raise UserError(f"there is no metric '{name}'; {hint}")
    return members


def is_metric(name: str) -> bool:
    """Returns whether a name is that of a metric, a family or a class in a file."""
    is_installed = any(n == name or n.startswith(f"{name}.") for n in installed())
    return is_installed or name in _in_files or MetricFile.parse(name) is not None


def metric_class(name: str) -> Callable[..., Metric]:
    """Returns the class (or factory) behind one metric's name."""
    file = MetricFile.parse(name)
    if file is None and name not in installed():
        if name in _in_files:
            return _in_files[name]
        raise UserError(f"'{name}' is a family of metrics: {', '.join(matching(name))}")
    origin = str(file.path) if file else installed()[name].value
    failure = f"metric '{name}' can't be loaded from {origin}"
    factory: Callable[..., Metric] = load_foreign((file or installed()[name]).load, failure)
    if not callable(factory):
        raise UserError(f"metric '{name}' can't be loaded: {origin} is not a class")
    if file:
        _in_files[str(getattr(factory, "name", name))] = factory
    return factory


_in_files: dict[str, Callable[..., Metric]] = {}
"""Metrics of files that this process has loaded, by the names that their values go by."""


def options(metric: Callable[..., Metric], *, name: str = "") -> dict[str, Declaration]:
    """Returns the options of a metric's class by name.

    Raises:
        MetricError: the class can't be asked.
    """
    with guarded(metric, "can't report its options", name=name):
        return choices(metric)


def create(
    names: Sequence[str], common: Mapping[str, Any], words: Mapping[str, object]
) -> list[Metric]:
    """Returns the metrics of these names, each with its options.

    Args:
        names: names of metrics, no families.
        common: options with their values; a metric that does not have one is made without it.
        words: options as the user wrote them, or values; one that no metric has is the user's
            mistake.
            `METRIC:NAME` or `FAMILY:NAME` is of these metrics alone, and goes before `NAME`.
    """
    declared = {n: options(metric_class(n), name=n) for n in names}
    words = underscored(words)
    words_of_metrics = {name: _words_of(name, words) for name in names}
    for word in words:
        scope, _, option = word.rpartition(":")
        candidates = {n: declared[n] for n in names if not scope or _is_of(n, scope)}
        if not candidates:
            raise UserError(f"--option {word}=…: '{scope}' is not one of {', '.join(names)}")
        if not any(option in parameters for parameters in candidates.values()):
            options_there = sorted({p for parameters in candidates.values() for p in parameters})
            raise UserError(
                f"no option '{option}' in {', '.join(candidates)}; there are {options_there}"
            )
    metrics = []
    for name, choices_of_metric in declared.items():
        values = {k: v for k, v in common.items() if k in choices_of_metric}
        values |= parsed(name, choices_of_metric, words_of_metrics[name])
        if missing := required(choices_of_metric, values):
            raise UserError(f"metric '{name}' needs --option {missing[0]}=…")
        metric_type = metric_class(name)
        with guarded(metric_type, "can't be created", name=name):
            metric = make(metric_type, values)
        check_metric(metric, name=name)
        metrics.append(metric)
    return metrics


def _words_of(name: str, words: Mapping[str, object]) -> dict[str, Any]:
    """Returns the options among `words` that are for a metric; what names it more closely wins."""
    values: dict[str, Any] = {}
    for word in sorted(words, key=lambda word: len(word.rpartition(":")[0])):
        scope, _, option = word.rpartition(":")
        if not scope or _is_of(name, scope):
            values[option] = words[word]
    return values


def _is_of(name: str, scope: str) -> bool:
    """Returns whether a metric is what a word names: itself or a member of the family."""
    full_name = str(getattr(metric_class(name), "name", name)) if MetricFile.parse(name) else name
    return scope in (name, full_name) or full_name.startswith(f"{scope}.")

"""Metrics in files: `PATH.py:CLASS` is a metric that no package announces."""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from levelfield.core.corpus import OfScores
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric

_WORD = re.compile(r"(?P<path>.+\.py)(?::(?P<cls>.*))?", re.DOTALL)


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

    def load(self) -> type:
        """Returns the class.

        Its `signature` also names the file and a digest of its content, so that values of an
        edited file are never taken from the cache.

        Raises:
            UserError: there is no such file or no such class of a metric in it.
            Exception: whatever the file raises when it runs.
        """
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise UserError(
                f"metric '{self}': {self.path}: {error.strerror or error}; check the path"
            ) from None
        return _classes(self.path.absolute(), content).named(self)


@dataclass(frozen=True)
class _Classes:
    """The classes of metrics in a file, by name."""

    by_name: dict[str, type]

    def named(self, wanted: MetricFile) -> type:
        if wanted.cls in self.by_name:
            return self.by_name[wanted.cls]
        there = [f"{wanted.path}:{name}" for name in self.by_name]
        raise UserError(
            f"metric '{wanted}': {wanted.path} has no such metric; "
            + (f"there is {', '.join(there)}" if there else "a metric is a class with a `score`")
        )


@functools.lru_cache(maxsize=32)
def _classes(path: Path, content: bytes) -> _Classes:
    module = _module(path, content)
    mark = f"|file:{path.name}|sha256:{hashlib.sha256(content).hexdigest()[:12]}"
    return _Classes(
        {
            name: _marked(cls, mark, functools.partial(_new, path, content, name))
            for name, cls in vars(module).items()
            if inspect.isclass(cls)
            and cls.__module__ == module.__name__
            and callable(getattr(cls, "score", None))
        }
    )


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
    cls = _classes(path, content).by_name[name]
    return object.__new__(cls)


def _marked(cls: type[Any], mark: str, new: Callable[[], Any] | None = None) -> type:
    """Returns the class with the mark at the end of its signature and of those of what it reads.

    Args:
        new: what pickles begin from, since no module has the marked class; without it there are no
            pickles.
    """

    def signature(self: Any) -> str:
        own: str = super(marked, self).signature  # type: ignore[arg-type]
        return own + mark

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

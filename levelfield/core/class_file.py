"""Classes in files that users name as `PATH.py:CLASS`: metrics and techniques of their own."""

from __future__ import annotations

import abc
import contextlib
import copy
import functools
import hashlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self

from levelfield.core.corpus import OfScores
from levelfield.core.errors import UserError
from levelfield.core.metric import Metric

_WORD = re.compile(r"(?P<path>.+\.py)(?::(?P<cls>.*))?", re.DOTALL)
FILE_MARK = "|file:"
"""What the mark of a file in a signature begins with."""

_withheld: ContextVar[bool] = ContextVar("_withheld", default=False)


class WithheldFileError(UserError):
    """A file would have to run where nothing may."""


@contextlib.contextmanager
def files_withheld() -> Iterator[None]:
    """Runs no file of a class within the block: loading it raises `WithheldFileError`.

    What reads files of others, such as a study file, reads them here.
    """
    token = _withheld.set(True)
    try:
        yield
    finally:
        _withheld.reset(token)


@dataclass(frozen=True)
class ClassFile(abc.ABC):
    """A class in a file.

    Attributes:
        path: of the file.
        cls: the name of the class; empty where the user names none.
        kind: what the class is.
        method: a method that every class of the kind has.
    """

    path: Path
    cls: str
    kind: ClassVar[str]
    method: ClassVar[str]

    @classmethod
    def parse(cls, word: str) -> Self | None:
        """Returns what `PATH.py:CLASS` names; None for any other word."""
        match = _WORD.fullmatch(word)
        return cls(Path(match["path"]), match["cls"] or "") if match else None

    def __str__(self) -> str:
        return f"{self.path}:{self.cls}"

    @property
    def mark(self) -> str:
        """The end of the signatures of its class: the file's name and a digest of its content.

        Raises:
            UserError: there is no such file.
        """
        return _mark(self.path, self._content())

    def load(self) -> type:
        """Returns the class. This runs the file.

        Its `signature` also names the file and a digest of its content, so that values of an
        edited file are never taken from the cache.

        Raises:
            UserError: there is no such file or no such class of the kind in it.
            WithheldFileError: it is loaded within `files_withheld`.
            Exception: whatever the file raises when it runs.
        """
        if _withheld.get():
            raise WithheldFileError(f"{self.kind} '{self}': its file is not run here")
        classes = _classes(self.path.absolute(), self._content(), self.method)
        if self.cls in classes:
            return classes[self.cls]
        names = [f"{self.path}:{name}" for name in classes]
        raise UserError(
            f"{self.kind} '{self}': {self.path} has no such {self.kind}; "
            + (
                f"there is {', '.join(names)}"
                if names
                else f"a {self.kind} is a class with a `{self.method}`"
            )
        )

    def _content(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise UserError(
                f"{self.kind} '{self}': {self.path}: {error.strerror or error}; check the path"
            ) from None


def _mark(path: Path, content: bytes) -> str:
    return f"{FILE_MARK}{path.name}|sha256:{hashlib.sha256(content).hexdigest()[:12]}"


@functools.lru_cache(maxsize=32)
def _classes(path: Path, content: bytes, method: str) -> Mapping[str, type]:
    """Returns the classes of a file that have this method, by name."""
    module = _module(path, content)
    mark = _mark(path, content)
    return {
        name: _marked(cls, mark, functools.partial(_new, path, content, method, name))
        for name, cls in vars(module).items()
        if inspect.isclass(cls)
        and cls.__module__ == module.__name__
        and callable(getattr(cls, method, None))
    }


@functools.lru_cache(maxsize=32)
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


def _new(path: Path, content: bytes, method: str, name: str) -> object:
    """Returns an empty object of a class in a file, wherever it is unpickled."""
    cls = _classes(path, content, method)[name]
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

    def sample_metric(self: Any) -> Metric:
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
        members["of_samples"] = property(sample_metric)
    marked = type(cls.__name__, (cls,), members)
    return marked

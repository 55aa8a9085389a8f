"""The authors' files: tensors by name, checked as they are taken."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from levelfield.core.errors import ModelError, first_line
from levelfield.io.json_input import read_json
from levelfield.io.problems import printable
from levelfield.models.loading import reading

PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
"""Suffixes of files that `torch.save` wrote."""

PLAIN = (argparse.Namespace,)
"""Classes that hold settings and run nothing: programs keep their arguments in checkpoints."""

_GLOBAL = re.compile(r"Unsupported global: GLOBAL ([\w.]+)")
"""How PyTorch names a class or function that a pickle asks for."""

MODEL_FILES = ("model.safetensors", "pytorch_model.bin")
"""Weights in a model's folder, those that are read freely first."""


@dataclass(frozen=True)
class PublishedFiles:
    """A file or folder of the authors.

    Attributes:
        path: where it is.
        allow_pickle: whether pickled weights may be read.
    """

    path: Path
    allow_pickle: bool = False

    def inside(self, name: str) -> PublishedFiles:
        """Returns a file or folder in this folder."""
        return PublishedFiles(self.path / name, self.allow_pickle)

    def file(self, *names: str) -> Path:
        """Returns the file itself, or the first of these names that the folder has.

        Raises:
            ModelError: it has none of them.
        """
        if self.path.is_file():
            return self.path
        for name in names:
            if (self.path / name).is_file():
                return self.path / name
        raise ModelError(f"{_shown(self.path)} has no {' or '.join(names)}")

    def tensors(self, *names: str, within: str = "") -> Tensors:
        """Returns the tensors of the file itself, or of the first of these files in the folder.

        Args:
            within: the key under which a pickled checkpoint has them; of the whole file if empty.

        Raises:
            ModelError: there is none of these, it is pickled and may not be read, or damaged, or
                has anything but tensors.
        """
        path = self.file(*(names or MODEL_FILES))
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            with reading(path.name):
                return Tensors(path.name, load_file(path))
        return Tensors(path.name, _tensors_of(self.pickled(path), within, path.name))

    def pickled(self, path: Path) -> Any:
        """Returns what `torch.save` wrote, read with `weights_only`.

        Raises:
            ModelError: pickles may not be read, or it holds more than tensors and containers.
        """
        if not self.allow_pickle:
            raise ModelError(
                f"{_shown(path)} is pickled, and unpickling can run code; trust it with "
                "--allow-pickle, which reads tensors and plain containers only"
            )
        try:
            with torch.serialization.safe_globals([*PLAIN]):
                return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # of pickle, zipfile and torch, by what is damaged
            more = _GLOBAL.search(str(error))  # of the rest PyTorch's advice is to run the pickle
            cause = f"it holds {more[1]}" if more else "it is damaged, or from another program"
            raise ModelError(
                f"{_shown(path)} can't be read as tensors alone: {cause}; a whole pickled module "
                "is not read: save its state_dict() where you trust it"
            ) from error

    def settings_of(self, kind: str) -> dict[str, Any]:
        """Returns `config.json`, whose model must be of this kind.

        Raises:
            ModelError: the file is missing or no JSON object, or its model is of another kind.
        """
        path = self.file("config.json")
        try:
            about = read_json(path)
        except (OSError, ValueError) as error:
            raise ModelError(f"{_shown(path)} can't be read: {first_line(error)}") from error
        if not isinstance(about, dict):
            raise ModelError(f"{_shown(path)} is not a JSON object")
        if (stated := about.get("model_type", kind)) != kind:
            raise ModelError(f"config.json is for a {stated} model; expected {kind}")
        return about


class Tensors:
    """Tensors by name, each taken once, so that what a layout does not know is noticed.

    Args:
        file: whose they are, for messages.
        tensors: by the authors' names.
    """

    def __init__(self, file: str, tensors: Mapping[str, torch.Tensor]) -> None:
        self._file = file
        self._left = dict(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def __iter__(self) -> Iterator[str]:
        """Yields the names that are left."""
        return iter(tuple(self._left))

    def peek(self, name: str) -> torch.Tensor:
        """Returns the tensor of a name that is there; it is left where it is."""
        return self._left[name]

    def take(self, name: str, *shape: int | None) -> torch.Tensor:
        """Returns the tensor of this name; its shape must be this, where None is any size.

        Raises:
            ModelError: there is none, its shape is another, or not all of it are finite numbers.
        """
        return self.take_all({name: shape})[name]

    def take_all(
        self, shapes: Mapping[str, Sequence[int | None]], prefix: str = ""
    ) -> dict[str, torch.Tensor]:
        """Returns the tensors of these names, which must have these shapes.

        Args:
            prefix: what the names in the file begin with.

        Raises:
            ModelError: some are missing, or have another shape, or numbers that are not finite.
        """
        if missing := [name for name in shapes if prefix + name not in self._left]:
            raise ModelError(
                f"{self._file} lacks {_few([prefix + name for name in missing])}; there is "
                f"{_few(sorted(self._left)) or 'nothing else'}"
            )
        taken = {name: self._left.pop(prefix + name) for name in shapes}
        for name, expected in shapes.items():
            if cause := _unusable(taken[name]):
                raise ModelError(f"{self._file}: {prefix}{name} is {cause}; expected plain numbers")
            shape = tuple(taken[name].shape)
            fits = len(shape) == len(expected) and all(
                wanted_size is None or size == wanted_size
                for size, wanted_size in zip(shape, expected, strict=True)
            )
            if not fits:
                words = " × ".join(
                    "any" if wanted_size is None else str(wanted_size) for wanted_size in expected
                )
                raise ModelError(
                    f"{self._file}: {prefix}{name} is {' × '.join(map(str, shape)) or 'a number'}; "
                    f"expected {words or 'a number'}"
                )
            if not taken[name].isfinite().all():
                raise ModelError(f"{self._file}: {prefix}{name} has numbers that are not finite")
        return taken

    def drop(self, pattern: str) -> None:
        """Leaves out tensors that nothing needs, such as buffers, by a pattern of the whole
        name."""
        for name in self:
            if re.fullmatch(pattern, name):
                del self._left[name]

    def finish(self) -> None:
        """Checks that all tensors were taken or dropped.

        Raises:
            ModelError: names those that the layout does not know.
        """
        if self._left:
            raise ModelError(
                f"{self._file} has {_few(sorted(self._left))}, which the layout does not know; "
                "does it have another layout?"
            )


def shapes_of(module: torch.nn.Module) -> dict[str, Sequence[int]]:
    """Returns the shapes of a module's tensors by name, for `Tensors.take_all`."""
    return {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}


def _tensors_of(pickled: Any, within: str, file: str) -> dict[str, torch.Tensor]:
    if within:
        if not isinstance(pickled, Mapping) or within not in pickled:
            raise ModelError(f"{file} has nothing under '{within}'")
        pickled = pickled[within]
    if not isinstance(pickled, Mapping):
        raise ModelError(f"{file} is a {type(pickled).__name__}; expected tensors by name")
    for name, value in pickled.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise ModelError(
                f"{file}: {name} is a {type(value).__name__}; expected tensors by name"
            )
    return dict(pickled)


def _unusable(tensor: torch.Tensor) -> str:
    """Returns why a tensor does not hold one real number in each place, empty if it does."""
    if tensor.is_meta:
        return "without values (on the device meta)"
    if tensor.is_quantized:
        return "quantised"
    if tensor.layout is not torch.strided:
        return "sparse"
    if tensor.is_complex():
        return "complex"
    return ""


def _few(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shown(path: Path) -> str:
    return printable(str(path))

"""Rewriters: encoder-decoders that learnt to rewrite a source in a wanted style.

A rewriter is a model folder with `rewriter.json`, which says what it was taught. Nothing here needs
PyTorch, so a control is refused before a model is loaded.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.core.errors import ModelError, first_line
from levelfield.io.json_input import read_json
from levelfield.io.problems import shown
from levelfield.models.loading import AS_USUAL, Loading
from levelfield.models.resolve import resolve

REWRITER = "rewriter.json"
_MAKE = "`levelfield train rewriter --pairs FILE --attribute NAME --out FOLDER` makes one"


@dataclass(frozen=True)
class RewriterFile:
    """What `rewriter.json` says.

    Attributes:
        attribute: whose labels the model writes in.
        labels: the styles; the source stands behind the code of the wanted one.
        base: what the model was begun from.
        figures: on held-out pairs, by name.
    """

    attribute: str
    labels: tuple[str, ...]
    base: str
    figures: Mapping[str, float | None]

    def to_dict(self) -> dict[str, Any]:
        """As the file has it."""
        return {
            "attribute": self.attribute,
            "labels": list(self.labels),
            "base": self.base,
            "figures": dict(self.figures),
        }


def code(label: str, source: str) -> str:
    """What the encoder reads: the wanted style, then the source.

    >>> code("formal", "hi there")
    'formal: hi there'
    """
    return f"{label}: {source}"


@functools.lru_cache(maxsize=16)
def rewriter_named(name: str, loading: Loading = AS_USUAL) -> RewriterFile:
    """What a rewriter was taught.

    Raises:
        ModelError: there is no such model, or it is no rewriter.
    """
    if not name.strip():
        raise ModelError(f"give a rewriter, model=FOLDER; {_MAKE}")
    return read_rewriter(resolve(name, loading).path, name)


def read_rewriter(folder: Path, name: str) -> RewriterFile:
    """What the rewriter in a folder was taught.

    Raises:
        ModelError: there is none.
    """
    try:
        about = read_json(folder / REWRITER)
    except FileNotFoundError as error:
        raise ModelError(f"model {shown(name)} is no rewriter: no {REWRITER}; {_MAKE}") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{name}: {REWRITER} can't be read: {first_line(error)}") from error
    try:
        attribute, labels = about["attribute"], tuple(about["labels"])
        if not (isinstance(attribute, str) and labels and all(isinstance(x, str) for x in labels)):
            raise TypeError
        return RewriterFile(attribute, labels, str(about["base"]), dict(about.get("figures", {})))
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"{name}: {REWRITER}: expected attribute, labels and base; train it anew"
        ) from error

"""How samples are read: the options of everything that takes files of samples."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.io.fields import Thoughts
from levelfield.io.guesses import ALTERNATIVE, NAMES

PathLike = str | os.PathLike[str]

Ids = Literal["given", "file", "any"]
"""As they are given, with the name of their file before them, or not compared: they may repeat."""


def pairs(
    option: str, words: Sequence[str], *, alternatives: Collection[str] = ()
) -> dict[str, str]:
    """Returns NAME=VALUE words as a mapping; values of a name in `alternatives` are joined.

    Raises:
        UserError: a word is not NAME=VALUE, or a name is given twice.
    """
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = (part.strip() for part in word.partition("="))
        if not (equals and name and value):
            raise UserError(f"{option} {word}: expected NAME=VALUE")
        if name in values and name not in alternatives:
            raise UserError(f"{option} {name} is given twice")
        values[name] = f"{values[name]}{ALTERNATIVE}{value}" if name in values else value
    return values


def columns(words: Sequence[str]) -> dict[str, str]:
    """Returns the words of `--map` as a mapping.

    What names samples may have other columns in other files.
    """
    return pairs("--map", words, alternatives=NAMES)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Options):
    """How samples are read."""

    format: str | None = option(
        None, "Format of the files.", metavar="NAME", otherwise="detected from content and suffix"
    )
    mapping: Mapping[str, str] = option(
        {},
        "Field of samples and the column of your files that holds it, such as text=output or "
        "control.sentiment=label; may be given again.",
        flags=("--map",),
        metavar="FIELD=COLUMN",
        read=columns,
    )
    label_names: Mapping[str, str] = option(
        {},
        "Label of controls in your files and the name that it stands for, such as 1=positive; may "
        "be given again.",
        flags=("--label-name",),
        metavar="LABEL=NAME",
    )
    source_file: PathLike | None = option(
        None,
        "File whose line n is the source of line n of each FILE of plain text.",
        metavar="FILE",
        is_file=True,
    )
    reference_files: Sequence[PathLike] | PathLike = option(
        (),
        "File whose line n is a reference for line n of each FILE; may be given again.",
        flags=("--reference-file",),
        metavar="FILE",
        is_file=True,
    )
    control: Mapping[str, str | tuple[str, ...]] = option(
        {}, "Control of texts that don't name one; may be given again.", metavar="ATTR=LABEL"
    )
    system: str = option(
        "",
        "System of texts that don't name one.",
        metavar="NAME",
        otherwise="for several files, the stem of each",
    )
    prompt: str = option("", "Prompt of texts that don't name one.", metavar="TEXT")
    thoughts: Thoughts = option(
        "keep",
        "Keep a block `<think>…</think>` at the beginning of a text or after its prompt, or remove "
        "it.",
    )
    ids: Ids = option(
        "given",
        "Use ids as they are (given), or put the stem of their file and a slash before them "
        "(file), so that files with the same ids can be read together. In Python, any lets ids "
        "repeat.",
    )

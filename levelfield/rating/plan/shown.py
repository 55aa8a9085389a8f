"""What a study file says of samples and words: their files, their fields, what raters see."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.io.problems import shown
from levelfield.io.records import Rules
from levelfield.io.streams import read_bytes
from levelfield.io.toml import TomlTable, suggestion, toml_kind
from levelfield.rating.model import Words
from levelfield.rating.plan.fields import MISPLACED
from levelfield.rating.units import Show

_SHOWABLE = ("source", "prompt", "context")


def sample_files(top: TomlTable, folder: Path) -> tuple[Path, ...]:
    example = '["rewrites.jsonl"]'
    names = top.texts("samples", example)
    if names is None:
        if "samples" not in top:
            top.wrong_field(
                "samples", f"expected a list of files, such as {example}; there is none"
            )
        return ()
    files = []
    for n, name in enumerate(names, 1):
        file = folder / Path(name).expanduser()
        if not file.is_file():
            why = "is a folder" if file.is_dir() else "there is no such file"
            top.wrong_field(f"samples[{n}]", f"{shown(name)}: {why}, seen from the study file")
        else:
            files.append(file)
    return tuple(files) if len(files) == len(names) else ()


def field_names(top: TomlTable) -> dict[str, str]:
    given = top.table("map")
    mapping = {ours: given.text(ours, '"output"') for ours in given}
    for ours, theirs in mapping.items():
        try:
            Rules({ours: theirs})
        except UserError as error:
            given.wrong_field(ours, str(error))
    return mapping


def read_show(top: TomlTable, language: str) -> Show:
    given = top.take("show")
    fields: tuple[str, ...] = ("source",)
    if isinstance(given, list) and all(isinstance(name, str) for name in given):
        fields = tuple(given)
        for name in fields:
            if name not in _SHOWABLE:
                top.wrong_field("show", f"can't show {shown(name)}; {suggestion(name, _SHOWABLE)}")
        if len(set(fields)) < len(fields):
            top.wrong_field("show", "names a field twice")
    elif given is not None:
        top.wrong_field("show", f'expected a list, such as ["source"]; found {toml_kind(given)}')
    names = top.table("names")
    default = Show()
    speakers = default.speakers
    if isinstance(names.take("context"), list):
        speakers = names.texts("context", '["A", "B"]') or speakers
    elif "context" in names:
        speakers = (names.text("context", '["A", "B"]', default="A"),)
    show = Show(
        fields=fields,
        source=names.text("source", '"Original"', default=default.source),
        prompt=names.text("prompt", '"Beginning"', default=default.prompt),
        text=names.text("text", '"Rewritten"', default=default.text),
        speakers=speakers,
        language=language,
    )
    names.finish(elsewhere=MISPLACED)
    return show


def read_words(top: TomlTable, folder: Path) -> tuple[Words, tuple[Path, ...]]:
    given = top.table("words")
    pages: dict[str, str] = {}
    files: list[Path] = []
    for page in ("welcome", "consent", "instructions", "thanks"):
        value = given.take(page)
        if isinstance(value, Mapping):
            inner = given.table(page)
            name = inner.text("file", '"consent.md"')
            inner.finish()
            file = folder / Path(name).expanduser()
            try:
                pages[page] = read_bytes(file).decode("utf-8-sig") if name else ""
                files += [file] if name else []
            except OSError as error:
                inner.wrong_field("file", f"{shown(name)} can't be read: {error.strerror}")
            except UnicodeDecodeError:
                inner.wrong_field("file", f"{shown(name)} is not UTF-8")
        else:
            pages[page] = given.text(page, '"Welcome." or { file = "welcome.md" }', default="")
    given.finish(elsewhere=MISPLACED)
    return Words(**pages), tuple(files)

"""Files that authors published, as guides and model folders of ours.

A layout says what the files are and what comes of them. A new one is an entry in `layouts.toml` and
a module with a `CONVERTER`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelfield.core.errors import ModelError, UserError
from levelfield.core.options import Options, choices, make, option, parsed, underscored
from levelfield.core.paths import user_path
from levelfield.io.json_input import read_json
from levelfield.io.toml import read_toml
from levelfield.io.writing import folder_replacement

if TYPE_CHECKING:
    from levelfield.train.builder import Card
    from levelfield_reproductions.convert.reading import PublishedFiles


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(Options):
    """How published files are converted.

    Weights that are pickled are read with `torch.load` and `weights_only`; anything but tensors and
    plain containers in such a file is refused.
    """

    options: Mapping[str, Any] = option(
        {},
        "Option of the layout; docs/convert.md lists them.",
        flags=("--option", "-o"),
        metavar="NAME=VALUE",
    )
    allow_pickle: bool = option(
        False, "Read pickled weights; only tensors and plain containers are read."
    )


@dataclass(frozen=True)
class Layout:
    """What is known of a layout without reading a file.

    Attributes:
        name: as the command has it.
        files: the source, in words.
        makes: what comes of it, in words.
        origin: where the authors have the files.
        paper: whose they are.
    """

    name: str
    files: str
    makes: str
    origin: str
    paper: str

    @property
    def target(self) -> str:
        """The converter, as `MODULE:CONVERTER`."""
        return f"{__name__}.{self.name.replace('-', '_')}:CONVERTER"


LAYOUTS: Mapping[str, Layout] = {
    name: Layout(name, **fields)
    for name, fields in read_toml(resources.files(__name__) / "layouts.toml").items()
}
"""Name -> layout, in the order in which they are listed."""


@dataclass(frozen=True)
class Converted:
    """What a conversion leaves in a folder.

    Attributes:
        task: what the model does, in a few words, for the card: `predicts …`.
        usage: how it is used, in one sentence, with `{out}` for the folder.
        facts: rows for the card, beyond those of every guide.
    """

    task: str
    usage: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Converter:
    """How files of one layout are converted.

    Attributes:
        options: the class of its options, all with defaults.
        convert: reads the source and writes a new folder. Raises `ModelError` where a file, a
            tensor or a shape is not what the layout has.
    """

    options: type[Options]
    convert: Callable[[PublishedFiles, Path, Any], Converted]


def convert(
    layout: str,
    source: Path | str,
    out: Path | str,
    chosen: ConvertOptions | None = None,
    **words: Any,
) -> Converted:
    """Converts what authors published to a folder of ours.

    The folder appears under its name when it is whole, with a card that says where the files come
    from.

    Args:
        layout: a name in `LAYOUTS`.
        source: the authors' file or folder.
        out: a folder that is empty or not there.
        chosen: options of the layout, and whether weights that are pickled are read.
        words: its choices by name, such as `allow_pickle=True`.

    Raises:
        UserError: there is no such layout or option, an option does not accept its value, or `out`
            holds something.
        ModelError: a file is missing, pickled or damaged, or not of the layout.
    """
    chosen = ConvertOptions.of(chosen, **words)
    if layout not in LAYOUTS:
        raise UserError(f"there is no layout '{layout}'; there are {', '.join(LAYOUTS)}")
    entry = LAYOUTS[layout]
    source, out = user_path(source), user_path(out)
    if not source.exists():
        raise UserError(f"there is no file or folder {source}; expected {entry.files}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is not empty; give another folder")
    converter = pkgutil.resolve_name(entry.target)
    assert isinstance(converter, Converter)
    options_of = choices(converter.options)
    words = underscored(chosen.options)
    if foreign := sorted(words.keys() - options_of.keys()):
        there = f"there are {', '.join(options_of)}" if options_of else "there is none"
        raise UserError(f"layout {layout} has no option '{foreign[0]}'; {there}")
    options = make(converter.options, parsed(f"layout {layout}", options_of, words))
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with folder_replacement(out) as folder:  # its name is that of guides and models
            from levelfield.train.builder import write_card
            from levelfield_reproductions.convert.reading import PublishedFiles

            files = PublishedFiles(source, chosen.allow_pickle)
            converted = converter.convert(files, folder, options)
            write_card(_card(folder, out.name, source, entry, converted), folder)
    except OSError as error:
        raise ModelError(f"{out}: can't be written: {error.strerror or error}") from error
    return converted


def _card(folder: Path, name: str, source: Path, entry: Layout, converted: Converted) -> Card:
    from levelfield.models.guides import ABOUT
    from levelfield.train.builder import Card

    facts = {"Layout": entry.name, "Paper": entry.paper, "Source": source.name}
    if (folder / ABOUT).is_file():
        about = read_json(folder / ABOUT)
        facts |= {"Kind": about["kind"], "Attribute": about["attribute"]}
        facts["Labels"] = ", ".join(about["labels"])
    sources = (f"weights of the authors ({entry.origin}); their licence applies",)
    origin = f"the authors' {entry.files}"
    return Card(name, converted.task, facts | {**converted.facts}, sources, origin=origin)

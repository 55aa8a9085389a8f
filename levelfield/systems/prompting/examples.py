"""Examples of few-shot prompts: read from a TOML file, and chosen without favour to a label."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.sample import Control
from levelfield.io.digest import content_digest
from levelfield.io.toml import TomlTable, read_toml


@dataclass(frozen=True)
class Shot:
    """A text that a few-shot prompt shows, with what it was asked for.

    Attributes:
        control: attribute -> value or values.
        prompt: its beginning.
        continuation: what follows, with the blank before it.
    """

    control: Control
    prompt: str
    continuation: str


@dataclass(frozen=True, kw_only=True)
class ShotTable(Options):
    """What a file says of an example."""

    control: Mapping[str, str | tuple[str, ...]] = option(
        {},
        "Values that the text was asked for, by attribute.",
        example='{ sentiment = "positive", keywords = ["court", "culture"] }',
    )
    prompt: str = option("", "Beginning of the text.", example='"The lake"')
    continuation: str = option(
        help="Rest of the text, with the blank before it.", example='" froze."'
    )


@dataclass(frozen=True, kw_only=True)
class ExamplesTable(Options):
    """What a file of examples says."""

    examples: tuple[ShotTable, ...] = option(help="Examples.", fewest=1, example="[[examples]]")


@dataclass(frozen=True)
class Examples:
    """All examples of a file.

    Attributes:
        label: how signatures name them.
        shots: in the order of the file.
    """

    label: str
    shots: tuple[Shot, ...]

    def suitable(self, attributes: Set[str]) -> list[Shot]:
        """Those that have all these attributes, with these alone."""
        return [
            Shot({a: shot.control[a] for a in sorted(attributes)}, shot.prompt, shot.continuation)
            for shot in self.shots
            if attributes <= shot.control.keys()
        ]

    def chosen(self, attributes: Set[str], n: int) -> list[Shot]:
        """`n` of those that have all these attributes: every combination of labels as often as
        every other, as near as `n` allows, and so every label.

        The choice depends on the attributes alone and not on the wanted values, so that no wish
        has examples that another has not.
        """
        left = self.suitable(attributes)
        shots: list[Shot] = []
        while len(shots) < n:
            shots.append(min(left, key=functools.partial(_favour, shots=shots)))
            left.remove(shots[-1])
        return shots


def _favour(shot: Shot, shots: Sequence[Shot]) -> tuple[int, int]:
    """How often those chosen have all labels of a shot, and each of them."""
    alike = sum(shot.control == other.control for other in shots)
    return alike, sum(
        wanted == other.control[attribute]
        for other in shots
        for attribute, wanted in shot.control.items()
    )


def read_examples(file: str) -> Examples:
    """The examples in a TOML file; those that ship without a name.

    Raises:
        UserError: there is no such file, or what it says is wrong; names every mistake.
    """
    return _read(Path(file).expanduser(), file) if file else shipped_examples()


@functools.cache
def shipped_examples() -> Examples:
    """The examples that come with the package."""
    folder = resources.files("levelfield.systems.prompting")
    return _read(folder / "examples.toml", "")


def _read(file: Path | Traversable, name: str) -> Examples:
    problems: list[str] = []
    table = TomlTable(read_toml(file, name, kind="examples"), "", problems)
    shots = []
    for row in table.inside(ExamplesTable, "examples"):
        values = row.values(ShotTable, complete=True)
        for attribute in (
            attribute for attribute, wanted in values["control"].items() if not wanted
        ):
            row.wrong_field(
                f"control: {attribute}",
                'expected values, such as ["court", "culture"]; found an empty list',
            )
        row.finish()
        shots.append(Shot(**values))
    table.finish()
    if problems:
        raise UserError("\n".join(f"examples {name}: {problem}" for problem in problems))
    return Examples(f"{Path(name).stem or 'shipped'}@{content_digest(shots)}", tuple(shots))

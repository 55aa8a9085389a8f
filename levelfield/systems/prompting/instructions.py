"""What a prompted model is told: templates in a TOML file, and a control in words."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.sample import Control, Wanted, wanted_values
from levelfield.io.digest import content_digest
from levelfield.io.toml import TomlTable, read_toml

OTHER = "other"
"""The wish for attributes that have none of their own."""

_GAP = re.compile(r"\{(\w*)\}")


@dataclass(frozen=True, kw_only=True)
class PlainTable(Options):
    """What a file says of messages for models without a chat template; `{content}` stands for what
    a message says."""

    system: str = option(help="System message.", example='"{content}\\n\\n"')
    user: str = option(help="Message of the user.", example='"{content}\\n\\n"')
    assistant: str = option(help="Message of the model.", example='"{content}\\n\\n"')


@dataclass(frozen=True, kw_only=True)
class InstructionsTable(Options):
    """What a file of instructions says; `Instructions` has what stands for what."""

    system: str = option(help="System message.", example='"You are a writer."')
    task: str = option(help="Message of the user.", example='"Write a text{wishes}."')
    opening: str = option(
        help="End of the user's message where the opening can't be prefilled.",
        example='"It begins with {prompt}"',
    )
    stop: tuple[str, ...] = option((), "Strings that end a text.", fewest=1, example='["\\nUser:"]')
    wishes: Mapping[str, str] = option(
        {}, "Control in words, by attribute; `other` is for attributes without words."
    )
    words: Mapping[str, Mapping[str, str]] = option(
        {}, "Other words for values, by attribute and value."
    )
    plain: PlainTable = option(
        help="Messages for models without a chat template.",
        example="[plain] with system, user and assistant",
    )


@dataclass(frozen=True)
class Instructions:
    """Templates of what a model is told.

    Attributes:
        label: how signatures name them: where they are from, and a digest of what they say.
        system: the system message.
        task: the user's message; `{wishes}` stands for the control in words, a blank before it.
        opening: what the user's message goes on with where the opening can't be prefilled;
            `{prompt}` stands for the opening.
        stop: strings that end a text.
        wishes: attribute -> its part of the control in words, in their order; `{values}` stands
            for the values, `{quoted}` for the values in quotes, `{attribute}` for the name.
        words: attribute -> value in lower case -> other words for it.
        plain: role -> a message for models without a chat template; `{content}` stands for what
            it says.
    """

    label: str
    system: str
    task: str
    opening: str
    stop: tuple[str, ...]
    wishes: Mapping[str, str]
    words: Mapping[str, Mapping[str, str]]
    plain: Mapping[str, str]

    def asked(self, control: Control) -> str:
        """The user's message: a text with these attributes.

        >>> shipped().asked({"sentiment": "positive", "keywords": ("lake", "ice")})
        'Write a short text in fluent English with a positive sentiment that contains the words \
"lake", "ice".'
        """
        places = list(self.wishes)
        known = sorted(
            (places.index(attribute if attribute in self.wishes else OTHER), attribute)
            for attribute in control
        )
        wishes = [self._wish(attribute, control[attribute]) for _, attribute in known]
        return filled(self.task, wishes="".join(f" {wish}" for wish in wishes))

    def _wish(self, attribute: str, wanted: Wanted) -> str:
        words = self.words.get(attribute, {})
        values = [words.get(value.casefold(), value) for value in wanted_values(wanted)]
        return filled(
            self.wishes.get(attribute, self.wishes[OTHER]),
            attribute=attribute,
            values=" and ".join(values),
            quoted=", ".join(f'"{value}"' for value in values),
        )

    def begun(self, task: str, prompt: str) -> str:
        """The user's message where the text begins with a prompt that can't be prefilled."""
        return f"{task} {filled(self.opening, prompt=prompt)}" if prompt else task


def filled(template: str, **words: str) -> str:
    """A template with words in its gaps; gaps in the words stay as they are.

    >>> filled("{a} {b}", a="{b}", b="1")
    '{b} 1'
    """
    return _GAP.sub(lambda gap: words[gap[1]], template)


def read_instructions(file: str) -> Instructions:
    """The instructions in a TOML file; those that ship without a name.

    Raises:
        UserError: there is no such file, or what it says is wrong; names every mistake.
    """
    return _read(Path(file).expanduser(), file) if file else shipped()


@functools.cache
def shipped() -> Instructions:
    """The instructions that come with the package."""
    folder = resources.files("levelfield.systems.prompting")
    return _read(folder / "instructions.toml", "")


def _read(file: Path | Traversable, name: str) -> Instructions:
    problems: list[str] = []
    table = TomlTable(read_toml(file, name, kind="instructions"), "", problems)

    values = table.values(InstructionsTable, complete=True)
    _check(table, values, task=("wishes",), opening=("prompt",), system=())
    wishes = dict(values["wishes"])
    inner = table.table("wishes")
    if OTHER not in inner:
        inner.wrong_field(
            OTHER, 'expected a string, such as "with the {attribute} {quoted}"; there is none'
        )
    _check(inner, wishes, **dict.fromkeys(wishes, ("values", "quoted", "attribute")))
    plain: dict[str, str] = {}
    for roles in table.inside(InstructionsTable, "plain"):
        plain = roles.values(PlainTable)
        _check(roles, plain, **dict.fromkeys(plain, ("content",)))
        roles.finish()
    table.finish()
    if problems:
        raise UserError("\n".join(f"instructions {name}: {problem}" for problem in problems))
    words = {
        attribute: {value.casefold(): word for value, word in others.items()}
        for attribute, others in values["words"].items()
    }
    templates = (values["system"], values["task"], values["opening"], values["stop"])
    content = (*templates, wishes, words, plain)
    label = f"{Path(name).stem or 'shipped'}@{content_digest(content)}"
    return Instructions(label, *content)


def _check(table: TomlTable, values: Mapping[str, Any], **gaps: Sequence[str]) -> None:
    """Notes gaps that nothing stands for, and templates without any of theirs."""
    for key, known in gaps.items():
        if not (template := values.get(key)):
            continue
        there = _GAP.findall(template)
        if unknown := [gap for gap in there if gap not in known]:
            names = ", ".join(f"{{{gap}}}" for gap in known)
            hint = f"there are {names}" if names else "none here"
            table.wrong_field(key, f"nothing stands for {{{unknown[0]}}}; {hint}")
        if known and not any(gap in there for gap in known):
            table.wrong_field(key, f"{{{known[0]}}} is missing")

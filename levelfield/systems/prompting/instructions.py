"""What a prompted model is told: templates in a TOML file, and a control in words."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.core.sample import Control
from levelfield.core.wanted import Wanted, wanted_values
from levelfield.io.digest import content_digest
from levelfield.io.toml import TomlTable, read_toml

OTHER = "other"
"""The wish for attributes that have none of their own."""

_GAP = re.compile(r"\{(\w*)\}")


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

    def template(of: TomlTable, key: str, example: str, gaps: tuple[str, ...] = ()) -> str:
        text = of.text(key, example)
        if unknown := [gap for gap in _GAP.findall(text) if gap not in gaps]:
            there = f"there are {', '.join(f'{{{gap}}}' for gap in gaps)}" if gaps else "none here"
            of.wrong_field(key, f"nothing stands for {{{unknown[0]}}}; {there}")
        if gaps and not any(gap in _GAP.findall(text) for gap in gaps):
            of.wrong_field(key, f"{{{gaps[0]}}} is missing")
        return text

    system = template(table, "system", '"You are a writer."')
    task = template(table, "task", '"Write a text{wishes}."', ("wishes",))
    opening = template(table, "opening", '"It begins with {prompt}"', ("prompt",))
    stop = table.texts("stop", '["\\nUser:"]') or () if "stop" in table else ()
    of_attributes = table.table("wishes")
    gaps = ("values", "quoted", "attribute")
    attributes = [*of_attributes, *([OTHER] if OTHER not in of_attributes else [])]
    example = '"with the {attribute} {quoted}"'
    wishes = {key: template(of_attributes, key, example, gaps) for key in attributes}
    of_words = table.table("words")
    words = {}
    for attribute in of_words:
        values = of_words.table(attribute)
        words[attribute] = {value.casefold(): values.text(value, '"sports"') for value in values}
    of_roles = table.table("plain")
    plain = {
        role: template(of_roles, role, '"{content}\\n\\n"', ("content",))
        for role in ("system", "user", "assistant")
    }
    of_roles.finish()
    table.finish()
    if problems:
        raise UserError("\n".join(f"instructions {name}: {problem}" for problem in problems))
    content = (system, task, opening, stop, wishes, words, plain)
    label = f"{Path(name).stem or 'shipped'}@{content_digest(content)}"
    return Instructions(label, system, task, opening, stop, wishes, words, plain)

"""The messages before a text, wherever they are sent."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.paths import user_path
from levelfield.core.sample import Control, Wanted, wanted_values
from levelfield.io.problems import listed
from levelfield.io.streams import content_digest
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
        help="End of the user's message if the opening can't be prefilled.",
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
        wishes: attribute -> its part of the control in words, in their order; `{values}` is
            replaced by the values, `{quoted}` by the values in quotes, `{attribute}` by the name.
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
        """Returns the user's message: a text with these attributes.

        >>> shipped().asked({"sentiment": "positive", "keywords": ("lake", "ice")})
        'Write a short text in fluent English with a positive sentiment that contains the words \
"lake", "ice".'
        """
        places = list(self.wishes)
        ordered = sorted(
            (places.index(attribute if attribute in self.wishes else OTHER), attribute)
            for attribute in control
        )
        wishes = [self._wish(attribute, control[attribute]) for _, attribute in ordered]
        return filled(self.task, wishes="".join(f" {wish}" for wish in wishes))

    def _wish(self, attribute: str, setting: Wanted) -> str:
        words = self.words.get(attribute, {})
        values = [words.get(value.casefold(), value) for value in wanted_values(setting)]
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
    """Returns a template with words in its gaps; gaps in the words stay as they are.

    >>> filled("{a} {b}", a="{b}", b="1")
    '{b} 1'
    """
    return _GAP.sub(lambda gap: words[gap[1]], template)


@functools.cache
def shipped() -> Instructions:
    """Returns the instructions that come with the package."""
    return read_instructions("")


@contextlib.contextmanager
def _table(file: str, kind: str) -> Iterator[TomlTable]:
    """Opens the table in a TOML file, or in the one that ships.

    Raises:
        UserError: there is no such file, or what it says is wrong; names every mistake.
    """
    shipped_file = resources.files(__package__) / f"{kind}.toml"
    problems: list[str] = []
    path = user_path(file) if file else shipped_file
    table = TomlTable(read_toml(path, file, kind=kind), "", problems)
    yield table
    table.finish()
    if problems:
        raise UserError("\n".join(f"{kind} {file}: {problem}" for problem in problems))


def _label(file: str, content: object) -> str:
    return f"{Path(file).stem or 'shipped'}@{content_digest(content)}"


def read_instructions(file: str) -> Instructions:
    """Returns the instructions in a TOML file; those that ship without a name.

    Raises:
        UserError: there is no such file, or what it says is wrong; names every mistake.
    """
    with _table(file, "instructions") as table:
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
    words = {
        attribute: {value.casefold(): word for value, word in synonyms.items()}
        for attribute, synonyms in values["words"].items()
    }
    templates = (values["system"], values["task"], values["opening"], values["stop"])
    content = (*templates, wishes, words, plain)
    return Instructions(_label(file, content), *content)


def _check(table: TomlTable, values: Mapping[str, Any], **gaps: Sequence[str]) -> None:
    """Notes gaps that nothing stands for, and templates without any of theirs."""
    for key, allowed in gaps.items():
        if not (template := values.get(key)):
            continue
        present = _GAP.findall(template)
        if unknown := [gap for gap in present if gap not in allowed]:
            names = ", ".join(f"{{{gap}}}" for gap in allowed)
            hint = f"there are {names}" if names else "none here"
            table.wrong_field(key, f"{{{unknown[0]}}} has no meaning here; {hint}")
        if allowed and not any(gap in present for gap in allowed):
            table.wrong_field(key, f"{{{allowed[0]}}} is missing")


@dataclass(frozen=True, kw_only=True)
class Shot(Options):
    """A text that a few-shot prompt shows, with what it was asked for."""

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

    examples: tuple[Shot, ...] = option(help="Examples.", fewest=1, example="[[examples]]")


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
            replace(shot, control={a: shot.control[a] for a in sorted(attributes)})
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
        value == other.control[attribute]
        for other in shots
        for attribute, value in shot.control.items()
    )


def read_examples(file: str) -> Examples:
    """Returns the examples in a TOML file; those that ship without a name.

    Raises:
        UserError: there is no such file, or what it says is wrong; names every mistake.
    """
    rows = []
    with _table(file, "examples") as table:
        for row in table.inside(ExamplesTable, "examples"):
            values = row.values(Shot, complete=True)
            for attribute, setting in values["control"].items():
                if not setting:
                    row.wrong_field(
                        f"control: {attribute}",
                        'expected values, such as ["court", "culture"]; found an empty list',
                    )
            row.finish()
            rows.append(values)
    shots = [Shot(**values) for values in rows]
    return Examples(_label(file, shots), tuple(shots))


Message = Mapping[str, str]
"""`role` and `content`, as chat templates and servers have them."""


def message(role: str, content: str) -> Message:
    """One message."""
    return {"role": role, "content": content}


@dataclass(frozen=True)
class Prompts:
    """Instructions with as many examples as wanted.

    Attributes:
        instructions: what a model is told.
        examples: of few-shot prompts.
        shots: how many of them a prompt shows.

    Raises:
        UserError: more shots than examples.
    """

    instructions: Instructions
    examples: Examples
    shots: int

    def __post_init__(self) -> None:
        available = len(self.examples.shots)
        if not 0 <= self.shots <= available:
            raise UserError(
                f"shots is {self.shots}; expected 0 to {available}, the number of examples"
            )

    def messages(self, control: Control, prompt: str = "") -> list[Message]:
        """System message, shots, task.

        Args:
            control: what is wanted.
            prompt: what the user's message says the text begins with; empty where the assistant's
                turn begins with it.
        """
        instructions = self.instructions
        messages = [message("system", instructions.system)]
        for shot in self.examples.chosen(control.keys(), self.shots):
            task = instructions.asked(shot.control)
            begun = instructions.begun(task, shot.prompt) if prompt else task
            messages.append(message("user", begun))
            messages.append(message("assistant", shot.prompt + shot.continuation))
        task = instructions.begun(instructions.asked(control), prompt)
        return [*messages, message("user", task)]

    def refusal(self, control: Control) -> str:
        """Returns why a control can't be put into words; empty if it can."""
        for attribute, setting in control.items():
            if not any(value.strip() for value in wanted_values(setting)):
                return f"{attribute} has no value"
        available = len(self.examples.suitable(control.keys()))
        if available < self.shots:
            return (
                f"shots is {self.shots}, and {available} examples have {listed(sorted(control))}; "
                "give your own examples (examples=FILE) or fewer shots"
            )
        return ""

    @property
    def choices(self) -> Mapping[str, str]:
        """For signatures."""
        return {
            "shots": str(self.shots),
            "instructions": self.instructions.label,
            **({"examples": self.examples.label} if self.shots else {}),
        }


@functools.lru_cache(maxsize=16)
def prompts(shots: int, instructions: str, examples: str) -> Prompts:
    """Returns the prompts that options name; files are read once a process.

    Args:
        shots: examples in a prompt.
        instructions, examples: TOML files; empty for those that ship.

    Raises:
        UserError: a file that can't be read, or more shots than examples.
    """
    if examples and not shots:
        raise UserError("examples are shown with shots=1 or more, and shots is 0")
    return Prompts(read_instructions(instructions), read_examples(examples), shots)


@dataclass(frozen=True, kw_only=True)
class PromptOptions(Options):
    """Base of techniques that say in words what the text should be.

    Raises:
        UserError: a file that can't be read, more shots than examples, or examples without shots.
    """

    shots: int = option(
        0,
        "Number of examples before the task; 0 is zero-shot. They are balanced over labels, and "
        "the same for all values of an attribute.",
        least=0,
    )
    instructions: str = option(
        "", "TOML file of templates.", otherwise="those that ship", metavar="FILE"
    )
    examples: str = option(
        "",
        "TOML file of examples; shown with shots=1 or more.",
        otherwise="those that ship",
        metavar="FILE",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._prompts

    def refusal(self, control: Control) -> str:
        """Returns why a control is not supported; empty if it is."""
        return self._prompts.refusal(control)

    @property
    def _prompts(self) -> Prompts:
        return prompts(self.shots, self.instructions, self.examples)

"""The messages before a text, wherever they are sent."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from levelfield.core.errors import UserError
from levelfield.core.options import Options, option
from levelfield.core.sample import Control, wanted_values
from levelfield.io.problems import listed
from levelfield.systems.prompting.examples import Examples, read_examples
from levelfield.systems.prompting.instructions import Instructions, read_instructions

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
        there = len(self.examples.shots)
        if not 0 <= self.shots <= there:
            raise UserError(f"shots is {self.shots}; expected 0 to {there}, the number of examples")

    def messages(self, control: Control, prompt: str = "") -> list[Message]:
        """System message, shots, task.

        Args:
            control: what is wanted.
            prompt: what the user's message says the text begins with; empty where the assistant's
                turn begins with it.
        """
        told = self.instructions
        messages = [message("system", told.system)]
        for shot in self.examples.chosen(control.keys(), self.shots):
            task = told.asked(shot.control)
            messages.append(message("user", told.begun(task, shot.prompt) if prompt else task))
            messages.append(message("assistant", shot.prompt + shot.continuation))
        return [*messages, message("user", told.begun(told.asked(control), prompt))]

    def refusal(self, control: Control) -> str:
        """Why a control can't be put into words; empty if it can."""
        for attribute, wanted in control.items():
            if not any(value.strip() for value in wanted_values(wanted)):
                return f"{attribute} has no value"
        there = len(self.examples.suitable(control.keys()))
        if there < self.shots:
            return (
                f"shots is {self.shots}, and {there} examples have {listed(sorted(control))}; give "
                "examples of your own (examples=FILE) or fewer shots"
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
    """The prompts that options name; files are read once a process.

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
        """Why a control is not supported; empty if it is."""
        return self._prompts.refusal(control)

    @property
    def _prompts(self) -> Prompts:
        return prompts(self.shots, self.instructions, self.examples)

"""Post-processing of a system's answers: named steps in the order of the study file.

Systems answer with more than the text: the control code they were given, marks of their
tokenizer, the instruction before it, another turn after it (Table 6 of the study). The text of a
sample is the prompt and what continues it, so a system that answers with the continuation alone
takes the step `add-prompt`. A step only takes away, `add-prompt` aside, and does nothing where
what it looks for is not there.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.continuation import without_preface, without_thought
from levelfield.core.errors import UserError
from levelfield.core.sample import wanted_values
from levelfield.core.strings import did_you_mean
from levelfield.io.problems import shown
from levelfield.study.cells import CellRequest

GAP = "..."
"""Stands between the two marks of `between`."""

_SPECIAL = re.compile(
    r"</?s>|<pad>|<bos>|<eos>|\[(?:PAD|CLS|SEP)\]|<extra_id_\d+>"  # encoder-decoders, encoders
    r"|<\|[a-z0-9_]{1,40}\|>"  # <|endoftext|>, <|im_start|>, <|eot_id|>
    r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
)
_BLANK = re.compile(r"\s+")
_COUNT = re.compile(r"[1-9]\d{0,3}")
_AFTER_LABEL = re.compile(r"[\s:,+]|$")
# punctuation that closes, and scripts that have no blanks: Thai to Lao, Khmer, kana, Han
_JOINS_LEFT = re.compile(r"[\s,.;:!?)\]}%'’”…、。，！？\u0e00-\u0eff\u1780-\u17ff\u3040-\u9fff]")
_JOINS_RIGHT = re.compile(r"[\s\u0e00-\u0eff\u1780-\u17ff\u3040-\u9fff]$")


@dataclass(frozen=True)
class StepContext:
    """The context of a text for a step: its argument, the request, the model's input."""

    argument: str
    request: CellRequest
    input: str


@dataclass(frozen=True)
class PostprocessStep:
    """A step of post-processing.

    Attributes:
        name: as a study file has it.
        effect: what the step does, for people.
        run: text and what is given -> text.
        argument: what follows the name after a colon, for people; empty if nothing does.
        is_argument: whether an argument will do.
    """

    name: str
    effect: str
    run: Callable[[str, StepContext], str]
    argument: str = ""
    is_argument: Callable[[str], bool] = bool

    @property
    def form(self) -> str:
        """How it is written."""
        return f"{self.name}:{self.argument}" if self.argument else self.name


def process(steps: Sequence[str], raw: str, request: CellRequest, input: str = "") -> str:
    """Returns the text of a sample, made from the answer to a request.

    Args:
        steps: in order, e.g. `["strip-start:<|endoftext|>", "strip-label"]`.
        raw: the answer as the system gave it.
        input: input of the model; empty if unknown.

    Raises:
        UserError: there is no such step, or its argument is wrong.
    """
    text = raw
    for word in steps:
        step, argument = parse_step(word)
        text = step.run(text, StepContext(argument, request, input))
    return text


@functools.cache
def parse_step(word: str) -> tuple[PostprocessStep, str]:
    """Returns the step that a word names, and its argument.

    Raises:
        UserError: there is none, or its argument is wrong.
    """
    name, colon, argument = word.partition(":")
    if name not in STEPS:
        hint = did_you_mean(name, STEPS, form=lambda near: STEPS[near].form)
        raise UserError(f"there is no step {shown(name)}; {hint}")
    step = STEPS[name]
    if step.argument and not step.is_argument(argument):
        raise UserError(f"expected {step.form}, found {shown(word)}")
    if colon and not step.argument:
        raise UserError(f"step {name} takes no argument, found {shown(word)}")
    return step, argument


def _without_start(text: str, start: str) -> str | None:
    """Returns the text after `start`, which blanks may precede; None if it begins otherwise."""
    if not start:
        return None
    for begin in (text, text.lstrip()):
        if begin.startswith(start):
            return begin[len(start) :]
    return None


def _strip_input(text: str, context: StepContext) -> str:
    rest = _without_start(text, context.input)
    if rest is None:
        rest = _without_start(text, context.input.strip())
    return text if rest is None else rest


def _strip_start(text: str, context: StepContext) -> str:
    while (rest := _without_start(text, context.argument)) is not None:
        text = rest.lstrip()
    return text


def _strip_label(text: str, context: StepContext) -> str:
    prompt = context.request.prompt
    # a prompt may begin with the very word that is the label, which is not a control code then
    if prompt and _without_start(text, prompt) is not None:
        return text
    rest = text
    for word in _words(context.request.labels):
        after = _without_start(rest.lstrip(" \t,+"), word)
        if after is None or not _AFTER_LABEL.match(after):
            return text
        rest = after
    return text if rest is text else rest.lstrip().removeprefix(":").lstrip()


def _words(labels: Mapping[str, str | tuple[str, ...]]) -> Iterable[str]:
    for value in labels.values():
        yield from wanted_values(value)


def _strip_words(text: str, context: StepContext) -> str:
    parts = text.split(maxsplit=int(context.argument))
    return parts[-1] if len(parts) > int(context.argument) else ""


def _cut_at(text: str, context: StepContext) -> str:
    return text.partition(context.argument)[0]


def _between(text: str, context: StepContext) -> str:
    start, _, end = context.argument.partition(GAP)
    before, mark, after = text.partition(start)
    return (after if mark else before).partition(end)[0]


def _first_line(text: str, _: StepContext) -> str:
    return next(iter(text.lstrip().splitlines()), "")


def _add_prompt(text: str, context: StepContext) -> str:
    prompt = context.request.prompt
    bare = text.lstrip()
    # an empty answer stays empty: the prompt alone would hide that the system wrote nothing
    if not (prompt and bare) or text.startswith(prompt):
        return text
    if bare.startswith(prompt):
        return bare
    joined = _JOINS_RIGHT.search(prompt) or _JOINS_LEFT.match(text)
    return prompt + text if joined else f"{prompt} {text}"


STEPS: Mapping[str, PostprocessStep] = {
    step.name: step
    for step in (
        PostprocessStep(
            "strip-input",
            "Removes the model's input (the answer's `input`) if the answer begins with it.",
            _strip_input,
        ),
        PostprocessStep(
            "strip-label",
            "Removes the system's words for the control at the start, and a colon after them, "
            "unless the answer begins with the prompt.",
            _strip_label,
        ),
        PostprocessStep(
            "strip-words",
            "Removes the first N words, for control codes that are not labels.",
            _strip_words,
            "N",
            lambda argument: bool(_COUNT.fullmatch(argument)),
        ),
        PostprocessStep(
            "strip-start", "Removes all repetitions of MARK at the start.", _strip_start, "MARK"
        ),
        PostprocessStep(
            "strip-preface",
            "Removes a first line that announces the text, such as `Sure! Here is a story:`.",
            lambda text, _: without_preface(text),
        ),
        PostprocessStep(
            "strip-thought",
            "Removes a block `<think>…</think>` at the start, or after the prompt; all of an "
            "answer that was cut short within it.",
            lambda text, context: without_thought(text, context.request.prompt),
        ),
        PostprocessStep(
            "strip-special-tokens",
            "Removes marks of tokenizers and chat formats anywhere: `<s>`, `</s>`, `<pad>`, "
            "`<|endoftext|>` and the like, `[INST]`, ….",
            lambda text, _: _SPECIAL.sub("", text),
        ),
        PostprocessStep(
            "cut-at", "Removes the first MARK and everything after it.", _cut_at, "MARK"
        ),
        PostprocessStep(
            "between",
            "Keeps the text between the first START and the next END; without START, from the "
            "beginning; without END, to the end.",
            _between,
            f"START{GAP}END",
            lambda argument: argument.count(GAP) == 1 and all(argument.split(GAP)),
        ),
        PostprocessStep("first-line", "Keeps the first line that is not blank.", _first_line),
        PostprocessStep("strip", "Removes white space at both ends.", lambda text, _: text.strip()),
        PostprocessStep(
            "collapse-blanks",
            "Replaces every run of white space by one blank, and removes it at both ends.",
            lambda text, _: _BLANK.sub(" ", text).strip(),
        ),
        PostprocessStep(
            "add-prompt",
            "Puts the prompt in front, unless the text begins with it or is empty.",
            _add_prompt,
        ),
    )
}
"""Name -> step."""

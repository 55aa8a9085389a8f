"""The one rule for what the system wrote itself: the text without the prompt that it continues."""

from __future__ import annotations

import re
from typing import Literal

from levelfield.core.options import option
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    EMPTY_TEXT,
    NO_PROMPT,
    NOT_A_PREFIX,
    NOTHING_AFTER,
    Undefined,
)

Match = Literal["exact", "words", "letters"]
"""How the text must begin with the prompt: character by character; with the same words, whatever
their case and the white space around them; or with the same letters, whatever the case, the white
space and the quotes anywhere."""

WithoutPrompt = Literal["undefined", "whole", "whole-if-empty"]
"""What the continuation of a blank prompt is: undefined; the whole text; or the whole text of an
empty prompt, whereas one of white space must begin the text as any other prompt."""

Reading = Literal["whole", "continuation"]
"""What is read of a text: all of it, or what follows the prompt."""

READING = option(
    "whole", "Read the whole text, or the continuation: what follows the prompt in it."
)

EmptyOutput = Literal["0", "undefined"]
"""What an empty output is worth where a metric says whether a request was fulfilled."""

EMPTY_OUTPUT = option("0", "Value of an empty output: 0, or undefined.")

_NO_QUOTES = dict.fromkeys(map(ord, "\"'“”‘’«»`"))


def continuation(
    sample: Sample, *, match: Match = "exact", without_prompt: WithoutPrompt = "undefined"
) -> str | Undefined:
    """Returns the text after the prompt, its leading white space kept; or why there is none.

    Undefined: `empty text`; `no prompt`; `prompt is not a prefix of the text`; `nothing after the
    prompt`.

    >>> continuation(Sample("1", "The lake froze.", prompt="The lake"))
    ' froze.'
    """
    text, prompt = sample.text, sample.prompt
    if not text.strip():
        return Undefined(EMPTY_TEXT)
    if not (prompt if without_prompt == "whole-if-empty" else prompt.strip()):
        return Undefined(NO_PROMPT) if without_prompt == "undefined" else text
    end = prompt_end(prompt, text, match)
    if end is None:
        return Undefined(NOT_A_PREFIX)
    return text[end:] if text[end:].strip() else Undefined(NOTHING_AFTER)


def output(
    sample: Sample,
    reading: Reading,
    *,
    empty: EmptyOutput = "undefined",
    without_prompt: WithoutPrompt = "undefined",
) -> str | Undefined:
    """Returns what a metric reads of a text; with empty=0 an empty output is `""`, not undefined.

    An output is empty where the text is blank, and of a continuation where nothing follows the
    prompt. A text that does not begin with its prompt is undefined in any case: what of it the
    system wrote can't be told.

    >>> output(Sample("1", "The lake ", prompt="The lake"), "continuation", empty="0")
    ''
    """
    text: str | Undefined = sample.text if sample.text.strip() else Undefined(EMPTY_TEXT)
    if reading == "continuation":
        text = continuation(sample, without_prompt=without_prompt)
    if empty == "0" and text in (Undefined(EMPTY_TEXT), Undefined(NOTHING_AFTER)):
        return ""
    return text


def prompt_end(prompt: str, text: str, match: Match = "exact") -> int | None:
    """Returns where the prompt ends in a text that begins with it; None if it does not.

    >>> prompt_end("The lake", "The lake froze."), prompt_end("the  lake", "The lake froze.")
    (8, None)
    >>> prompt_end("the  lake", "The lake froze.", "words")
    8
    >>> prompt_end("The lake", '"the  lake" froze.', "letters")
    10
    """
    if match == "words":
        words = r"\s+".join(map(re.escape, prompt.split()))
        beginning = re.match(rf"\s*{words}", text, re.IGNORECASE)
        return beginning.end() if beginning else None
    if text.startswith(prompt):
        return len(prompt)
    return _end_of_letters(prompt, text) if match == "letters" else None


def _end_of_letters(prompt: str, text: str) -> int | None:
    beginning = letters(prompt)
    # white space and quotes may be of any length, but not most of what is read
    window = text[: 4 * len(prompt) + 40]
    if not letters(window).startswith(beginning):
        return None
    seen = 0
    for end, character in enumerate(window, 1):
        seen += len(letters(character))
        if seen >= len(beginning):
            return end
    return None


def letters(text: str) -> str:
    """Returns a text as prompts are compared: without white space, quotes and case."""
    return "".join(text.translate(_NO_QUOTES).split()).casefold()


_PREFACE = re.compile(
    r"\s*(?:sure|certainly|of course|absolutely|okay|ok)\b[^\n]{0,200}:[ \t]*\n\s*", re.IGNORECASE
)


def without_preface(text: str) -> str:
    """Returns the text without a first line that announces it, if there is one.

    >>> without_preface("Sure! Here is a story:\\n\\nThe lake froze.")
    'The lake froze.'
    """
    preface = _PREFACE.match(text)
    return text[preface.end() :] if preface else text


_THINKING = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)


def without_thought(text: str, prompt: str = "") -> str:
    """Returns the text without a block in which a model thinks, at its beginning or after its
    prompt.

    The block is `<think>…</think>`. Some chat templates write its beginning, so that the answer has
    only its end; of an answer that was cut short within it, nothing is left.

    >>> without_thought("<think>A lake, say.</think>\\n\\nThe lake froze.")
    'The lake froze.'
    >>> without_thought("Hm.</think>It froze."), without_thought("<think>A lake")
    ('It froze.', '')
    """
    if "<" not in text:
        return text
    begin = len(prompt) if text.startswith(prompt) else 0
    mark = _THINKING.search(text, begin)
    opens = mark is not None and not mark[1]
    if mark is None or (opens and text[begin : mark.start()].strip()):
        return text
    end = mark
    if opens:
        ends = (m for m in _THINKING.finditer(text, mark.end()) if m[1])
        if (closing := next(ends, None)) is None:
            return text[:begin]
        end = closing
    rest = text[end.end() :].lstrip()
    blank = " " if begin and rest and not text[begin - 1].isspace() else ""
    return text[:begin] + blank + rest

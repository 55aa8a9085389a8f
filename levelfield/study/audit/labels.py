"""Is there a label in the model's input, or in its output?"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from levelfield.core.continuation import prompt_end
from levelfield.core.sample import Control
from levelfield.study.audit.findings import (
    LEVEL,
    Fault,
    Faults,
    Limits,
    Share,
    StudyPart,
    check,
    counted,
    p_of_more,
    p_of_shares,
    percent,
)
from levelfield.study.audit.texts import Text, wants_words
from levelfield.study.cells import grouped, value_name

_NEAR = 60
_ENOUGH = 15
_SIDES = {"first": 0, "last": -1}
_WINDOW = 4
_CODED = "ctrl"
_IN_TEXT = Limits(0.2, 0.05)


@check("label-in-input", per="system", limits=Limits(0.05, 0.02))
def label_in_input(part: StudyPart) -> Faults:
    """The wanted value, or the system's word for it, typed in front of the prompt.

    Looked for in what the model was given (`extra["input"]`) and at the beginning of the text. A
    few words in front of the prompt are such a label if they hold a word of the wanted value, or
    if they always differ between values. The model then reads the answer in its prompt: a warning.
    It is none of systems whose name begins with `ctrl`: CTRL and `ctrl-lite` were trained on codes
    in front of the prompt. Labels left in texts are what judges see: serious from 5 % on, a warning
    from 2 % on. Silent where inputs are unknown, and for instructions (more than 6 words).
    """
    texts = [text for text in part.texts if text.sample.prompt]
    labels = {t.sample.id: label for t in texts if (label := _in_front(t))}
    hits = [text for text in texts if text.sample.id in labels]
    values = grouped(hits, lambda text: value_name(text.sample.control))
    by_value = {v: {labels[text.sample.id] for text in group} for v, group in values.items()}
    names = any(_words(labels[t.sample.id]) & _value_words(t.sample.control) for t in hits)
    distinct = len(set().union(*by_value.values()))
    told_apart = len(by_value) > 1 and sum(map(len, by_value.values())) == distinct
    if (names or told_apart) and not part.system.casefold().startswith(_CODED):
        counts = Counter(f"'{label}'" for label in labels.values())
        predicate = f"were made from a prompt with a label typed in front of it: {counted(counts)}"
        yield Share(predicate, hits, texts, Limits(math.inf, 0))
    labelled = [text for text in texts if text.end is None and _keeps_label(text)]
    yield Share("begin with the wanted label, then the prompt", labelled, texts)


@check("label-in-text", per="system", limits=_IN_TEXT)
def label_in_text(part: StudyPart) -> Faults:
    """The wanted value, or a code for it, at the beginning or end of a system's own words.

    A word of the wanted value counts, as the first or last word or among the first or last 4, if
    it is more frequent there than inside the texts, by a binomial test with p < 1e-7, since texts
    about sports may speak of sports anywhere. A code is
    a word at that place in half of the texts asked for one value and in at most 5 % of those asked
    for others (Fisher's p < 1e-7). Judges then read the answer. Serious from 20 % of the texts on,
    a warning from 5 %. Silent with one value, and for controls that want words in the text.
    """
    texts = _long(part.texts)
    # of wanted words, one may well be the first
    if any(wants_words(text.sample.control) for text in texts):
        return
    if len({value_name(text.sample.control) for text in texts}) < 2:
        return
    for side, position in _SIDES.items():
        shares = (share for share in _side_shares(texts, side, position) if share.fault(_IN_TEXT))
        yield from islice(shares, 1)


_INSIDE = 0.15
_RATHER = 3


@check("label-in-text", per="control")
def label_inside_text(part: StudyPart) -> Faults:
    """The wanted value anywhere in texts of one system, where those of others do not hold it.

    A warning where the share of a system's texts that hold a word of the wanted value is 15 points
    above that of every other system and three times as large, by Fisher's exact test with p < 1e-7
    against each. Not repeated for a system that has the value at the beginning or end. Silent
    with one system, below 15 texts, with one value, and for controls that want words in the text.
    """
    systems = {s: texts for s, texts in part.texts_of_systems.items() if len(texts) >= _ENOUGH}
    if len(systems) < 2 or any(wants_words(text.sample.control) for text in part.texts):
        return
    if len({value_name(text.sample.control) for text in part.texts}) < 2:
        return
    hits = {
        system: [t for t in texts if not _value_words(t.sample.control).isdisjoint(t.words)]
        for system, texts in systems.items()
    }
    for system, matches in hits.items():
        k, n = len(matches), len(systems[system])
        others = [(len(hits[name]), len(systems[name])) for name in hits if name != system]
        most, total = max(others, key=lambda count: count[0] / count[1])
        share, usual = k / n, most / total
        if (
            share - usual >= _INSIDE
            and share >= _RATHER * usual
            and all(p_of_shares(k, n, *other) < LEVEL for other in others)
            and not any(
                share_at.fault(_IN_TEXT)
                for side, position in _SIDES.items()
                for share_at in _side_shares(_long(systems[system]), side, position)
            )
        ):
            sentence = (
                f"{k:,} of {n:,} texts ({percent(k, n)}) contain the wanted value; at most "
                f"{percent(most, total)} of those of any other system do"
            )
            yield Fault.from_texts("warning", sentence, matches, systems[system])


def _long(texts: Sequence[Text]) -> list[Text]:
    return [text for text in texts if len(text.words) > 2]


def _side_shares(texts: Sequence[Text], side: str, position: int) -> Iterator[Share]:
    """Yields the ways in which texts reveal the value at one side, the plainest first."""
    hits = _labelled(texts, position, 1)
    yield Share(f"have the wanted value as the {side} word after their prompt", hits, texts)
    if codes := dict(_codes(texts, position)):
        hits = [text for text in texts if text.words[position] in codes]
        predicate = ", ".join(f"'{word}' for {value}" for word, value in codes.items())
        predicate = f"have a word that reveals the wanted value as the {side} one: {predicate}"
        yield Share(predicate, hits, texts)
    hits = _labelled(texts, position, _WINDOW)
    predicate = f"have the wanted value among the {side} {_WINDOW} words after their prompt"
    yield Share(predicate, hits, texts)


def _labelled(texts: Sequence[Text], position: int, width: int) -> list[Text]:
    """Returns texts with a word of the wanted value there; none if it is as frequent elsewhere."""
    texts = [text for text in texts if len(text.words) > 2 * width]
    hits = []
    inside = total = holding = 0
    for text in texts:
        values = _value_words(text.sample.control)
        if not values.isdisjoint(text.words[:width] if position == 0 else text.words[-width:]):
            hits.append(text)
        n = sum(word in values for word in text.words[width:-width])
        inside, total = inside + n, total + len(text.words) - 2 * width
        holding += n > 0
    usual = 1 - (1 - max(inside, 1) / max(total, 2)) ** width
    often = holding > len(texts) / 3
    sure = hits and not often and p_of_more(len(hits), len(texts), usual) < LEVEL
    return hits if sure else []


def _codes(texts: Sequence[Text], position: int) -> Iterator[tuple[str, str]]:
    """Yields words at a position that reveal a value, with the value."""
    values = grouped(texts, lambda text: value_name(text.sample.control))
    words = {
        value: Counter(text.words[position] for text in group) for value, group in values.items()
    }
    for value, counts in words.items():
        (word, a), n = counts.most_common(1)[0], len(values[value])
        b, m = sum(words[other][word] for other in words) - a, len(texts) - n
        prompts = {t.sample.prompt for t in values[value] if t.words[position] == word}
        apart = 2 * a >= n and 20 * b <= m and n >= _ENOUGH and len(prompts) >= min(5, n)
        if apart and p_of_shares(a, n, b, m) < LEVEL:
            yield word, value


def _in_front(text: Text) -> str:
    """Returns the words before the prompt in the system's input, if they are few."""
    text_read = str(text.sample.extra.get("input", "")).rstrip()
    prompt = text.sample.prompt.rstrip()
    if not text_read.endswith(prompt):
        return ""
    label = text_read[: len(text_read) - len(prompt)].strip()
    return label if "\n" not in label and len(label.split()) <= 6 else ""


def _keeps_label(text: Text) -> bool:
    beginning = text.sample.text[: _NEAR + 4 * len(text.sample.prompt)]
    values = _value_words(text.sample.control)
    for gap in re.finditer(r"[:\s]+", beginning[:_NEAR]):
        if prompt_end(text.sample.prompt, beginning[gap.end() :], "letters") is not None:
            return bool(_words(beginning[: gap.start()]) & values)
    return False


def _value_words(control: Control) -> frozenset[str]:
    return _words_of_name(value_name(control))


@functools.lru_cache(maxsize=1024)
def _words_of_name(name: str) -> frozenset[str]:
    return frozenset(_words(name))


def _words(text: str) -> set[str]:
    return {word for word in re.split(r"[\W_]+", text.casefold()) if len(word) > 2}

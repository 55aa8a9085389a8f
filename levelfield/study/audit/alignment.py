"""Does a text answer its own request, and does the request give the answer away?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby

from levelfield.core.continuation import letters, prompt_end
from levelfield.core.sample import Control
from levelfield.study.audit.findings import (
    AuditedStudy,
    Finding,
    Limits,
    Text,
    counted,
    share_found,
)
from levelfield.study.cells import value_name

_NEAR = 60


def prompt_not_continued(study: AuditedStudy) -> list[Finding]:
    """Texts that do not begin with their prompt.

    White space, quotes and case do not count. Serious from 10 % on, where other systems continue
    theirs by construction: texts are then not comparable. Silent below 1 % and without prompts.
    """
    findings = []
    for cells in study.systems.values():
        texts = [text for text in study.of_system(cells) if text.sample.prompt]
        hits = [text for text in texts if text.end is None]
        late = sum(_comes_late(text) for text in hits)
        further = f"; {late:,} of them have it further in" if late else ""
        what = f"do not begin with their prompt{further}"
        findings += share_found("prompt-not-continued", Limits(0.1, 0.01), what, hits, texts)
    return findings


def _comes_late(text: Text) -> bool:
    return letters(text.sample.prompt) in letters(text.sample.text)


def wrong_request(study: AuditedStudy) -> list[Finding]:
    """Texts that begin with the prompt of another request of their dataset and not their own.

    Answers were given to the wrong requests, so what they were asked for is wrong as well.
    Prompts of one word are no evidence, nor is a prompt that the text's own begins with. Serious
    from 5 % on; silent below 1 %, which a system may write by chance.
    """
    prompts: dict[str, dict[str, str]] = {}
    for cell in study.cells:
        known = prompts.setdefault(cell.key.dataset, {})
        known.update({letters(s.prompt): s.prompt for s in cell.samples if " " in s.prompt.strip()})
    lengths = {d: sorted({len(p) for p in known}, reverse=True) for d, known in prompts.items()}
    findings = []
    for cells in study.systems.values():
        texts = [text for text in study.of_system(cells) if text.sample.prompt]
        others: dict[str, str] = {}
        for text in (text for text in texts if text.end is None):
            dataset = text.key.dataset
            found = _other(text, prompts[dataset], lengths[dataset])
            if found:
                others[text.sample.id] = found
        hits = [text for text in texts if text.sample.id in others]
        if not hits:
            continue
        continued = groupby(others.get(text.sample.id) for text in texts)
        runs = (len(list(run)) for prompt, run in continued if prompt)
        what = (
            f"begin with the prompt of another request; they continue {len(set(others.values()))} "
            f"prompts in all, up to {max(runs):,} texts in a row the same one"
        )
        findings += share_found("wrong-request", Limits(0.05, 0.01), what, hits, texts)
    return findings


def _other(text: Text, prompts: Mapping[str, str], lengths: Sequence[int]) -> str:
    """The longest of the prompts that the text begins with; empty if none."""
    longest = lengths[0] if lengths else 0
    beginning = letters(text.sample.text[: 4 * longest + 40])
    own = letters(text.sample.prompt)
    for length in lengths:
        prompt = prompts.get(beginning[:length])
        if prompt is not None and not own.startswith(beginning[:length]):
            return prompt
    return ""


def label_in_input(study: AuditedStudy) -> list[Finding]:
    """The wanted value, or the system's word for it, typed in front of the prompt.

    Looked for in what the model was given (`extra["input"]`) and at the beginning of the text. A
    few words in front of the prompt are such a label if they hold a word of the wanted value, or
    if they always differ between values. The model then reads the answer in its prompt: a warning,
    since some systems were trained on such codes. Labels left in texts are what judges see: serious
    from 5 % on, a warning from 2 % on. Silent where inputs are unknown, and for instructions (more
    than 6 words).
    """
    findings = []
    for cells in study.systems.values():
        texts = [text for text in study.of_system(cells) if text.sample.prompt]
        labels = {t.sample.id: label for t in texts if (label := _in_front(t))}
        by_value: dict[str, set[str]] = {}
        for text in texts:
            if text.sample.id in labels:
                own = by_value.setdefault(value_name(text.sample.control), set())
                own.add(labels[text.sample.id])
        hits = [text for text in texts if text.sample.id in labels]
        names = any(_words(labels[t.sample.id]) & _of_values(t.sample.control) for t in hits)
        told_apart = len(by_value) > 1 and sum(map(len, by_value.values())) == len(
            set().union(*by_value.values())
        )
        if names or told_apart:
            counts = Counter(f"'{label}'" for label in labels.values())
            what = f"were made from a prompt with a label typed in front of it: {counted(counts)}"
            findings += share_found("label-in-input", Limits(math.inf, 0), what, hits, texts)
        labelled = [text for text in texts if text.end is None and _keeps_label(text)]
        what = "begin with the wanted label, then the prompt"
        findings += share_found("label-in-input", Limits(0.05, 0.02), what, labelled, texts)
    return findings


def _in_front(text: Text) -> str:
    """What stands in front of the prompt in the system's input, if that is short."""
    text_read = str(text.sample.extra.get("input", "")).rstrip()
    prompt = text.sample.prompt.rstrip()
    if not text_read.endswith(prompt):
        return ""
    label = text_read[: len(text_read) - len(prompt)].strip()
    return label if "\n" not in label and len(label.split()) <= 6 else ""


def _keeps_label(text: Text) -> bool:
    beginning = text.sample.text[: _NEAR + 4 * len(text.sample.prompt)]
    values = _of_values(text.sample.control)
    for gap in re.finditer(r"[:\s]+", beginning[:_NEAR]):
        if prompt_end(text.sample.prompt, beginning[gap.end() :], "letters") is not None:
            return bool(_words(beginning[: gap.start()]) & values)
    return False


def _of_values(control: Control) -> set[str]:
    return _words(value_name(control))


def _words(text: str) -> set[str]:
    return {word for word in re.split(r"[\W_]+", text.casefold()) if len(word) > 2}

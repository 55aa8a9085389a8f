"""Does a text begin with the prompt of its own request, once?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from levelfield.core.continuation import letters
from levelfield.study.audit.findings import (
    AuditedStudy,
    Finding,
    Limits,
    share_found,
)
from levelfield.study.audit.texts import Text, words_of

_FEW = 3


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


def prompt_repeated(study: AuditedStudy) -> list[Finding]:
    """Texts that say their prompt twice, or go on with the prompt of another request.

    Looked for directly after the prompt, and a prompt of 2 words or more at the end, without
    blanks, case and punctuation; prompts of others count from 3 words on. Serious from 5 % on: what
    is measured of such a text is measured of its prompt. Silent below 1 % and 3 texts, which a
    system may write by chance.
    """
    prompts: dict[str, dict[tuple[str, ...], str]] = {}
    for cell in study.cells:
        known = prompts.setdefault(cell.key.dataset, {})
        for prompt in dict.fromkeys(sample.prompt for sample in cell.samples):
            known[tuple(words_of(prompt))] = prompt
    lengths = {d: {len(words) for words in known if len(words) > 2} for d, known in prompts.items()}
    findings = []
    for cells in study.systems.values():
        texts = [t for t in study.of_system(cells) if t.end is not None and t.sample.prompt.strip()]
        twice, others = [], []
        for text in texts:
            own = words_of(text.sample.prompt)
            n = len(own)
            if own and (own == text.words[:n] or (n > 1 and own == text.words[-n:])):
                twice.append(text)
            elif any(
                tuple(text.words[:n]) in prompts[text.key.dataset]
                for n in lengths[text.key.dataset]
            ):
                others.append(text)
        for what, hits in (
            ("say their prompt twice", twice),
            ("go on with the prompt of another request", others),
        ):
            if len(hits) >= _FEW:
                findings += share_found("prompt-repeated", Limits(0.05, 0.01), what, hits, texts)
    return findings

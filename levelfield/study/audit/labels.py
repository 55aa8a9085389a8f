"""Does a label stand in what the model was given, or in what it wrote?"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from levelfield.core.continuation import prompt_end
from levelfield.core.sample import Control
from levelfield.study.audit.completeness import values_asked
from levelfield.study.audit.findings import (
    LEVEL,
    AuditedStudy,
    Finding,
    Limits,
    counted,
    grouped,
    only,
    p_of_more,
    p_of_shares,
    percent,
    share_found,
)
from levelfield.study.audit.judges import Right, rights, size
from levelfield.study.audit.texts import Text, wants_words
from levelfield.study.cells import Cell, CellKey, value_name

_NEAR = 60
_ENOUGH = 15
_SIDES = {"first": 0, "last": -1}
_WINDOW = 4


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


def label_in_text(study: AuditedStudy) -> list[Finding]:
    """The wanted value at the beginning or end of what was written, or a code that tells it.

    A word of the wanted value counts, as the first or last word or among the first or last 4, if
    it stands there more often than inside of the texts, by a
    binomial test with p < 1e-7, since texts about sports may speak of sports anywhere. A code is
    a word at that place in half of the texts asked for one value and in at most 5 % of those asked
    for others (Fisher's p < 1e-7). Judges then read the answer. Serious from 20 % of the texts on,
    a warning from 5 %. Silent with one value, and for controls that want words in the text.
    """
    findings = []
    for cells in study.systems.values():
        texts = [text for text in study.of_system(cells) if len(text.words) > 2]
        # of wanted words, one may well be the first
        if any(wants_words(text.sample.control) for text in texts):
            continue
        if len({value_name(text.sample.control) for text in texts}) < 2:
            continue
        for side, position in _SIDES.items():
            hits = _labelled(texts, position, 1)
            what = f"have the wanted value as the {side} word after their prompt"
            named = share_found("label-in-text", Limits(0.2, 0.05), what, hits, texts)
            if not named and (codes := dict(_codes(texts, position))):
                hits = [t for t in texts if t.words[position] in codes]
                told = ", ".join(f"'{word}' for {value}" for word, value in codes.items())
                what = f"have a word that tells the wanted value as the {side} one: {told}"
                named = share_found("label-in-text", Limits(0.2, 0.05), what, hits, texts)
            if not named:
                hits = _labelled(texts, position, _WINDOW)
                what = f"have the wanted value among the {side} {_WINDOW} words after their prompt"
                named = share_found("label-in-text", Limits(0.2, 0.05), what, hits, texts)
            findings += named
    return findings


def _labelled(texts: Sequence[Text], position: int, width: int) -> list[Text]:
    """The texts with a word of the wanted value there; none if it stands elsewhere as often."""
    texts = [text for text in texts if len(text.words) > 2 * width]
    hits = []
    inside = total = holding = 0
    for text in texts:
        values = _of_values(text.sample.control)
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
    """Words there that tell the value, with the value."""
    values = grouped(texts, lambda text: value_name(text.sample.control))
    words = {value: Counter(text.words[position] for text in of) for value, of in values.items()}
    for value, counts in words.items():
        (word, a), n = counts.most_common(1)[0], len(values[value])
        b, m = sum(words[other][word] for other in words) - a, len(texts) - n
        prompts = {t.sample.prompt for t in values[value] if t.words[position] == word}
        apart = 2 * a >= n and 20 * b <= m and n >= _ENOUGH and len(prompts) >= min(5, n)
        if apart and p_of_shares(a, n, b, m) < LEVEL:
            yield word, value


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


def _of_values(control: Control) -> frozenset[str]:
    return _words_of_name(value_name(control))


@functools.lru_cache(maxsize=1024)
def _words_of_name(name: str) -> frozenset[str]:
    return frozenset(_words(name))


def _words(text: str) -> set[str]:
    return {word for word in re.split(r"[\W_]+", text.casefold()) if len(word) > 2}


Pairs = Counter[tuple[str, str]]
"""Wanted value and label -> number of texts."""


def labels_swapped(study: AuditedStudy) -> list[Finding]:
    """Values that judges find exchanged: texts asked for one are found to be another.

    Looked at: each cell of a system, each dataset, and all. Most texts that were asked for a are
    called b by a judge, more than of those that were asked for b (Fisher's p < 1e-7), and these are
    mostly called something else as well. Serious: labels were exchanged in the requests, in the
    texts or for the judges, and what is found right is wrong. With two values, rates are enough; a
    system that is wrong as a whole is told by `control-changes-nothing`. One finding a system and
    kind of control.
    """
    findings = []
    right = rights(study)
    for (system, control), cells in study.systems.items():
        swaps = [
            (own, judge, a, b, pairs)
            for own in _parts(cells)
            for judge, pairs in _confusions(own, right).items()
            for a, b in _swapped(pairs)
        ]
        # of two values, all exchanged are control that works backwards
        whole = any(own is cells for own, *_ in swaps)
        if swaps and not (whole and _two_values(cells)):
            _, judge, a, b, pairs = swaps[0]
            hit = {cell.key: cell for own, *_ in swaps for cell in own}
            seeds = {key.seed for key in hit}
            seed = seeds.pop() if len(seeds) == 1 < len({cell.key.seed for cell in cells}) else None
            where = (system, only(key.dataset for key in hit), control, seed)
            shares = [percent(pairs[x, b], _asked(pairs, x)) for x in (a, b)]
            what = f"values are exchanged: {judge} calls {shares[0]} of the texts asked for {a} {b}"
            what += f", but {shares[1]} of those asked for {b}"
            n, of = (sum(map(size, some)) for some in (hit.values(), cells))
            findings.append(Finding("labels-swapped", "serious", *where, what, n, of))
    return findings


def _parts(cells: Sequence[Cell]) -> Sequence[Sequence[Cell]]:
    """Each cell, each dataset, and all."""
    datasets = grouped(cells, lambda cell: cell.key.dataset).values()
    return [*([cell] for cell in cells), *datasets, cells]


def _two_values(cells: Sequence[Cell]) -> bool:
    return len(set().union(*map(values_asked, cells))) == 2


def _confusions(cells: Sequence[Cell], right: Mapping[CellKey, Right]) -> Mapping[str, Pairs]:
    """Judge -> what it called the texts; from rates, with two values."""
    pairs: dict[str, Pairs] = {}
    for cell in cells:
        for attribute, judges in cell.votes.items():
            for judge, labels in judges.items():
                own = pairs.setdefault(judge, Counter())
                for sample in cell.samples:
                    wanted = sample.control.get(attribute)
                    if isinstance(wanted, str) and sample.id in labels:
                        own[wanted, labels[sample.id]] += 1
        if not cell.votes:
            rates = right.get(cell.key, {})
            for judge, of in grouped(rates, lambda one: one[0]).items():
                values = [value for _, value in of]
                if len(values) == 2:
                    own = pairs.setdefault(judge, Counter())
                    for value, other in (values, values[::-1]):
                        yes, n = rates[judge, value]
                        own[value, value] += yes
                        own[value, other] += n - yes
    return pairs


def _swapped(pairs: Pairs) -> list[tuple[str, str]]:
    """Values a and b: texts asked for a are b, and those asked for b are not."""
    values = sorted({wanted for wanted, _ in pairs})
    of = {value: _asked(pairs, value) for value in values}
    usual = {a: max(values, key=lambda label: pairs[a, label]) for a in values}
    return [
        (a, b)
        for a, b in usual.items()
        if a != b != usual[b]
        and pairs[a, b] * of[b] > pairs[b, b] * of[a]
        and p_of_shares(pairs[a, b], of[a], pairs[b, b], of[b]) < LEVEL
    ]


def _asked(pairs: Pairs, value: str) -> int:
    return sum(n for (wanted, _), n in pairs.items() if wanted == value)

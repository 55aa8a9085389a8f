"""Texts that are there more than once: between seeds, prompts, systems, and from the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, combinations

from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Fault,
    Faults,
    Limits,
    Severity,
    Share,
    StudyPart,
    check,
    only,
    percent,
)
from levelfield.study.audit.texts import RUN, Text, runs_of, words_of
from levelfield.study.cells import Cell, grouped

_FEW = 3
_MOST = 0.8
_RUNS = 5


@check("identical-seeds", per="system")
def identical_seeds(part: StudyPart) -> Faults:
    """Seeds that changed nothing: cells that differ only in the seed and have the same texts.

    Texts are compared without blanks, case and punctuation, whichever request they answer. Of two
    that answer the same one, 80 % of their runs of 8 words are enough, in texts of 13 words.
    Serious if all texts of two seeds are the same: three such seeds are one observation, and their
    spread is not an uncertainty. A warning from 5 % of the texts on and 3 texts of 5 words (or 20
    letters), or from half of texts of any length. Cells without texts are compared by their
    published values: serious if at least 3 with 6 decimals or more agree in all digits. Silent with
    one seed.
    """
    same = pairs = 0
    alike: dict[str, set[int]] = {}
    examples: Sequence[Text] = ()
    bytes_too = True
    by_values: dict[str, set[int]] = {}
    for dataset, cells in grouped(part.cells, lambda cell: cell.key.dataset).items():
        answers = [_by_request(part.study.texts[cell.key]) for cell in cells]
        for (first, x), (second, y) in combinations(zip(cells, answers, strict=True), 2):
            equal, total = _equal_texts(x, y)
            long = [text for text in equal if text.letters]
            seeds = {first.key.seed, second.key.seed}
            if total and (2 * len(equal) >= total or len(long) >= max(_FEW, 0.05 * total)):
                alike.setdefault(dataset, set()).update(seeds)
                same, pairs = same + len(equal), pairs + total
                examples = examples or equal[:EXAMPLES]
                second_texts = {sample.text for sample in second.samples}
                bytes_too &= all(text.sample.text in second_texts for text in equal)
            elif not total and equal_values(first, second):
                by_values.setdefault(dataset, set()).update(seeds)
    if alike:
        severity: Severity = "serious" if same == pairs else "warning"
        how = (
            "byte for byte" if bytes_too else "except for blanks, case, punctuation or a few words"
        )
        sentence = f"the same text, {how}, in {percent(same, pairs)} of the pairs of texts"
        sentence += f" that differ only in the seed ({_sets(alike)})"
        yield Fault(severity, sentence, same, pairs, examples, dataset=only(alike))
    if by_values:
        sentence = f"published values agree in all digits between seeds ({_sets(by_values)})"
        n = sum(map(len, by_values.values()))
        yield Fault("serious", sentence, n, len(part.cells), dataset=only(by_values))


_Answers = Mapping[tuple[object, int], Text]
"""(request, turn) -> text."""


def _equal_texts(answers: _Answers, others: _Answers) -> tuple[list[Text], int]:
    """Texts of a cell that another has too, and how many requests both answer."""
    shared = answers.keys() & others.keys()
    long = {text.letters for text in others.values()} - {""}
    equal = [
        text
        for request, text in answers.items()
        if request in shared and (_say_the_same(text, others[request]) or text.letters in long)
    ]
    return equal, len(shared)


def _say_the_same(text: Text, other: Text) -> bool:
    """Returns whether the words are equal, or most runs of them, in texts of several.

    Of texts without words, what was written, if anything was.
    """
    if text.words or other.words:
        return text.words == other.words or _nearly_the_same(text, other)
    return bool(text.written) and text.written == other.written


def _nearly_the_same(text: Text, other: Text) -> bool:
    least, most = sorted((len(text.words), len(other.words)))
    if least < RUN + _RUNS or least < _MOST * most:
        return False
    runs, others = text.runs, other.runs
    return len(runs & others) >= _MOST * max(len(runs), len(others))


def _by_request(texts: Iterable[Text]) -> _Answers:
    """Returns texts by request; the turn distinguishes equal requests."""
    turns: Counter[object] = Counter()
    by_request: dict[tuple[object, int], Text] = {}
    for text in texts:
        by_request[text.request, turns[text.request]] = text
        turns[text.request] += 1
    return by_request


def equal_values(first: Cell, second: Cell) -> bool:
    """Returns whether enough published values of two cells agree in all digits."""
    values, others = ((set(cell.groups), set(cell.rates)) for cell in (first, second))
    # rates of few texts are the same now and then, a mean of logarithms is not
    exact = {group.value for group in first.groups if round(group.value, 5) != group.value}
    return values == others and len(exact) >= _FEW


def _sets(seeds: Mapping[str, set[int]]) -> str:
    return "; ".join(f"{d}: seeds {', '.join(map(str, sorted(s)))}" for d, s in seeds.items())


@check("identical-systems", per="control", limits=Limits(0.5, 0.05))
def identical_systems(part: StudyPart) -> Faults:
    """Two systems with the same texts, or with the same published values.

    Compared without blanks, case and punctuation, from 20 letters on, in one kind of control.
    Serious from half of the texts on, or if at least 3 published values with 6 decimals or more
    agree in all digits in a cell; a warning from 5 % and 3 texts on.
    """
    texts, cells = part.texts_of_systems, part.cells_of_systems
    letters = {s: {text.letters for text in texts.get(s, [])} - {""} for s in cells}
    for system, other in combinations(cells, 2):
        if shared := letters[system] & letters[other]:
            hits = [text for text in texts[system] if text.letters in shared]
            n, total = len(hits), len(texts[system])
            if n >= _FEW:
                sentence = f"{percent(n, total)} of the texts of {system} are also texts of {other}"
                dataset = only(text.key.dataset for text in hits)
                yield Fault(n / total, sentence, n, total, hits[:EXAMPLES], dataset=dataset)
        same = [
            cell
            for cell in cells[system]
            for twin in cells[other]
            if cell.key[1:] == twin.key[1:] and not cell.samples and equal_values(cell, twin)
        ]
        if same:
            sentence = f"published values of {system} and {other} agree in all digits"
            dataset = only(cell.key.dataset for cell in same)
            yield Fault("serious", sentence, len(same), len(cells[system]), dataset=dataset)


@check("identical-texts", per="system", limits=Limits(0.1, 0.02))
def identical_texts(part: StudyPart) -> Faults:
    """A system that writes the same text after different prompts of a dataset and seed.

    Compared without blanks, case and punctuation, from 5 words or 20 letters on.
    Serious from 10 % of its texts on, a warning from 2 %.
    """
    hits = [text for cell in part.cells for text in _said_elsewhere(part.study.texts[cell.key])]
    yield Share(
        "continue their prompt exactly as another text continues another prompt",
        hits,
        part.texts,
    )


def _said_elsewhere(texts: Sequence[Text]) -> list[Text]:
    same = grouped((text for text in texts if text.letters), lambda text: text.letters)
    return [
        text
        for group in same.values()
        if len({text.sample.prompt for text in group}) > 1
        for text in group
    ]


@check("copied-texts", per="system", limits=Limits(0.5, 0.02))
def copied_texts(part: StudyPart) -> Faults:
    """Texts that occur in the data: references or sources of any request, or training texts.

    A text is copied if what follows its prompt, or all of it, is such a text, compared without
    blanks, case and punctuation, from 5 words or 20 letters on; or if 80 % of its runs of 8 words
    occur in references or training texts. Serious from half of the texts on: judges and metrics
    then measure the data; a warning from 2 %. Silent where the study knows none of these.
    """
    exact, runs = part.study.fact(_data)
    texts = [text for text in part.texts if text.letters]
    hits = [text for text in texts if _stands_in(text, exact, runs)] if exact or runs else []
    yield Share("occur word for word in the references, sources or training texts", hits, texts)


def _data(study: AuditedStudy) -> tuple[Set[str], Set[tuple[str, ...]]]:
    """Returns letters and runs of words of the data, only those that the study's texts have."""
    samples = [sample for cell in study.cells for sample in cell.samples]
    sources = {sample.source for sample in samples} - {""}
    references = {reference for sample in samples for reference in sample.references}
    if not (sources or references or study.training):
        return set(), set()
    texts = [text for group in study.texts.values() for text in group if text.letters]
    letters = {text.letters for text in texts} | {_letters(text.sample.text) for text in texts}
    runs = {run for text in texts for run in text.runs}
    exact = {_letters(source) for source in sources}
    copied: set[tuple[str, ...]] = set()
    for line in chain(references, study.training):
        words = words_of(line)
        exact |= {"".join(words)} & letters
        copied |= runs_of(words, RUN) & runs
    return exact, copied


def _letters(text: str) -> str:
    return "".join(words_of(text))


def _stands_in(text: Text, exact: Set[str], runs: Set[tuple[str, ...]]) -> bool:
    if text.letters in exact or _letters(text.sample.text) in exact:
        return True
    text_runs = text.runs
    return bool(text_runs) and len(text_runs & runs) >= _MOST * len(text_runs)

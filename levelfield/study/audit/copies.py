"""Texts that are there more than once: between seeds, prompts, systems, and from the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import chain, combinations

from levelfield.study.audit.findings import (
    EXAMPLES,
    AuditedStudy,
    Finding,
    Limits,
    Severity,
    grouped,
    only,
    percent,
    share_found,
    shown,
)
from levelfield.study.audit.texts import RUN, Text, runs_of, words_of
from levelfield.study.cells import Cell

_FEW = 3
_MOST = 0.8
_RUNS = 5


def identical_seeds(study: AuditedStudy) -> list[Finding]:
    """Seeds that changed nothing: cells that differ in the seed only and have the same texts.

    Texts are compared without blanks, case and punctuation, whichever request they answer. Of two
    that answer the same one, 80 % of their runs of 8 words are enough, in texts of 13 words.
    Serious if all texts of two seeds are the same: three such seeds are one observation, and their
    spread is no uncertainty. A warning from 5 % of the texts on and 3 texts of 5 words (or 20
    letters), or from half of texts of any length. Cells without texts are compared by their
    published values: serious if at least 3 with 6 decimals or more agree in all digits. Silent with
    one seed.
    """
    findings = []
    for (system, control), cells in study.systems.items():
        same = pairs = 0
        alike: dict[str, set[int]] = {}
        examples: Sequence[Text] = ()
        bytes_too = True
        by_values: dict[str, set[int]] = {}
        for dataset, seeds in grouped(cells, lambda cell: cell.key.dataset).items():
            for first, second in combinations(seeds, 2):
                equal, of = _equal_texts(study.texts[first.key], study.texts[second.key])
                long = [text for text in equal if text.letters]
                both = {first.key.seed, second.key.seed}
                if of and (2 * len(equal) >= of or len(long) >= max(_FEW, 0.05 * of)):
                    alike.setdefault(dataset, set()).update(both)
                    same, pairs = same + len(equal), pairs + of
                    examples = examples or equal[:EXAMPLES]
                    theirs = {sample.text for sample in second.samples}
                    bytes_too &= all(text.sample.text in theirs for text in equal)
                elif not of and equal_values(first, second):
                    by_values.setdefault(dataset, set()).update(both)
        if alike:
            severity: Severity = "serious" if same == pairs else "warning"
            how = "byte for byte" if bytes_too else "but for blanks, case, punctuation or few words"
            what = f"the same text, {how}, in {percent(same, pairs)} of the pairs of texts"
            what += f" that differ in the seed only ({_sets(alike)})"
            where = (system, only(alike), control, None)
            numbers = (what, same, pairs, shown(examples))
            findings.append(Finding("identical-seeds", severity, *where, *numbers))
        if by_values:
            what = f"published values agree in all digits between seeds ({_sets(by_values)})"
            n = sum(map(len, by_values.values()))
            where = (system, only(by_values), control, None)
            findings.append(Finding("identical-seeds", "serious", *where, what, n, len(cells)))
    return findings


def _equal_texts(one: Sequence[Text], other: Sequence[Text]) -> tuple[list[Text], int]:
    """Texts of the first cell that the second has too, and how many requests both answer."""
    ours, theirs = _by_request(one), _by_request(other)
    both = ours.keys() & theirs.keys()
    long = {text.letters for text in theirs.values()} - {""}
    equal = [
        text
        for request, text in ours.items()
        if request in both and (_say_the_same(text, theirs[request]) or text.letters in long)
    ]
    return equal, len(both)


def _say_the_same(one: Text, other: Text) -> bool:
    """Whether the words are equal, or most runs of them, in texts of several.

    Of texts without words, what was written, if anything was.
    """
    if one.words or other.words:
        return one.words == other.words or _nearly_the_same(one, other)
    return bool(one.written) and one.written == other.written


def _nearly_the_same(one: Text, other: Text) -> bool:
    least, most = sorted((len(one.words), len(other.words)))
    if least < RUN + _RUNS or least < _MOST * most:
        return False
    runs, others = one.runs, other.runs
    return len(runs & others) >= _MOST * max(len(runs), len(others))


def _by_request(texts: Iterable[Text]) -> dict[tuple[object, int], Text]:
    """Texts by request; a request that was made several times is told apart by its turn."""
    turns: Counter[object] = Counter()
    by_request: dict[tuple[object, int], Text] = {}
    for text in texts:
        by_request[text.request, turns[text.request]] = text
        turns[text.request] += 1
    return by_request


def equal_values(first: Cell, second: Cell) -> bool:
    """Whether the published values of two cells agree in all digits, and there are enough."""
    one, other = ((set(cell.groups), set(cell.rates)) for cell in (first, second))
    # rates of few texts are the same now and then, a mean of logarithms is not
    exact = {group.value for group in first.groups if round(group.value, 5) != group.value}
    return one == other and len(exact) >= _FEW


def _sets(seeds: Mapping[str, set[int]]) -> str:
    return "; ".join(f"{d}: seeds {', '.join(map(str, sorted(s)))}" for d, s in seeds.items())


def identical_texts(study: AuditedStudy) -> list[Finding]:
    """A system that writes the same after different prompts of a dataset and seed.

    Compared without blanks, case and punctuation, from 5 words or 20 letters on.
    Serious from 10 % of its texts on, a warning from 2 %.
    """
    findings = []
    for cells in study.systems.values():
        texts = study.of_system(cells)
        hits = [text for cell in cells for text in _said_elsewhere(study.texts[cell.key])]
        what = "say after their prompt exactly what another text says after another prompt"
        findings += share_found("identical-texts", Limits(0.1, 0.02), what, hits, texts)
    return findings


def _said_elsewhere(texts: Sequence[Text]) -> list[Text]:
    same = grouped((text for text in texts if text.letters), lambda text: text.letters)
    return [t for of in same.values() if len({x.sample.prompt for x in of}) > 1 for t in of]


def identical_systems(study: AuditedStudy) -> list[Finding]:
    """Two systems with the same texts, or with the same published values.

    Compared without blanks, case and punctuation, from 20 letters on, in one kind of control.
    Serious from half of the texts on, or if at least 3 published values with 6 decimals or more
    agree in all digits in a cell; a warning from 5 % and 3 texts on.
    """
    findings = []
    for control, cells in study.controls.items():
        systems = grouped(cells, lambda cell: cell.key.system)
        texts = {system: study.of_system(own) for system, own in systems.items()}
        letters = {s: {text.letters for text in of} - {""} for s, of in texts.items()}
        for one, other in combinations(systems, 2):
            if shared := letters[one] & letters[other]:
                hits = [text for text in texts[one] if text.letters in shared]
                severity = Limits(0.5, 0.05).severity(len(hits) / len(texts[one]))
                if severity and len(hits) >= _FEW:
                    share = percent(len(hits), len(texts[one]))
                    what = f"{share} of the texts of {one} are texts of {other} too"
                    numbers = (what, len(hits), len(texts[one]), shown(hits[:EXAMPLES]))
                    where = ("", only({text.key.dataset for text in hits}), control, None)
                    findings.append(Finding("identical-systems", severity, *where, *numbers))
            same = [
                a
                for a in systems[one]
                for b in systems[other]
                if a.key[1:] == b.key[1:] and not a.samples and equal_values(a, b)
            ]
            if same:
                what = f"published values of {one} and {other} agree in all digits"
                numbers = (what, len(same), len(systems[one]), ())
                where = ("", only({cell.key.dataset for cell in same}), control, None)
                findings.append(Finding("identical-systems", "serious", *where, *numbers))
    return findings


def copied_texts(study: AuditedStudy) -> list[Finding]:
    """Texts that stand in the data: references or sources of any request, or training texts.

    A text is copied if what follows its prompt, or all of it, is such a text, compared without
    blanks, case and punctuation, from 5 words or 20 letters on; or if 80 % of its runs of 8 words
    stand in references or training texts. Serious from half of the texts on: judges and metrics
    then measure the data; a warning from 2 %. Silent where the study knows none of these.
    """
    samples = [sample for cell in study.cells for sample in cell.samples]
    sources = {sample.source for sample in samples} - {""}
    references = {reference for sample in samples for reference in sample.references}
    if not (sources or references or study.training):
        return []
    texts_of = {
        where: [text for text in study.of_system(cells) if text.letters]
        for where, cells in study.systems.items()
    }
    every = [text for of in texts_of.values() for text in of]
    letters = {text.letters for text in every} | {_letters(text.sample.text) for text in every}
    runs = {run for text in every for run in text.runs}
    # of data of any size, only what stands in texts is kept
    exact = {_letters(source) for source in sources}
    copied: set[tuple[str, ...]] = set()
    for line in chain(references, study.training):
        words = words_of(line)
        exact |= {"".join(words)} & letters
        copied |= runs_of(words, RUN) & runs
    findings = []
    for texts in texts_of.values() if exact or copied else ():
        hits = [text for text in texts if _stands_in(text, exact, copied)]
        what = "stand word for word in the references, sources or training texts"
        findings += share_found("copied-texts", Limits(0.5, 0.02), what, hits, texts)
    return findings


def _letters(text: str) -> str:
    return "".join(words_of(text))


def _stands_in(text: Text, exact: Set[str], runs: Set[tuple[str, ...]]) -> bool:
    if text.letters in exact or _letters(text.sample.text) in exact:
        return True
    own = text.runs
    return bool(own) and len(own & runs) >= _MOST * len(own)

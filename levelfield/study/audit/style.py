"""Do the texts of a system differ from those of others in length or style?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import fmean, median

from levelfield.study.audit.findings import (
    EXAMPLES,
    LEVEL,
    Fault,
    Faults,
    Limits,
    Severity,
    StudyPart,
    check,
    p_of_more,
    p_of_shares,
    percent,
)
from levelfield.study.audit.texts import STYLE, Text, length_of
from levelfield.study.cells import grouped

FOREIGN = "contain mostly words that none of the others use"
SCRIPT = "are in another script than most texts"
FEATURES = (*STYLE, SCRIPT, FOREIGN)

# `cut-text` says who is cut, and names and signs beyond ASCII may be those of a topic
_CUT = "end in mid-sentence"
_WHERE_LACKING = (_CUT, "contain letters beyond ASCII")
_ENOUGH = 15
_APART = 0.4
_RARE = 0.1
_NEVER = 0.005
_WHOLE = 0.15
_FOREIGN = 0.6
_WORDS = 6

Shares = Mapping[str, tuple[int, int]]
"""Feature -> how many texts have it, of how many."""


_RATIO = 1.49
_ENOUGH_LENGTHS = 30
_PILED = 0.1


@check("length-differs", per="control")
def length_differs(part: StudyPart) -> Faults:
    """Systems that write much more than others for the same requests.

    Compared: the median number of words after the prompt, of the longest and the shortest system
    in a dataset and kind of control. A warning from a factor of 2 on, serious from 4 on, without a
    test: diversity, fluency and judges all depend on length. One finding a kind of control, for the
    dataset where the factor is largest. If no median differs by a factor of 2, a warning where the
    means over the datasets that all systems have differ by a factor of 1.49, that factor less 4 of
    its standard errors is 1.3 or more, and both have 30 texts. Words are separated by white space;
    scripts without blanks are counted in characters.
    """
    texts = grouped(part.texts, lambda text: text.key.dataset)
    worst = max(map(_median_factor, texts.items()), default=None, key=lambda item: item[0])
    severity = Limits(4, 2).severity(worst[0]) if worst else None
    if severity and worst:
        factor, dataset, lengths = worst
        where = dataset if len(texts) == 1 else ""
        kind = "medians"
    else:
        severity, where, kind = "warning", "", "means"
        factor, dataset, lengths = _mean_factor(part.texts_of_systems)
        if not lengths:
            return
    order = sorted(lengths, key=lambda system: lengths[system])
    shortest, longest = order[0], order[-1]
    on = f" on {dataset}" if dataset else ""
    sentence = (
        f"texts of {longest} are {factor:.1f} times as long as those of {shortest}{on}: "
        f"{kind} of {lengths[longest]:.4g} and {lengths[shortest]:.4g} words "
        f"after the prompt; all systems: "
        + ", ".join(f"{system} {lengths[system]:.4g}" for system in order)
    )
    n = sum(2 * lengths[system] <= lengths[longest] for system in order)
    yield Fault(severity, sentence, n, len(order), dataset=where)


def _median_factor(item: tuple[str, Sequence[Text]]) -> tuple[float, str, Mapping[str, float]]:
    """Returns the factor between the medians of the systems on a dataset; 0 with one system."""
    dataset, texts = item
    systems = grouped(texts, lambda text: text.key.system)
    medians = {system: float(median(t.length for t in texts)) for system, texts in systems.items()}
    if len(medians) < 2:
        return 0.0, dataset, medians
    return max(medians.values()) / max(min(medians.values()), 1), dataset, medians


def _mean_factor(systems: Mapping[str, Sequence[Text]]) -> tuple[float, str, Mapping[str, float]]:
    """Returns the factor between the means of the systems; no means unless it is large and sure."""
    datasets = [{text.key.dataset for text in texts} for texts in systems.values()]
    shared = set.intersection(*datasets) if datasets else set()
    lengths = {
        system: [text.length for text in texts if text.key.dataset in shared]
        for system, texts in systems.items()
    }
    means = {s: fmean(values) for s, values in lengths.items() if len(values) >= _ENOUGH_LENGTHS}
    if len(means) < 2 or not min(means.values()):
        return 0.0, "", {}
    shortest, longest = (pick(means, key=lambda s: means[s]) for pick in (min, max))
    factor = means[longest] / means[shortest]
    error = sum(
        _variance(lengths[s]) / means[s] ** 2 / len(lengths[s]) for s in (shortest, longest)
    )
    sure = factor * (1 - 4 * error**0.5) >= 1.3
    return factor, "", means if factor >= _RATIO and sure else {}


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean((value - mean) ** 2 for value in values)


_UNITS: Mapping[str, Callable[[Text], int]] = {
    "words after the prompt": lambda text: text.length,
    "words": lambda text: length_of(text.sample.text),
    "characters after the prompt": lambda text: len(text.written),
    "characters": lambda text: len(text.sample.text),
}


@check("cut-at-length", per="control")
def cut_at_length(part: StudyPart) -> Faults:
    """Texts that pile up at the largest length: they were cut at a number of words or characters.

    Counted: the texts of a system, or of one seed, that have exactly the largest number of words
    or characters, with the prompt or without it. Lengths that nothing cuts thin out towards the
    largest: the finding needs 10 % of the texts there, and more of them than at the next smaller
    number, by a binomial test with p < 1e-7. A warning; a note if it is the same for
    all systems, which then had one budget. Silent below 30 texts, and where all texts of all
    systems have one length each.
    """
    piled: dict[str, tuple[int, str, list[Text], list[Text]]] = {}
    varied = False
    systems = part.texts_of_systems
    for system, texts in systems.items():
        texts = [text for text in texts if text.letters]
        varied |= len({text.length for text in texts}) > 1
        seeds = list(grouped(texts, lambda text: text.key.seed).values())
        for group in (texts, *(seeds if len(seeds) > 1 else ())):
            if pile := _piled(group):
                piled[system] = (*pile, texts)
                break
    ends = {(number, unit) for number, unit, *_ in piled.values()}
    one_budget = len(ends) == 1 and len(piled) == len(systems) > 1
    severity: Severity = "note" if one_budget else "warning"
    for number, unit, hits, texts in piled.values() if varied else ():
        sentence = (
            f"{len(hits):,} texts ({percent(len(hits), len(texts))}) have exactly {number} "
            f"{unit} and none has more, as if they had been cut there"
        )
        yield Fault.from_texts(severity, sentence, hits, texts)


def _piled(texts: Sequence[Text]) -> tuple[int, str, list[Text]] | None:
    """Returns the largest number, its unit, and the texts that have it, if they are too many."""
    if len(texts) < _ENOUGH_LENGTHS:
        return None
    for unit, length in _UNITS.items():
        counts = Counter(map(length, texts))
        largest = max(counts)
        # equal texts are counted once
        hits = [text for text in texts if length(text) == largest]
        n = len({text.letters for text in hits})
        if n >= _PILED * len(texts):
            below = max(counts[largest - 1], counts[largest - 2])
            if p_of_more(n, n + below, 0.5) < LEVEL:
                return largest, unit, hits
    return None


@check("style-differs", per="control")
def style_differs(part: StudyPart) -> Faults:
    """A system whose texts have a feature of style that those of all others lack, or the reverse.

    Features are those of `STYLE`: case, punctuation, sentences, line breaks, digits, quotes. Also
    the script, and words that no other system uses, as another language has and another source. A
    warning where the system is 40 points from the nearest other with Fisher's p < 1e-7 against
    each, and either at most 10 % (or at least 90 %) of the texts of every other system have it, or
    at most 0.5 % of its own, with all others above it (or all but 0.5 %, with all others below).
    Texts that end in mid-sentence: at most 15 % of its own, and half of those of every other.
    One finding a system; of two systems that differ in this way from each other, one finding that
    names none. Silent below 15 texts.
    """
    texts = [text for text in part.texts if text.written]
    systems = grouped(texts, lambda text: text.key.system)
    features = features_of(texts, lambda text: text.key.system)
    shares = {
        system: shares_of(system_texts, features)
        for system, system_texts in systems.items()
        if len(system_texts) >= _ENOUGH
    }
    all_odd = {
        system: odd
        for system, counts in shares.items()
        if (odd := [f for f in FEATURES if _is_odd(f, counts, _others(shares, system))])
    }
    # of two systems, either may be the odd one
    either = len(shares) == 2 and len(all_odd) == 2
    for system in sorted(all_odd)[:1] if either else all_odd:
        counts, odd, others = shares[system], all_odd[system], _others(shares, system)
        contrasts = "; ".join(
            f"{percent(*counts[f])} {f} ({_range([o[f] for o in others])} of the other systems)"
            for f in odd
        )
        k, n = counts[odd[0]]
        hits = [t for t in systems[system] if (odd[0] in features[t.sample.id]) == (2 * k > n)]
        who = f"of {system} " if either else ""
        yield Fault(
            "warning",
            f"texts {who}look unlike those of the other systems: {contrasts}",
            len(hits),
            len(systems[system]),
            hits[:EXAMPLES],
            "" if either else system,
        )


def features_of(
    texts: Sequence[Text], owner: Callable[[Text], Hashable]
) -> Mapping[str, frozenset[str]]:
    """Returns sample id -> features of the text; foreign words are those of one group alone."""
    scripts = Counter(text.script for text in texts)
    usual = max(scripts, key=lambda script: scripts[script], default="")
    groups = grouped(texts, owner).values()
    users = Counter(w for group in groups for w in {word for text in group for word in text.words})
    shared = {word for word, n in users.items() if n > 1}
    features = {}
    for text in texts:
        more = set()
        if text.script not in ("", usual):
            more.add(SCRIPT)
        foreign = sum(word not in shared for word in text.words)
        if len(text.words) >= _WORDS and foreign >= _FOREIGN * len(text.words):
            more.add(FOREIGN)
        features[text.sample.id] = text.style | more
    return features


def shares_of(texts: Sequence[Text], features: Mapping[str, frozenset[str]]) -> Shares:
    counts = Counter(feature for text in texts for feature in features[text.sample.id])
    return {feature: (counts[feature], len(texts)) for feature in FEATURES}


def _others(shares: Mapping[str, Shares], system: str) -> Sequence[Shares]:
    return [counts for name, counts in shares.items() if name != system]


def _is_odd(feature: str, counts: Shares, others: Sequence[Shares]) -> bool:
    a, n = counts[feature]
    if feature in _WHERE_LACKING and 2 * a > n:
        return False
    shares = [a / n for a, n in (other[feature] for other in others)]
    if not others or min(abs(a / n - share) for share in shares) < _APART:
        return False
    rest_agrees = max(shares) <= _RARE or min(shares) >= 1 - _RARE
    alone = min(a, n - a) <= _NEVER * n and (min(shares) > a / n or max(shares) < a / n)
    if feature == _CUT:
        # texts cut at a budget end with a sentence now and then, those cut to sentences always do
        alone = alone or (a <= _WHOLE * n and min(shares) >= 0.5)
    return (rest_agrees or alone) and all(
        p_of_shares(a, n, *other[feature]) < LEVEL for other in others
    )


def _range(shares: Sequence[tuple[int, int]]) -> str:
    ends = [pick(shares, key=lambda share: share[0] / share[1]) for pick in (min, max)]
    low, high = (percent(*end) for end in ends)
    return low if low == high else f"{low} to {high}"

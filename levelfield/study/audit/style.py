"""Do the texts of one system look unlike those of all others?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from levelfield.study.audit.findings import (
    EXAMPLES,
    LEVEL,
    AuditedStudy,
    Finding,
    grouped,
    p_of_shares,
    percent,
    shown,
)
from levelfield.study.audit.texts import STYLE, Text

FOREIGN = "hold mostly words that none of the others use"
SCRIPT = "are in another script than most texts"
FEATURES = (*STYLE, SCRIPT, FOREIGN)

# `cut-text` says who is cut, and names and signs beyond ASCII may be those of a topic
_CUT = "end in mid-sentence"
_WHERE_LACKING = (_CUT, "hold letters beyond ASCII")
_ENOUGH = 15
_APART = 0.4
_RARE = 0.1
_NEVER = 0.005
_WHOLE = 0.15
_FOREIGN = 0.6
_WORDS = 6

Shares = Mapping[str, tuple[int, int]]
"""Feature -> how many texts have it, of how many."""


def style_differs(study: AuditedStudy) -> list[Finding]:
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
    findings = []
    for control, cells in study.controls.items():
        texts = [text for text in study.of_system(cells) if text.written]
        systems = grouped(texts, lambda text: text.key.system)
        features = features_of(texts, lambda text: text.key.system)
        shares = {
            system: shares_of(own, features)
            for system, own in systems.items()
            if len(own) >= _ENOUGH
        }
        all_odd = {
            system: odd
            for system, own in shares.items()
            if (odd := [f for f in FEATURES if _is_odd(f, own, _others(shares, system))])
        }
        # of two systems, nobody knows which is the odd one
        either = len(shares) == 2 and len(all_odd) == 2
        for system in sorted(all_odd)[:1] if either else all_odd:
            own, odd, others = shares[system], all_odd[system], _others(shares, system)
            told = "; ".join(
                f"{percent(*own[f])} {f} ({_range([of[f] for of in others])} of the other systems)"
                for f in odd
            )
            has = 2 * own[odd[0]][0] > own[odd[0]][1]
            hits = [t for t in systems[system] if (odd[0] in features[t.sample.id]) == has]
            who = f"of {system} " if either else ""
            what = f"{who}look unlike those of the other systems: {told}"
            numbers = (what, len(hits), len(systems[system]), shown(hits[:EXAMPLES]))
            where = ("" if either else system, "", control, None)
            findings.append(Finding("style-differs", "warning", *where, *numbers))
    return findings


def features_of(
    texts: Sequence[Text], group: Callable[[Text], Hashable]
) -> Mapping[str, frozenset[str]]:
    """Sample id -> features of the text; foreign words are those of one group alone."""
    scripts = Counter(text.script for text in texts)
    usual = max(scripts, key=lambda script: scripts[script], default="")
    groups = grouped(texts, group).values()
    users = Counter(w for own in groups for w in {word for text in own for word in text.words})
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
    return [of for name, of in shares.items() if name != system]


def _is_odd(feature: str, own: Shares, others: Sequence[Shares]) -> bool:
    a, n = own[feature]
    if feature in _WHERE_LACKING and 2 * a > n:
        return False
    shares = [of[feature][0] / of[feature][1] for of in others]
    if not others or min(abs(a / n - share) for share in shares) < _APART:
        return False
    rest_agrees = max(shares) <= _RARE or min(shares) >= 1 - _RARE
    alone = min(a, n - a) <= _NEVER * n and (min(shares) > a / n or max(shares) < a / n)
    if feature == _CUT:
        # texts cut at a budget end with a sentence now and then, those cut to sentences always do
        alone = alone or (a <= _WHOLE * n and min(shares) >= 0.5)
    return (rest_agrees or alone) and all(p_of_shares(a, n, *of[feature]) < LEVEL for of in others)


def _range(shares: Sequence[tuple[int, int]]) -> str:
    ends = [pick(shares, key=lambda share: share[0] / share[1]) for pick in (min, max)]
    low, high = (percent(*end) for end in ends)
    return low if low == high else f"{low} to {high}"

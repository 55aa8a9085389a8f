"""Does a share of one system's texts contain something that no other system writes?"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from levelfield.study.audit.findings import (
    EXAMPLES,
    LEVEL,
    Fault,
    Faults,
    StudyPart,
    check,
    p_of_more,
    p_of_shares,
    percent,
)
from levelfield.study.audit.texts import Text

_FEW = 5
_SHARE = 0.03
_QUESTIONS = 0.1
_ELSEWHERE = 0.05
_TIMES = 4
_SURE = 1e-5
_ENOUGH = 30
_FOREIGN = 0.6
_WORDS = 6

_LINK = re.compile(r"https?://\S|\bwww\.\w")
_SPACES = re.compile("[\u00a0\u202f\u2007]")


def _apart(text: Text) -> bool:
    return not text.written.isascii() and not unicodedata.is_normalized("NFC", text.written)


_QUESTION = "end with a question"
HABITS: Mapping[str, Callable[[Text], bool]] = {
    _QUESTION: lambda t: t.written.rstrip("\"'”’») ").endswith(("?", "？")),
    "contain the address of a web page": lambda t: bool(_LINK.search(t.written)),
    "contain letters and accents as two characters (not NFC)": _apart,
    "contain no-break spaces": lambda t: bool(_SPACES.search(t.written)),
}
"""What a share of the texts of a system may have, and whether a text has it."""


@check("only-one-system", per="control")
def only_one_system(part: StudyPart) -> Faults:
    """A share of a system's texts has a feature that those of no other system have.

    Looked for: a question as the end, the address of a page, accents that are characters of their
    own, no-break spaces, and texts 60 % of whose words (6 or more) are in at most one of a thousand
    texts of other systems, as another language has. A warning from 3 % of the system's texts on,
    of questions from 10 %, and 5 texts, where at most 5 % of every other system's texts have it,
    and at most a quarter of that share, by Fisher's exact test against all others with p < 1e-5.
    Silent with one system, and for systems of fewer than 30 texts.
    """
    systems = {
        system: [text for text in texts if text.written]
        for system, texts in part.texts_of_systems.items()
    }
    hits = {
        "are in words that no other system uses": _foreign(systems),
        **{
            habit: {s: [t for t in texts if has(t)] for s, texts in systems.items()}
            for habit, has in HABITS.items()
        },
    }
    for habit, system_hits in hits.items():
        counts = {s: (len(matches), len(systems[s])) for s, matches in system_hits.items()}
        least = _QUESTIONS if habit == _QUESTION else _SHARE
        for system, matches in system_hits.items():
            others = [counts[name] for name in counts if name != system]
            if _is_alone(counts[system], others, least):
                k, n = counts[system]
                rest = max(others, key=lambda count: count[0] / count[1])
                sentence = (
                    f"{k:,} of {n:,} texts ({percent(k, n)}) {habit}; at most "
                    f"{percent(*rest)} of those of any other system do"
                )
                yield Fault("warning", sentence, k, n, matches[:EXAMPLES], system)


def _is_alone(count: tuple[int, int], others: Sequence[tuple[int, int]], least: float) -> bool:
    k, n = count
    if not others or min(n, *(m for _, m in others)) < _ENOUGH or k < max(_FEW, least * n):
        return False
    most = max(a / m for a, m in others)
    a, m = (sum(numbers) for numbers in zip(*others, strict=True))
    return most <= min(_ELSEWHERE, k / n / _TIMES) and p_of_shares(k, n, a, m) < _SURE


def _foreign(systems: Mapping[str, Sequence[Text]]) -> dict[str, list[Text]]:
    """Returns system -> its texts of words that are rare in the texts of others: 1 in 1,000."""
    users = {
        system: Counter(word for text in texts for word in set(text.words))
        for system, texts in systems.items()
    }
    all_users = sum(users.values(), Counter[str]())
    number = sum(map(len, systems.values()))

    def is_foreign(text: Text, system: str) -> bool:
        most = (number - len(systems[system])) // 1_000
        foreign = sum(all_users[word] - users[system][word] <= most for word in text.words)
        return len(text.words) >= _WORDS and foreign >= _FOREIGN * len(text.words)

    return {s: [text for text in texts if is_foreign(text, s)] for s, texts in systems.items()}


_DOUBLED = 0.02


@check("doubled-words", per="control")
def doubled_words(part: StudyPart) -> Faults:
    """A system that writes words twice in a row, as a faulty tokenizer or a joint of texts does.

    Counted: words that are the same as the one before, of all words. A warning where 2 % of the
    words of a system are and 5 or more, four times the share of every other system, by a binomial
    test against the largest of those with p < 1e-7. Silent with one system.
    """
    counts = {
        system: (sum(_doubles(text) for text in texts), sum(len(text.words) for text in texts))
        for system, texts in part.texts_of_systems.items()
    }
    for system, (k, n) in counts.items():
        others = [(a + 1) / (m + 1) for name, (a, m) in counts.items() if name != system]
        if not others or k < max(_FEW, _DOUBLED * n) or k < _TIMES * max(others) * n:
            continue
        if p_of_more(k, n, max(others)) < LEVEL:
            hits = [text for text in part.texts_of_systems[system] if _doubles(text)]
            sentence = (
                f"{percent(k, n)} of the words repeat the word before, in {len(hits):,} texts; at "
                f"most {percent(max(others), 1)} of those of any other system do"
            )
            yield Fault.from_texts("warning", sentence, hits, part.texts_of_systems[system])


def _doubles(text: Text) -> int:
    return sum(a == b for a, b in pairwise(text.words))

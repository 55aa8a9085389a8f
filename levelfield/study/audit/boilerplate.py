"""Words that one system puts into its texts, whatever the prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from levelfield.study.audit.findings import AuditedStudy, Finding, Limits, grouped, share_found
from levelfield.study.audit.texts import Text, runs_of, words_of

_EDGE = 15
_SAMPLE = 150
_SHARE = 0.3
_ELSEWHERE = 0.02
_TEXTS = 8
_PROMPTS = 5


def boilerplate(study: AuditedStudy) -> list[Finding]:
    """Words in a row that one system writes after many prompts and no other system does.

    An instruction that was left in, a greeting, an advertisement. Counted: the texts with the same
    3 words in a row among their first or last 15, which their prompts do not hold. Serious from
    half of a system's texts on, a warning from 30 % (8 texts, after 5 prompts), where at most 2 %
    of the texts of each other system have them. Silent with one system.
    """
    findings = []
    for cells in study.controls.values():
        systems = grouped(study.of_system(cells), lambda text: text.key.system)
        edges = {s: [f" {' '.join(_edges(text))} " for text in own] for s, own in systems.items()}
        for system, own in systems.items() if len(systems) > 1 else ():
            others = [texts for name, texts in edges.items() if name != system]
            least = max(_TEXTS, _SHARE * len(own))
            runs = {
                run: n
                for run in _candidates(own)
                if (n := sum(run in words for words in edges[system])) >= least
                and all(sum(run in t for t in of) <= _ELSEWHERE * len(of) for of in others)
            }
            pairs = zip(own, edges[system], strict=True)
            hits = [text for text, words in pairs if any(run in words for run in runs)]
            if len(hits) >= _TEXTS and len({text.sample.prompt for text in hits}) >= _PROMPTS:
                most = max(runs, key=lambda run: (runs[run], run))  # runs come out of a set
                what = f"say what no other system says, e.g. '{most.strip()}'"
                findings += share_found("boilerplate", Limits(0.5, _SHARE), what, hits, own)
    return findings


def _candidates(texts: Sequence[Text]) -> Sequence[str]:
    """Runs of 3 words, with blanks around them, in 15 % of some of the texts."""
    some = texts[:: max(1, len(texts) // _SAMPLE)]
    counts = Counter(run for text in some for run in _runs(text))
    return [run for run, n in counts.items() if n >= max(_TEXTS, _SHARE * len(some)) / 2]


def _edges(text: Text) -> list[str]:
    """The first and the last words."""
    words = text.words
    return words if len(words) <= 2 * _EDGE else [*words[:_EDGE], "", *words[-_EDGE:]]


def _runs(text: Text) -> set[str]:
    own, prompt = (
        {f" {' '.join(run)} " for run in runs_of(words, 3)}
        for words in (_edges(text), words_of(text.sample.prompt))
    )
    return own - prompt

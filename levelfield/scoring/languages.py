"""Texts in languages that what a metric reads them with does not read."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from levelfield.core.metric import Metric, guarded
from levelfield.metrics.catalogue import model_names
from levelfield.models.languages import Languages, languages_of_models
from levelfield.text import languages as detector
from levelfield.text.languages import NAMES, detects

MOST_TEXTS = 300
"""So many texts of a run are judged at most, at equal distances."""

_MOST_NAMED = 5


def languages_read(metric: Metric) -> Mapping[str, Languages]:
    """Reader -> the languages that it reads, of all readers of a metric that read certain ones: its
    models, and what it names besides."""
    with guarded(metric, "can't report the languages that it reads"):
        declared: Mapping[str, Languages] = getattr(metric, "languages", {})
        return {**languages_of_models(model_names(metric)), **declared}


class LanguageTally:
    """Counts the languages of texts, if a metric of a run reads certain ones only.

    Args:
        metrics: of the run.
        n: texts of the run.
    """

    def __init__(self, metrics: Sequence[Metric], n: int) -> None:
        self._readers: dict[Languages, dict[str, list[str]]] = defaultdict(dict)
        for metric in metrics:
            for reader, read in languages_read(metric).items():
                self._readers[read].setdefault(metric.name, []).append(reader)
        self._step = max(1, math.ceil(n / MOST_TEXTS))
        self._seen = 0
        self._languages: Counter[str] = Counter()
        self._judged = 0

    def add(self, texts: Iterable[str]) -> None:
        """Takes in texts; the detector is loaded with the first."""
        if not self._readers or not detects():
            return
        for text in texts:
            if self._seen % self._step == 0:
                self._judged += 1
                if language := detector.language(text):
                    self._languages[language] += 1
            self._seen += 1

    def notes(self) -> list[str]:
        """Returns a note for each set of languages that some texts are not in."""
        if self._readers and not detects():
            return [
                f"whether the texts are in languages that {_listed(self._metric_names())} can read "
                f"is not checked: {detector.DETECTOR} is not installed"
            ]
        return [
            self._note(read, readers, foreign)
            for read, readers in self._readers.items()
            if (foreign := self._outside(read))
        ]

    def unread(self) -> dict[str, int]:
        """Returns language -> texts, of languages that a metric of the run does not read."""
        return {k: v for read in self._readers for k, v in self._outside(read).items()}

    def _outside(self, read: Languages) -> dict[str, int]:
        return {code: n for code, n in self._languages.most_common() if code not in read}

    def _metric_names(self) -> list[str]:
        return list(dict.fromkeys(name for names in self._readers.values() for name in names))

    def _note(
        self, read: Languages, readers: Mapping[str, Sequence[str]], foreign: Mapping[str, int]
    ) -> str:
        k = sum(foreign.values())
        sampled = " that were looked at" if self._step > 1 else ""
        names = [f"{NAMES.get(code, code)} {n:,}" for code, n in foreign.items()]
        reader_names = list(dict.fromkeys(reader for names in readers.values() for reader in names))
        return (
            f"{k:,} of {self._judged:,} texts{sampled} {'does' if k == 1 else 'do'} not look like "
            f"{' or '.join(NAMES.get(code, code) for code in sorted(read))}, which "
            f"{_listed(list(readers))} {'reads' if len(readers) == 1 else 'read'} "
            f"({_listed(reader_names, len(reader_names))}): {_listed(names)}; their values are "
            f"kept but say little; {_offer(reader_names)}"
        )


def _offer(readers: Sequence[str]) -> str:
    """Returns what reads other languages in place of these readers."""
    offers = []
    if any("=" not in reader and not reader.startswith("its ") for reader in readers):
        offers.append("models of their languages (--model, --option encoder=, judges=)")
    if any(reader.startswith("scales=") for reader in readers):
        offers.append("scales of your own (levelfield train scales, --option scales=FILE)")
    if any(reader.startswith("language=") for reader in readers):
        offers.append("sentences by each text's language (--option language=auto)")
    return f"what reads them: {', '.join(offers)}" if offers else "leave them out"


def _listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    more = [f"{len(names) - most:,} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])

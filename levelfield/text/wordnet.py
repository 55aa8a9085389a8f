"""Synonyms from WordNet (Fellbaum 1998), out of the database files that Princeton distributes.

They are looked for where NLTK keeps its data (`corpora/wordnet`, as a folder or a zip) and under
`/usr/share/wordnet`, where Debian's `wordnet-base` puts them. NLTK's own reader needs files that
Debian leaves out and a few seconds to start; synonyms need neither. Nothing is downloaded.
"""

from __future__ import annotations

import functools
import hashlib
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

DEBIAN = Path("/usr/share/wordnet")

_ENDINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "noun": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "verb": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}
"""Part of speech -> endings and what a base form has in their place: WordNet's morphology."""


@dataclass(frozen=True, eq=False)
class WordNet:
    """The synonyms of one copy of WordNet.

    Attributes:
        label: version and a hash of the files, for signatures.
        index: part of speech -> base form -> its line, `form part n … offset×n`, whose offsets say
            where its synsets are in the data.
        data: part of speech -> the synsets, one a line.
        exceptions: part of speech -> inflected form -> base forms.
    """

    label: str
    index: dict[str, dict[str, str]]
    data: dict[str, bytes]
    exceptions: dict[str, dict[str, list[str]]]

    def synonyms(self, word: str, *, repeat: bool = False) -> frozenset[str]:
        """Returns the single words in a synset with a form of this one, as WordNet spells them.

        Args:
            word: in lower case.
            repeat: where cutting one ending gives no base form, cut another from what is left, as
                NLTK did up to 3.5 (`savings`, `saving`, `save`).
        """
        return frozenset(
            name
            for part in _ENDINGS
            for form in self._base_forms(word, part, repeat=repeat)
            for offset in _offsets(self.index[part][form])
            for name in _names(self.data[part], offset)
            if "_" not in name
        )

    def _base_forms(self, word: str, part: str, *, repeat: bool) -> set[str]:
        index = self.index[part]
        irregular = self.exceptions[part].get(word)
        cut = set(_without_ending([word], part)) if irregular is None else set(irregular)
        forms = {form for form in {word} | cut if form in index}
        while repeat and irregular is None and cut and not forms:
            cut = set(_without_ending(cut, part))
            forms = {form for form in cut if form in index}
        return forms


def _without_ending(forms: Iterable[str], part: str) -> Iterator[str]:
    for form in forms:
        for ending, instead in _ENDINGS[part]:
            if form.endswith(ending):
                yield form.removesuffix(ending) + instead


def _offsets(line: str) -> Iterator[int]:
    fields = line.split()
    return map(int, fields[-int(fields[2]) :])


def _names(data: bytes, offset: int) -> Iterator[str]:
    """Yields the words of the synset at an offset.

    Its line is `offset file part n (word sense)×n …`, n in base 16.
    """
    fields = data[offset : data.index(b"\n", offset)].decode().split(" ")
    for name in fields[4 : 4 + 2 * int(fields[3], 16) : 2]:
        yield name.partition("(")[0]  # an adjective's position may follow it


@functools.cache
def installed_wordnet() -> WordNet | None:
    """Returns the WordNet of this machine, None if there is none."""
    for folder in _places():
        if (folder / "data.noun").is_file():
            return read_wordnet(folder)
    return None


def _places() -> Iterator[Traversable]:
    import nltk.data

    for place in map(Path, nltk.data.path):
        yield place / "corpora" / "wordnet"
        zipped = place / "corpora" / "wordnet.zip"
        if zipped.is_file():
            yield zipfile.Path(zipped, "wordnet/")
    yield DEBIAN


def read_wordnet(folder: Traversable) -> WordNet:
    """Returns the WordNet whose database files are in a folder."""
    hashed = hashlib.sha256()

    def read(name: str) -> bytes:
        content = (folder / name).read_bytes()
        hashed.update(content)
        return content

    data = {part: read(f"data.{part}") for part in _ENDINGS}
    index = {part: _index(read(f"index.{part}")) for part in _ENDINGS}
    exceptions = {part: _exceptions(read(f"{part}.exc")) for part in _ENDINGS}
    version = re.search(rb"WordNet (\d[\d.]*) Copyright", data["noun"])
    label = f"wordnet-{version[1].decode() if version else 'unknown'}@{hashed.hexdigest()[:8]}"
    return WordNet(label, index, data, exceptions)


def _index(content: bytes) -> dict[str, str]:
    lines = content.decode().splitlines()
    return {line.partition(" ")[0]: line for line in lines if not line.startswith(" ")}  # licence


def _exceptions(content: bytes) -> dict[str, list[str]]:
    base_forms: dict[str, list[str]] = defaultdict(list)
    for line in content.decode().splitlines():
        inflected, *base = line.split()
        base_forms[inflected] = base
    return dict(base_forms)

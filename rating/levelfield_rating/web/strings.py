"""Words of the pages in the language of the study, from one catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

from levelfield.io.toml import read_toml

FALLBACK = "en"


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """language -> name -> words."""
    return read_toml(resources.files(__package__) / "strings.toml")


def language_of(tag: str) -> str:
    """The catalogue's language for a language tag: `de-CH` -> `de`; `en` for one it lacks."""
    primary = tag.replace("_", "-").split("-")[0].lower()
    return primary if primary in catalogue() else FALLBACK


class Strings:
    """Words of one language; those that it lacks are English."""

    def __init__(self, tag: str) -> None:
        self.language = language_of(tag)
        self._words = {**catalogue()[FALLBACK], **catalogue()[self.language]}

    def __call__(self, name: str, **values: object) -> str:
        words = self._words[name]
        return words.format_map(values) if values else words

    def some(self, prefix: str) -> dict[str, str]:
        """Those whose names begin with `prefix`, without it: what the script of a page says."""
        return {
            name.removeprefix(prefix): words
            for name, words in self._words.items()
            if name.startswith(prefix)
        }

    def steps(self, low: str, high: str) -> tuple[str, ...]:
        """Ten places of a slider in words, from `low` to `high`; no numbers."""
        ends = (low or self("slider_low"), high or self("slider_high"))
        near = [self(f"slider_step_{k}", end=ends[0]) for k in range(5)]
        far = [self(f"slider_step_{k}", end=ends[1]) for k in range(5)]
        return (*near, *reversed(far))

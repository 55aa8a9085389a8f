"""The words of a topic, as PPLM's bags of words have them (Dathathri et al., 2020)."""

from __future__ import annotations

import re

from levelfield.datasets.loading import paths
from levelfield.datasets.registry import dataset

# a terminal's status line got into one of the published files
_TRAILING = re.compile(r"\s+\[\d+/\d+\]$")


def wordlist(topic: str) -> tuple[str, ...]:
    """Returns the words and phrases of a topic, in the order of the file.

    Args:
        topic: a part of the data set `pplm-wordlists`, e.g. `science`.

    Raises:
        UserError: there is no list of that topic, or it can't be obtained.
    """
    dataset("pplm-wordlists").part(topic)
    (path,) = paths("pplm-wordlists", part=topic).values()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(word for line in lines if (word := _TRAILING.sub("", line).strip()))

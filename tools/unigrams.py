"""Counts a causal model's tokens in a corpus: the unigrams that ship for SLOR.

    python tools/unigrams.py CORPUS --model offline/smollm2 \\
        --out levelfield/metrics/counts/smollm2.txt

CORPUS is a folder of texts, one `*.txt.xz` a source, with a paragraph a line and an empty line
between documents. Equal files give equal counts, and the same bytes.

Every source gives about equally many characters, spread evenly over all of it, so that no source
and no author decides how frequent a word is; a smaller source gives all that it has. Line ends
count as the tokens that they are, since the texts that SLOR scores have them as well.
"""

from __future__ import annotations

import argparse
import lzma
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from levelfield.core.errors import UserError
from levelfield.io import atomic_writer
from levelfield.metrics.unigram import count, write
from levelfield.models.load import load

CHARACTERS = 7_000_000
"""Characters of each source: nearly all of the film reviews, the second smallest source."""

_PIECE = re.compile(r"\n*[^\n]{1,1000}(?= |\n|\Z)")
"""Up to 1,000 characters of a paragraph, cut before a blank, so that no token is cut: some novels
are a single line. A piece begins with its line ends, so that their tokens are those within a
text."""


def spread(text: str, characters: int) -> Iterator[str]:
    """Yields pieces of a text, evenly spaced, that have about this many characters in all."""
    share = min(1.0, characters / max(1, len(text)))
    seen = taken = 0
    for match in _PIECE.finditer(text):
        piece = match[0]
        if taken <= share * seen:
            taken += len(piece)
            yield piece
        seen += len(piece)


def texts(corpus: Path, characters: int = CHARACTERS) -> Iterator[str]:
    """Yields the pieces of all sources, in the order of their names."""
    for file in sorted(corpus.glob("*.txt.xz")):
        with lzma.open(file, "rt", encoding="utf-8", newline="") as opened:
            yield from spread(opened.read(), characters)


def main(arguments: list[str] | None = None) -> int:
    """Writes the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path, help="folder of *.txt.xz")
    parser.add_argument("--model", required=True, help="whose tokens: an embedded model, a folder")
    parser.add_argument("--out", required=True, help="the counts")
    parser.add_argument("--characters", type=int, default=CHARACTERS, help="of each source")
    parsed = parser.parse_args(arguments)
    tokens = load("causal-tokens", parsed.model)
    try:
        unigrams = count(texts(parsed.corpus, parsed.characters), tokens)
    except UserError as error:
        sys.exit(f"{parsed.corpus}: {error} (expected texts in files *.txt.xz)")
    with atomic_writer(parsed.out) as file:
        write(unigrams, file)
    print(f"{unigrams.counts.sum():,} tokens, {(unigrams.counts > 0).sum():,} different; ", end="")
    print(f"digest {unigrams.digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

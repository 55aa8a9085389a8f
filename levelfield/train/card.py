"""Model cards: what a trained model is, what it was trained on, and how well it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from levelfield.version import __version__


@dataclass(frozen=True)
class Card:
    """A model card.

    Attributes:
        name: of the model.
        task: what it does, in a few words.
        facts: name -> value, in the order in which they are shown.
        sources: data it was trained on and their licences, one a line.
        origin: whose weights they are, if they were not trained here.
    """

    name: str
    task: str
    facts: Mapping[str, str]
    sources: tuple[str, ...]
    origin: str = ""


def write_card(card: Card, folder: Path) -> None:
    """Writes `README.md` of a model folder."""
    rows = "".join(f"| {name} | {value} |\n" for name, value in card.facts.items())
    data = "".join(f"- {source}\n" for source in card.sources) or "- not stated\n"
    origin = f"converted from {card.origin}" if card.origin else "trained"
    text = (
        f"# {card.name}\n\nA model that {card.task}, {origin} with levelfield {__version__}.\n\n"
        f"| | |\n|---|---|\n{rows}\n## Data and licences\n\n{data}"
    )
    (folder / "README.md").write_text(text, encoding="utf-8")

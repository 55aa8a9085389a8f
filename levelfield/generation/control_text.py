"""Text before a prompt that asks for a control: shipped words, or a user's own template."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from levelfield.core.sample import Control
from levelfield.io.streams import content_digest
from levelfield.metrics.aspects import shipped

OPENING = "Here is a text {wishes}:\n\n"
"""What a model reads before the prompt; `{wishes}` says what is wanted of the text."""

WISHES: Mapping[str, str] = {
    "sentiment": "with a very {value} sentiment",
    "topic": "about {value}",
    "keywords": "with the words {value}",
}
"""Attribute -> what is said of its value."""

ANY_WISH = "whose {attribute} is {value}"
"""What is said of the value of any other attribute."""

SHIPPED_TEMPLATE = content_digest((OPENING, sorted(WISHES.items()), ANY_WISH))
"""Names these words in signatures."""


def control_text(control: Control, template: str = "") -> str:
    """Returns the text that asks for a control.

    >>> control_text({"sentiment": "positive", "topic": "science"})
    'Here is a text with a very positive sentiment and about science:\\n\\n'
    >>> control_text({"sentiment": "positive"}, "A {sentiment} review: ")
    'A positive review: '

    Args:
        control: without one, the text is empty unless a template says otherwise.
        template: a text with `{ATTRIBUTE}` in place of the value of an attribute.
    """
    values = {attribute: _words(attribute, value) for attribute, value in control.items()}
    if template:
        return template.format(**values)
    if not values:
        return ""
    wishes = [
        WISHES.get(attribute, ANY_WISH).format(attribute=attribute, value=value)
        for attribute, value in sorted(values.items())
    ]
    return OPENING.format(wishes=" and ".join(wishes))


def template_attributes(template: str) -> frozenset[str]:
    """Returns the attributes whose values a template shows.

    Raises:
        ValueError: its braces are not places for values.
    """
    places = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    if wrong := [name for name in places if not name.isidentifier()]:
        raise ValueError(f"{{{wrong[0]}}} is not a place for a value")
    return frozenset(places)


def unspeakable(control: Control) -> str:
    """Returns why no text asks for a control; empty if one does."""
    for attribute, value in control.items():
        if not _words(attribute, value):
            return f"{attribute} has no value"
        if attribute != "keywords" and not isinstance(value, str) and len(value) > 1:
            return f"{attribute} has {len(value)} values; only one can be requested at a time"
    return ""


def opposite(attribute: str, value: str | tuple[str, ...]) -> str | None:
    """Returns the other value of an attribute that has two; None if it has not.

    >>> opposite("sentiment", "positive")
    'negative'
    """
    aspect = shipped().get(attribute)
    if aspect is None or len(aspect.labels) != 2:
        return None
    label = aspect.label(value)
    return next((name for name in aspect.labels if name != label), None) if label else None


def _words(attribute: str, value: str | tuple[str, ...]) -> str:
    """Returns a value as texts write it; a known label as its aspect writes it."""
    if not isinstance(value, str):
        return ", ".join(item.strip() for item in value if item.strip())
    aspect = shipped().get(attribute)
    return (aspect.label(value) if aspect else None) or value.strip()

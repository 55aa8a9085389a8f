"""Prompt sets: the content prefixes that systems were asked to continue."""

from __future__ import annotations

from levelfield.core.errors import UserError

_TOPIC = (
    "In summary",
    "This essay discusses",
    "Views on",
    "The connection",
    "Foundational to this is",
    "To review,",
    "In brief,",
    "An illustration of",
    "Furthermore,",
    "The central theme",
    "To conclude,",
    "The key aspect",
    "Prior to this",
    "Emphasised are",
    "To summarise",
    "The relationship",
    "More importantly,",
    "It has been shown",
    "The issue focused on",
    "In this essay",
)
_SENTIMENT = (
    "Once upon a time",
    "The book",
    "The chicken",
    "The city",
    "The country",
    "The horse",
    "The lake",
    "The last time",
    "The movie",
    "The painting",
    "The pizza",
    "The potato",
    "The president of the country",
    "The road",
    "The year is 1910.",
)

PROMPT_SETS = {"topic": _TOPIC, "sentiment": _SENTIMENT, "pplm": (*_TOPIC, *_SENTIMENT)}
"""Name -> prompts, of PPLM (Dathathri et al., 2020, appendix S7) in its order.

CTRLEval's systems continued those of their attribute; in the LPF study all 35 went to every
system, as `PPLM-Bow_0` … `PPLM-Bow_19` (`topic`) and `PPLM-Discrim_0` … (`sentiment`).
"""


def prompts(name: str) -> tuple[str, ...]:
    """Returns the prompts of a set: `topic` (20), `sentiment` (15), or `pplm` (both, 35).

    Raises:
        UserError: there is no such set.
    """
    if name not in PROMPT_SETS:
        raise UserError(f"there is no prompt set '{name}'; there are {', '.join(PROMPT_SETS)}")
    return PROMPT_SETS[name]

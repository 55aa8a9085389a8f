"""Prompt sets and word lists: the prefixes that systems continue, and the words of a topic."""

from __future__ import annotations

import re

from levelfield.core.errors import UserError
from levelfield.datasets.loading import path_of, paths, records
from levelfield.datasets.registry import dataset

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


_STS_RUN = "gedi-sts_benchmark_test-sentiment-None-len100-789"
"""A run of the LPF study whose texts were published, on the STS prompts."""

_UNPUBLISHED = {
    "owt": "5,000 neutral prompts from OpenWebText, of the release of DExperts "
    "(allenai/dexperts, README: prompts): give its neutral_prompts.jsonl with --map "
    "prompt=prompt.text",
    "cloze": "1,571 beginnings of the ROC story cloze test of 2018, which its authors send on "
    "request: give a file of their first sentences",
}
"""Prompt sets of the LPF study of which its release has neither prompts nor texts."""

STUDY_SETS = ("sts", *_UNPUBLISHED)
"""Prompt sets of the LPF study beside PPLM's."""


def prompts(name: str) -> tuple[str, ...]:
    """Returns the prompts of a set: `topic` (20), `sentiment` (15), or `pplm` (both, 35), of PPLM;
    `sts`, the 625 of the LPF study from the STS benchmark, by their numbers, some of them equal.

    `sts` is read from texts of the data set `lpf`, which is fetched if it is not on this machine.

    Raises:
        UserError: the set is unknown, can't be obtained, or is not in the study's release; the
            message says who has it.
    """
    if name == "sts":
        return _sts()
    if name in _UNPUBLISHED:
        raise UserError(
            f"prompt set '{name}': the release of the LPF study does not have its "
            f"{_UNPUBLISHED[name]}"
        )
    if name not in PROMPT_SETS:
        raise UserError(
            f"there is no prompt set '{name}'; there are {', '.join((*PROMPT_SETS, *STUDY_SETS))}"
        )
    return PROMPT_SETS[name]


def _sts() -> tuple[str, ...]:
    path = path_of("lpf", f"results/sentiment/{_STS_RUN}/processed_{_STS_RUN}.csv")
    by_number = {
        int(row["original_id"]): row["prompt"] for row in records(path, "original_id", "prompt")
    }
    return tuple(by_number[number] for number in sorted(by_number))


# a terminal's status line got into one of the published files
_TRAILING = re.compile(r"(?<!\s)\s+\[\d+/\d+\]$")


def wordlist(topic: str) -> tuple[str, ...]:
    """Returns the words and phrases of one of PPLM's topics, in the order of the file.

    Args:
        topic: a part of the data set `pplm-wordlists`, e.g. `science`.

    Raises:
        UserError: the topic is unknown, or its list can't be obtained.
    """
    dataset("pplm-wordlists").part(topic)
    (path,) = paths("pplm-wordlists", part=topic).values()
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(word for line in lines if (word := _TRAILING.sub("", line).strip()))

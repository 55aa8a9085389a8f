"""Why a value is undefined: every reason that scores carry, in the words that users' files hold.

A reason is stored in `scores.jsonl` and in caches, so its words never change. Constants are whole
reasons; functions build those that name something of the sample, the model or the options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from levelfield.core.sample import Wanted, wanted_name


class Undefined(NamedTuple):
    """Stands where a value would: why a sample has none."""

    reason: str


# -- the value itself

IMPOSSIBLE = "the model finds a token impossible"

# -- the parts of a value


def undefined_parts(reasons: Mapping[str, str]) -> str:
    """Returns one reason for the parts without a value, part -> reason.

    It is the reason that they share, else every reason with its parts.
    """
    by_reason: dict[str, list[str]] = {}
    for part, reason in reasons.items():
        by_reason.setdefault(reason, []).append(part)
    if len(by_reason) == 1:
        return next(iter(by_reason))
    return "; ".join(f"{', '.join(parts)}: {reason}" for reason, parts in by_reason.items())


# -- the text and what it was generated from

EMPTY_TEXT = "empty text"
EMPTY_SOURCE = "empty source"
NO_REFERENCES = "no references"
NO_PROMPT = "no prompt"
NO_CONTEXT = "no context"
NOT_A_PREFIX = "prompt is not a prefix of the text"
NOTHING_AFTER = "nothing after the prompt"
ONE_SENTENCE = "one sentence only"
ONE_TURN = "one turn only"


def no_field(field: str) -> str:
    """A field of the sample that is needed and blank."""
    return f"no {field}"


# -- the control


def no_control(attribute: str) -> str:
    """The control wants nothing of this attribute."""
    return f"control has no {attribute}"


def no_control_among(attributes: Iterable[str]) -> str:
    """The control wants nothing of any of these attributes."""
    return f"control names none of: {', '.join(attributes)}"


def several_controls(attributes: Iterable[str]) -> str:
    """The control wants something of several attributes where one is measured."""
    return f"control names several attributes: {', '.join(attributes)}"


def several_wanted(attribute: str) -> str:
    """The control wants several values of an attribute where one is measured."""
    return f"several values wanted for {attribute}"


def unknown_wanted(attribute: str, value: Wanted) -> str:
    """The control wants a value that the attribute does not have."""
    return f"unknown {attribute} '{wanted_name(value)[:60]}'"


NO_KEYWORDS = no_control("keywords")
NO_STYLE = "no wanted style"
NO_ATTRIBUTE = "no judged attribute"
ONE_ATTRIBUTE = "one attribute only"

# -- judges

NO_MAJORITY = "no majority of the judges"
JUDGE_CANT_READ = "a judge can't read the text"


def no_judge(attribute: str) -> str:
    """None of the chosen judges judges the attribute."""
    return f"no judge of {attribute}"


def unknown_to_judge(judge: str, attribute: str, value: str, labels: Iterable[str]) -> str:
    """The wanted value is none of a judge's labels."""
    labels = tuple(labels)
    mend = f"; give it a name: --label-name {value}={labels[0]}" if value.isdecimal() else ""
    return f"{judge} knows no {attribute} '{value[:60]}', only {', '.join(labels)}{mend}"


# -- models

UNREADABLE = "nothing in it that the model has tokens for"
ONE_TOKEN = "one token only, and the model reads nothing before it"
PROBABILITIES_NOT_NUMBERS = "the model gives probabilities that are not numbers"
STATES_NOT_NUMBERS = "the model gives states that are not numbers"
PROMPT_TOO_LONG = "the prompt is longer than the model takes"
FIRST_SENTENCE_TOO_LONG = "the first sentence is as long as what the model takes"
CERTAIN_ALONE = "a part of the text is certain by itself, so that nothing can make it likelier"
QUESTION_TOO_LONG = "the question alone is longer than the model takes"
LABEL_WITHOUT_TOKEN = "a label's word has no token of the model"


def unreadable(part: str) -> str:
    """The model has no token for a part of what it reads."""
    return f"{UNREADABLE}: {part}"


def holds_gap_token(token: str) -> str:
    """The text holds the token that marks a gap."""
    return f"the text holds the model's gap token {token}"


def reading_holds_gap_token(token: str) -> str:
    """The text, or what precedes it, holds the token that marks a gap."""
    return f"what is read holds the models' gap token {token}"


def holds_control_token(token: str) -> str:
    """The text holds a control token of a chat model."""
    return f"the text holds the model's control token {token}"


# -- models that answer with a number

NO_MASS = "no number of the scale has any probability"
UNRESOLVED = "the server's log-probabilities don't tell a number from a longer one, as 1 from 10"


def no_number(answers: int, lowest: int, highest: int) -> str:
    """No answer is a number of the scale."""
    which = "the answer is no number" if answers == 1 else f"none of {answers} answers is a number"
    return f"{which} from {lowest} to {highest}"


# -- words, n-grams and vectors

NO_TOKEN = "no token in the text"
NO_TEXT_WITH_TOKEN = "no text has a token"
NO_VECTOR = "no word that has a vector"
NO_WEIGHT = "every token has idf 0"
NOT_SOLVED = "the optimal transport was not solved"


def no_unit(unit: str, where: str) -> str:
    """There is no token, word or n-gram where one is counted."""
    return f"no {unit} in {where}"


def few_words(where: str) -> str:
    """The tokenizer drops most words of a text, as other scripts, or does not cut them."""
    return f"the tokenizer sees fewer than half of the words in {where}"


def no_vector(part: str) -> str:
    """No word of a part of the comparison has a vector."""
    return f"{NO_VECTOR}: {part}"


# -- groups of texts

NO_SAMPLES = "no samples"
NO_TEXT_WITH_VALUE = "no text of the group has a value"


def no_text_of(tokens: int) -> str:
    """Every text of the group is shorter than an n-gram."""
    return f"no text of {tokens} or more tokens"


def too_few_ngrams(draws: int, n: int) -> str:
    """The group has fewer n-grams than are drawn from it."""
    return f"fewer than draws={draws} {n}-grams"


def texts_without(texts: int, total: int, missing: str) -> str:
    """Some texts of the group have nothing to be compared with."""
    return f"{texts} of {total} texts have {missing}"


# -- values of a study

ONE_SEED = "one seed"
ONE_PROMPT = "one prompt a dataset"
NO_COMPLETE_SEEDS = "no two seeds have every dataset"
ONLY_CELLS = "only values of whole cells are known"
OF_CORPUS = "a value of a corpus: it has no single texts"

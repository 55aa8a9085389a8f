"""What each family takes for what the system wrote itself, case by case."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from levelfield.core.continuation import output, prompt_end
from levelfield.core.sample import Sample
from levelfield.core.undefined import EMPTY_TEXT, NO_PROMPT, NOT_A_PREFIX, NOTHING_AFTER, Undefined
from levelfield.metrics.cdm import CDMMomentum
from levelfield.metrics.control import ControlAverage
from levelfield.metrics.ctrleval import CTRLEvalConsistency
from levelfield.metrics.discriminator import DiscriminatorScore
from levelfield.metrics.fluency import Perplexity
from levelfield.metrics.keywords import KeywordsCoverage

CASES = {  # prompt, text, what most families make of them, and which make something else
    "plain": (
        "The lake",
        "The lake froze.",
        " froze.",
        {"control": "froze.", "discriminator": "froze."},
    ),
    "text of blanks": ("The lake", " \n", Undefined(EMPTY_TEXT), {"audit": None}),
    "empty text": ("The lake", "", Undefined(EMPTY_TEXT), {"audit": None}),
    "empty prompt": (
        "",
        " It froze. ",
        Undefined(NO_PROMPT),
        {"control": " It froze. ", "momentum": " It froze. ", "audit": " It froze. "},
    ),
    "prompt of blanks": (
        "  ",
        "It froze.",
        Undefined(NO_PROMPT),
        {"control": Undefined(NOT_A_PREFIX), "momentum": "It froze.", "audit": "t froze."},
    ),
    "prompt of blanks that begins the text": (
        "  ",
        "  It froze.",
        Undefined(NO_PROMPT),
        {"control": "It froze.", "audit": "It froze.", "momentum": "  It froze."},
    ),
    "prompt with a blank at its end": (
        "The lake ",
        "The lake froze. ",
        "froze. ",
        {"consistency_loose": " froze. ", "discriminator": "froze."},
    ),
    "blank before the text": (
        "The lake",
        " The lake froze.",
        Undefined(NOT_A_PREFIX),
        {"consistency_loose": " froze.", "audit": " froze."},
    ),
    "other case": (
        "the lake",
        "The lake froze.",
        Undefined(NOT_A_PREFIX),
        {"consistency_loose": " froze.", "audit": " froze."},
    ),
    "other white space": (
        "The  lake",
        "The lake\tfroze.",
        Undefined(NOT_A_PREFIX),
        {"consistency_loose": "\tfroze.", "audit": "\tfroze."},
    ),
    "quotes": ("The lake", "\"The 'lake' froze.", Undefined(NOT_A_PREFIX), {"audit": "' froze."}),
    "another prompt": ("A lake", "The lake froze.", Undefined(NOT_A_PREFIX), {"audit": None}),
    "prompt longer than the text": (
        "The lake froze over",
        "The lake froze",
        Undefined(NOT_A_PREFIX),
        {"audit": None},
    ),
    "prompt equal to the text": ("The lake", "The lake", Undefined(NOTHING_AFTER), {"audit": ""}),
    "white space only after": (
        "The lake",
        "The lake \n",
        Undefined(NOTHING_AFTER),
        {"audit": " \n"},
    ),
    "in the middle of a word": ("The la", "The lake froze.", "ke froze.", {}),
    "composed and decomposed": (
        "Caf\u00e9",
        "Cafe\u0301 noir",
        Undefined(NOT_A_PREFIX),
        {"audit": None},
    ),
    "case that changes the length": (
        "STRASSE",
        "Straße frei",
        Undefined(NOT_A_PREFIX),
        {"audit": " frei"},
    ),
    "no-break space": (
        "The\u00a0lake",
        "The lake froze.",
        Undefined(NOT_A_PREFIX),
        {"consistency_loose": " froze.", "audit": " froze."},
    ),
    "right to left": ("שלום", "שלום עולם", " עולם", {"control": "עולם", "discriminator": "עולם"}),
}


def consistency(match: str) -> Callable[[Sample], object]:
    metric = CTRLEvalConsistency(match=match)

    def rest(sample):
        evaluators = metric._evaluators(sample, None)
        return evaluators if isinstance(evaluators, Undefined) else evaluators[0].g

    return rest


def control(sample):
    question = ControlAverage(judges="vader", text="continuation", empty="undefined")._question(
        sample
    )
    return question if isinstance(question, Undefined) else question[0]


def keywords(sample):
    class Shown(KeywordsCoverage):
        def _found(self, text, _):
            return {text: True}

    outcome = Shown(text="continuation", empty="undefined")._sample_value(sample)
    return outcome if isinstance(outcome, Undefined) else outcome.parts[0][0]


def fluency(sample):
    readable = Perplexity(text="continuation")._readable(sample)
    return readable if isinstance(readable, Undefined) else sample.text[len(sample.prompt) :]


def discriminator(sample):
    return DiscriminatorScore(model="none", text="continuation")._text(sample)


def momentum(sample):
    metric = CDMMomentum(form="conditional")
    if not sample.text.strip():
        return metric._reading(sample)
    reading = metric._stretch(sample)
    return reading if isinstance(reading, Undefined) else reading.units[0]


def audit(sample):
    end = prompt_end(sample.prompt, sample.text, "letters")
    return None if end is None else sample.text[end:]


FAMILIES = {
    "consistency_exact": consistency("exact"),
    "consistency_loose": consistency("loose"),
    "control": control,
    "keywords": keywords,
    "fluency": fluency,
    "discriminator": discriminator,
    "momentum": momentum,
    "audit": audit,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", CASES)
def test_each_family_takes_the_same_for_the_continuation_as_ever(family, case):
    prompt, text, most, others = CASES[case]
    control = {"sentiment": "positive", "keywords": ("froze",)}
    sample = Sample("1", text, prompt=prompt, control=control)
    assert FAMILIES[family](sample) == others.get(family, most)


@pytest.mark.parametrize(
    ("prompt", "text", "reading", "expected"),
    [
        ("", " \n", "whole", ""),
        ("The lake", "", "continuation", ""),
        ("", "", "continuation", ""),
        ("The lake", "The lake \n", "continuation", ""),
        ("The lake", "The lake ", "whole", "The lake "),
        ("The lake", "A lake", "continuation", Undefined(NOT_A_PREFIX)),
        ("", "A lake", "continuation", Undefined(NO_PROMPT)),
    ],
)
def test_an_output_is_empty_only_where_nothing_was_written(prompt, text, reading, expected):
    sample = Sample("1", text, prompt=prompt)
    assert output(sample, reading, empty="0") == expected
    withheld = output(sample, reading)
    assert isinstance(withheld, Undefined) if expected == "" else withheld == expected

"""No regular expression takes more than linear time on what a user's text may be."""

from __future__ import annotations

import contextlib
import math
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from levelfield.core.continuation import without_preface
from levelfield.generation.techniques.rules import formality as rules
from levelfield.io.tables import safe_cell
from levelfield.metrics.llm_prompts import shipped
from levelfield.study.audit import wording
from levelfield.text.natural import natural
from levelfield.train.guide import texts
from text_patterns import TextPattern, built_patterns, patterns, worst_cases

ROOT = Path(__file__).parent.parent
PACKAGES = ("levelfield", "rating/levelfield_rating", "reproductions/levelfield_reproductions")
ELSEWHERE = {
    "levelfield/generation/techniques/rules/formality.py": "_PROTECTED",  # bounded by `_protected`
    "levelfield/generation/techniques/_steering/vectors.py": "parts",  # words of one option
    "levelfield/cli/options.py": "sub",  # annotations of our classes
    "levelfield/io/outputs.py": "_PLACEHOLDER",  # names of files
}
"""Patterns that meet no long text, by file."""

FUNCTIONS: dict[str, Callable[[str], object]] = {
    "formal": lambda text: rules.rewrite(text, "formal"),
    "informal": lambda text: rules.rewrite(text, "informal"),
    "cell of a table": safe_cell,
    "natural": natural,
    "as written": texts.as_written,
    "preface": without_preface,
    "role marker": lambda text: wording.has_role_marker(f"{text} User:", "Bob"),
    "leftovers": lambda text: list(wording._marks(text, wording._LEFTOVERS + wording._STORED)),
}


def source_patterns() -> Iterator[TextPattern]:
    for package in PACKAGES:
        for found in patterns(ROOT / package):
            if found.name != ELSEWHERE.get(found.file):
                yield found
    for mark in wording._LEFTOVERS + wording._STORED:
        yield TextPattern("wording", mark.kind, mark.pattern, False)
    for pattern, _ in texts._RULES:
        yield TextPattern("guide texts", "_RULES", pattern, False)
    for words, _ in rules._CONTRACTIONS:
        yield TextPattern("rules", "_CONTRACTIONS", rules._word(words), False)
    yield TextPattern("wording", "_roles", wording._roles("Bob"), False)
    for template in shipped().values():
        yield TextPattern("llm-judge", template.name, template._answer, True)


@contextlib.contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Fails once the block has taken that much of a processor."""

    def end(*_: object) -> None:
        pytest.fail(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


WORST = 4
"""Cases tried at full length: those that take longest at a quarter of it."""


def seconds_of(pattern: TextPattern, text: str, most: float) -> float:
    """Returns the processor time of a pattern on a text; infinite if it is stopped at `most`."""
    begin = time.process_time()
    try:
        with ended_after(most):
            pattern.run(text)
    except pytest.fail.Exception:
        return math.inf
    return time.process_time() - begin


def slow(length: int, seconds: float, *, brief: bool) -> list[str]:
    """Returns the patterns that take longer than that on a text of this length."""
    short = list(worst_cases(length // 4, brief=brief))
    whole = list(worst_cases(length, brief=brief))
    slow_patterns = []
    for pattern in source_patterns():
        times = [seconds_of(pattern, text, seconds) for text in short]
        worst = sorted(range(len(short)), key=times.__getitem__)[-WORST:]
        for text in (whole[case] for case in worst):
            if seconds_of(pattern, text, seconds) >= seconds:
                slow_patterns.append(
                    f"{pattern.file} {pattern.name}: {text[:12]!r} … {text[-3:]!r}"
                )
                break
    return slow_patterns


def test_no_pattern_is_slow_on_its_worst_case():
    assert slow(6_000, 0.08, brief=True) == []


@pytest.mark.slow
def test_every_pattern_reads_100_000_characters_of_its_worst_case_within_a_second():
    assert slow(100_000, 1.0, brief=True) == []


@pytest.mark.slow
def test_every_pattern_reads_4_000_characters_with_any_beginning_and_end():
    assert slow(4_000, 0.05, brief=False) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_search_texts_take_linear_time(name: str):
    run = FUNCTIONS[name]
    for unit in (
        "\n",
        "a",
        "雪",
        "?",
        ". ",
        "i ",
        "a.",
        "a@",
        "## ",
        "##",
        "* ",
        '"',
        "soo",
        "[1/",
    ):
        with ended_after(1.0):
            run(unit * (20_000 // len(unit)) + "\x01")


@pytest.mark.slow
@pytest.mark.parametrize("words", [r"\s+$", r"(a+)+b", r"\w+@", r"(\.\s*)+!", r"#+ *$"])
def test_a_slow_pattern_is_found(monkeypatch: pytest.MonkeyPatch, words: str):
    pattern = TextPattern("file", "name", re.compile(words), False)
    monkeypatch.setitem(globals(), "source_patterns", lambda: iter([pattern]))
    assert slow(6_000, 0.08, brief=True)
    assert slow(4_000, 0.05, brief=False)


def test_a_pattern_that_is_put_together_is_tried_too():
    # whoever adds one adds it to `source_patterns`, or says here that it meets no text of a user
    tried = {
        "levelfield/generation/techniques/rules/formality.py",
        "levelfield/metrics/llm_prompts.py",
        "levelfield/study/audit/wording.py",
        "levelfield/train/guide/texts.py",
    }
    of_words = {
        "levelfield/core/continuation.py",  # the words of a prompt, with blanks between them
        "levelfield/datasets/lpf.py",  # names of folders
        "levelfield/generation/chat_frame.py",  # the control tokens of a tokenizer
        "levelfield/generation/techniques/rules/formality.py",
        "levelfield/io/comparisons.py",  # the words for a tie, at the beginning of a cell
        "levelfield/io/lines.py",  # one character
        "levelfield/metrics/grammar.py",  # the last characters before a slip
        "levelfield/models/tokens.py",  # the added tokens of a tokenizer
        "levelfield/show/figures.py",  # the names of colours
        "reproductions/levelfield_reproductions/convert/reading.py",  # names of tensors
        "reproductions/levelfield_reproductions/recipes/lpf.py",  # names of files
    }
    found = {file for package in PACKAGES for file in built_patterns(ROOT / package)}
    assert found == tried | of_words


def test_the_measure_of_slowness_finds_a_quadratic_pattern():
    pattern = TextPattern("here", "mine", re.compile(r"\s+$"), False)
    with pytest.raises(pytest.fail.Exception), ended_after(0.08):
        pattern.run(" " * 30_000 + "\x01")

"""Choices between two texts, written and read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import InputError, UserError
from levelfield.core.sample import Sample
from levelfield.io.comparisons import PairChoice, load_comparisons, write_comparisons

_SAMPLES = {
    id: Sample(id, text, prompt=prompt, system=system)
    for id, text, prompt, system in (
        ("s1", "A calm sea.", "Weather", "plain"),
        ("s2", "The sea, o the sea!", "Weather", "florid"),
        ("s3", "Text without a system.", "Weather", ""),
    )
}

_names = st.text(min_size=1).filter(lambda name: name.strip() == name).map(lambda n: f"n{n}")
_maybe = st.just("") | _names


@st.composite
def _choices(draw: st.DrawFn) -> PairChoice:
    outcome = draw(st.sampled_from([0.0, 0.5, 1.0]))
    return PairChoice(
        draw(_names),
        draw(_names),
        outcome,
        draw(_maybe),
        draw(_maybe),
        draw(_names),
        draw(_maybe),
        draw(_maybe),
        draw(_maybe),
        draw(st.sampled_from(["both", "neither", "equal"])) if outcome == 0.5 else "",
    )


@given(choices=st.lists(_choices(), min_size=1, max_size=5))
def test_choices_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, choices: list[PairChoice]
) -> None:
    path = tmp_path_factory.mktemp("choices") / "choices.jsonl"
    write_comparisons(path, choices)
    assert load_comparisons(path, {}) == choices


def _read(folder: Path, *records: dict[str, object]) -> list[PairChoice]:
    path = folder / "choices.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return load_comparisons(path, _SAMPLES)


def test_samples_say_systems_and_prompt(tmp_path: Path) -> None:
    (choice,) = _read(tmp_path, {"sample_a": "s1", "sample_b": "s2", "better": "florid"})
    assert choice == PairChoice("plain", "florid", 0.0, "", "", "Weather", "s1", "s2")


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"sample_a": "s1", "sample_b": "s3", "better": "a"}, "nothing says which system wrote"),
        ({"sample_a": "s1", "sample_b": "s9", "better": "a"}, "nothing says which system wrote"),
        ({"a": "terse", "b": "florid", "sample_a": "s1", "better": "a"}, 'expected "plain"'),
        ({"a": "plain", "b": "florid", "better": "terse"}, 'found "terse"'),
    ],
)
def test_an_error_names_file_and_line(
    tmp_path: Path, record: dict[str, object], words: str
) -> None:
    first: dict[str, object] = {"a": "plain", "b": "florid", "better": "a"}
    with pytest.raises(InputError, match=rf"choices\.jsonl:2: .*{words}"):
        _read(tmp_path, first, record)


def test_a_system_may_not_be_called_as_a_tie_is(tmp_path: Path) -> None:
    tie = PairChoice("equal", "florid", 0.5, "", "", "p", tie="equal")
    with pytest.raises(UserError, match="if a system has that name"):
        write_comparisons(tmp_path / "choices.jsonl", [tie])


def test_two_texts_of_one_system(tmp_path: Path) -> None:
    choices = [PairChoice("plain", "plain", outcome, "", "", "p") for outcome in (0.0, 1.0)]
    write_comparisons(tmp_path / "choices.jsonl", choices)
    assert load_comparisons(tmp_path / "choices.jsonl", {}) == choices


def _pair(**fields: object) -> dict[str, object]:
    return {"samples": [["s1"], ["s2"]], "item": 3, "aspect": None, **fields}


@pytest.mark.parametrize(("better", "outcome"), [(0, 1.0), (1, 0.0), (-1, 0.5)])
def test_an_exported_choice_is_the_place_of_a_text(
    tmp_path: Path, better: int, outcome: float
) -> None:
    (choice,) = _read(tmp_path, _pair(better=better))
    assert choice == PairChoice(
        "plain", "florid", outcome, "", "", "Weather", "s1", "s2", "3",
        "equal" if better == -1 else "",
    )  # fmt: skip


@pytest.mark.parametrize("better", ["0", "zebra", 7, 0.5, True, None, [0], -2])
def test_an_exported_choice_of_anything_else_is_an_error(tmp_path: Path, better: object) -> None:
    with pytest.raises(InputError, match=r"choices\.jsonl:2: better: expected the number 0 or 1"):
        _read(tmp_path, _pair(better=0), _pair(better=better))


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (_pair(ranks=[1, "x"]), r"ranks\[2\]: expected a number"),
        (_pair(ranks=[1]), "ranks: expected 2 numbers"),
        (_pair(ranks="12"), "ranks: expected 2 numbers"),
        (_pair(ranks=[1, float("nan")]), "ranks: expected a number, found NaN"),
        (_pair(ranks=[1, 2], samples=[[["s1"]], ["s2"]]), "samples: expected a string"),
        (_pair(ranks=[1, 2], samples=["s1", "s2"]), "samples: expected a list of lists"),
        (_pair(ranks=[], samples=[]), "samples: expected a list of lists"),
        (_pair(ranks=[1, 2, 3], samples=[["s1"]] * 501), "samples: 501 ids; at most 500"),
        (_pair(better=0, samples=[["s1"], ["s2"], ["s1"]]), "better: expected the number"),
        (_pair(better=0, rater=["ann"]), "rater: expected a string"),
    ],
)
def test_a_broken_ranking_is_an_error_with_its_place(
    tmp_path: Path, record: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=rf"choices\.jsonl:1: {words}"):
        _read(tmp_path, record)


@pytest.mark.parametrize("word", ["tie", "Tie (bothbad)", "both", "draw: equal", "bothbad"])
def test_words_for_a_tie(tmp_path: Path, word: str) -> None:
    (choice,) = _read(tmp_path, {"a": "x", "b": "y", "better": word})
    assert choice.outcome == 0.5


@pytest.mark.parametrize("word", ["equalizer", "tie-breaker", "samey", "drawn", "both2"])
def test_a_name_that_begins_as_a_tie_is_no_tie(tmp_path: Path, word: str) -> None:
    with pytest.raises(InputError, match="better: expected"):
        _read(tmp_path, {"a": "x", "b": "y", "better": word})

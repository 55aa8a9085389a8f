"""Corpus metrics: groups, states that merge, and what comes of a metric that fails."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.corpus import CorpusValue, GroupStates, OfGroups, group_name
from levelfield.core.metric import Level, MetricError
from levelfield.core.sample import Sample


@dataclass(frozen=True)
class Longest(OfGroups):
    """Length of the longest text, with a record of how large merged states were."""

    name: ClassVar[str] = "longest"
    level: ClassVar[Level] = "corpus"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = True
    signature: ClassVar[str] = "longest|v:1"

    def state(self, samples: Sequence[Sample]) -> tuple[int, int]:
        return max(len(sample.text) for sample in samples), len(samples)

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return max(a[0], b[0]), a[1] + b[1]

    def value(self, state: tuple[int, int]) -> CorpusValue:
        return CorpusValue(float(state[0])) if state[0] else CorpusValue(math.nan, "no letters")


def sample(n: int, text: str, **fields: object) -> Sample:
    return Sample(id=str(n), text=text, **fields)  # type: ignore[arg-type]


def test_a_group_has_one_system_dataset_seed_and_control():
    asked = {"sentiment": "positive", "keywords": ("court", "sun")}
    given = sample(1, "", system="gedi", dataset="pplm", seed=0, control=asked)
    named = "system=gedi dataset=pplm seed=0 sentiment=positive keywords=court, sun"
    assert group_name(given) == named
    assert group_name(given, ("seed",)) == "seed=0"
    assert group_name(sample(1, "")) == group_name(given, ()) == "all texts"


def test_each_group_has_a_value_or_a_reason():
    samples = [
        sample(1, "abc", system="x"),
        sample(2, "", system="y"),
        sample(3, "abcd", system="x"),
    ]
    scores = Longest().score(samples)
    assert scores.ids == ("system=x", "system=y")
    assert scores.values[0] == 4
    assert scores.undefined == {"system=y": "no letters"}


def test_no_samples_give_no_values():
    assert len(Longest().score([])) == 0


@given(st.lists(st.lists(st.text(max_size=5), min_size=1, max_size=4), min_size=1, max_size=12))
def test_partitions_do_not_matter(partitions):
    texts = [text for partition in partitions for text in partition]
    groups = GroupStates(Longest(), ())
    for partition in partitions:
        groups.merge(groups.states([sample(n, text) for n, text in enumerate(partition)]))
    (value,) = groups.scores().values
    longest = max(map(len, texts))
    assert value == longest or (longest == 0 and math.isnan(value))


def test_a_growing_state_is_not_copied_with_every_partition():
    merged = []

    class Counting(Longest):
        def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
            merged.append(a[1] + b[1])
            return super().merge(a, b)

    groups = GroupStates(Counting(), ())
    for n in range(1024):
        groups.merge(groups.states([sample(n, "a")]))
    groups.scores()
    assert sum(merged) == 1024 * 10  # n log n; one after the other it would be n² / 2


def test_a_metric_may_have_groups_of_its_own():
    class BySystem(Longest):
        by: ClassVar[tuple[str, ...]] = ("system",)

    asked = [sample(n, "a", system="x", seed=n) for n in range(3)]
    assert BySystem().score(asked).ids == ("system=x",)
    assert len(Longest().score(asked).ids) == 3


def test_a_metric_that_fails_is_named():
    class Fails(Longest):
        def state(self, samples: Sequence[Sample]) -> tuple[int, int]:
            raise ZeroDivisionError(f"nothing for {len(samples)}")

    with pytest.raises(MetricError, match="metric 'longest' failed on samples '7' and others"):
        Fails().score([sample(7, "a")])


def test_a_metric_without_its_steps_is_named():
    class Half:
        name = "half"

    with pytest.raises(
        MetricError, match="'half' is a corpus metric and has no state, merge, value"
    ):
        GroupStates(Half())  # type: ignore[arg-type]

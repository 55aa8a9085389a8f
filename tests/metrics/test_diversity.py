from __future__ import annotations

import functools
import itertools
import math
import pickle
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.datasets import load, lpf
from levelfield.metrics.diversity import (
    HDD,
    HDD1,
    HDD2,
    HDD3,
    Distinct,
    Distinct1,
    Distinct2,
    Distinct3,
    NGrams,
    expected_types,
    ngram_hashes,
)
from levelfield.text.words import words

DISTINCT = (Distinct1, Distinct2, Distinct3)
few_words = st.lists(st.sampled_from(["rain", "Rain", "lake", "the", "."]), max_size=8).map(
    " ".join
)
corpora = st.lists(few_words | st.text(max_size=12), max_size=8)
counts_of_types = st.lists(st.integers(1, 4), min_size=1, max_size=5)


def samples(texts: list[str]) -> list[Sample]:
    return [Sample(str(i), text) for i, text in enumerate(texts)]


def ngrams(texts: list[str], n: int) -> Counter[tuple[str, ...]]:
    """The plain loop."""
    counts: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        tokens = words(text)
        for i in range(len(tokens) - n + 1):
            counts[tuple(tokens[i : i + n])] += 1
    return counts


def same(a: NGrams, b: NGrams) -> bool:
    return (
        np.array_equal(a.hashes, b.hashes)
        and np.array_equal(a.counts, b.counts)
        and a.tokens == b.tokens
    )


@given(corpora, st.sampled_from(DISTINCT))
def test_distinct_n_is_what_a_plain_loop_counts(texts: list[str], metric: type[Distinct]):
    counts = ngrams(texts, metric.n)
    value = metric().value(metric().state(samples(texts)))
    if not counts:
        assert math.isnan(value.value)
        assert value.undefined == f"no text of {metric.n} or more tokens"
        return
    assert value.value == len(counts) / counts.total()
    assert 0 < value.value <= 1
    by_tokens = metric(denominator="tokens")
    tokens = sum(len(words(text)) for text in texts)
    assert by_tokens.value(by_tokens.state(samples(texts))).value == len(counts) / tokens


@given(st.lists(corpora, min_size=1, max_size=4), st.sampled_from(DISTINCT), st.randoms())
def test_states_merge_in_any_order_into_the_state_of_all_texts(
    parts: list[list[str]], metric: type[Distinct], random
):
    whole = metric().state(samples(list(itertools.chain(*parts))))
    states = [metric().state(samples(part)) for part in parts]
    assert same(functools.reduce(metric().merge, states), whole)
    random.shuffle(states)
    while len(states) > 1:
        states.append(metric().merge(states.pop(0), states.pop(0)))
    assert same(states[0], whole)
    assert same(pickle.loads(pickle.dumps(states[0])), whole)


@given(corpora, st.randoms())
def test_the_order_of_texts_does_not_matter(texts: list[str], random):
    shuffled = list(texts)
    random.shuffle(shuffled)
    assert same(Distinct2().state(samples(texts)), Distinct2().state(samples(shuffled)))


def test_n_grams_do_not_cross_from_a_text_to_the_next():
    state = Distinct2().state(samples(["one two", "", "three", "four five"]))
    assert (state.total, state.tokens) == (2, 5)


def test_the_order_within_an_n_gram_counts():
    ids = [np.array(row, np.uint64) for row in ([1, 2, 3], [3, 2, 1], [2, 1, 3])]
    assert len(np.unique(ngram_hashes(ids, 3))) == 3
    assert len(np.unique(ngram_hashes(ids, 1))) == 3


def test_floor_cuts_and_never_rounds():
    texts = samples(["a a a", "b b b", "c c"])  # 3 / 8 = 0.375
    by_floor = {d: Distinct1(floor=d).score(texts).values[0] for d in (None, 0, 1, 2, 3, 15)}
    assert by_floor == {None: 0.375, 0: 0.0, 1: 0.3, 2: 0.37, 3: 0.375, 15: 0.375}


def test_a_floor_that_is_not_a_number_of_decimals_is_the_users_mistake():
    with pytest.raises(UserError, match=r"floor=-1: expected a whole number from 0 to 15, or none"):
        Distinct1(floor=-1)
    with pytest.raises(UserError, match=r"draws=0: expected a whole number from 1 on"):
        HDD1(draws=0)


def test_every_group_has_a_value_or_a_reason():
    rows = [("a", "Snow."), ("b", ""), ("b", " \n\u200b"), ("c", "Snow snow snow")]
    given_texts = [Sample(str(i), text, system=system) for i, (system, text) in enumerate(rows)]
    scores = Distinct1().score(given_texts)
    assert scores.ids == ("system=a", "system=b", "system=c")
    np.testing.assert_array_equal(scores.values, [1, np.nan, 1 / 3])
    assert scores.undefined == {"system=b": "no text of 1 or more tokens"}
    few = HDD1(draws=3).score(given_texts)
    assert few.undefined == {
        "system=a": "fewer than draws=3 1-grams",
        "system=b": "no text of 1 or more tokens",
    }
    assert few.values[2] == pytest.approx(1 / 3)


@given(counts_of_types, st.data())
def test_expected_types_is_the_mean_over_all_draws(counts: list[int], data):
    m = data.draw(st.integers(1, min(sum(counts), 4)))
    tokens = [t for t, f in enumerate(counts) for _ in range(f)]
    every = [len(set(drawn)) for drawn in itertools.combinations(tokens, m)]
    assert expected_types(np.array(counts), m) == pytest.approx(sum(every) / len(every), abs=1e-12)


@given(counts_of_types)
def test_drawing_everything_finds_every_type(counts: list[int]):
    assert expected_types(np.array(counts), sum(counts)) == pytest.approx(len(counts), abs=1e-12)


def test_expected_types_keeps_its_digits_in_a_large_corpus():
    types, f, m = 1_000_000, 100, 50
    N = types * f
    absent = math.prod((N - f - i) / (N - i) for i in range(m))
    exact = m - m * (m - 1) / 2 * (f - 1) / (N - 1)  # but for triples, 1e-9 of it
    expected_count = expected_types(np.full(types, f), m)
    assert expected_count == pytest.approx(exact, rel=1e-8)
    assert expected_count == pytest.approx(
        types * (1 - absent), rel=1e-4
    )  # which has lost its digits


def test_hd_d_of_one_draw_is_one_and_falls_with_draws():
    state = HDD1().state(samples(["so so so it rains and rains and rains"]))
    values = [HDD1(draws=m).value(state).value for m in range(1, state.total + 1)]
    assert values[0] == pytest.approx(1)
    assert all(a > b for a, b in itertools.pairwise(values))


def zipf_texts(n: int, seed: int) -> list[Sample]:
    """Texts of 20 words each, whose frequencies fall with their rank."""
    rng = np.random.default_rng(seed)
    ranks = np.arange(1, 20_001)
    p = 1 / ranks / (1 / ranks).sum()
    drawn = rng.choice(ranks, size=(n, 20), p=p)
    return samples([" ".join(f"w{rank}" for rank in row) for row in drawn])


def assert_hd_d_stays_where_distinct_n_falls(texts: list[Sample]):
    for distinct, hdd, stays in ((Distinct1, HDD1, 0.02), (Distinct2, HDD2, 0.01)):
        whole, tenth = (
            (distinct().score(part).values[0], hdd().score(part).values[0])
            for part in (texts, texts[: len(texts) // 10])
        )
        assert whole[0] < 0.9 * tenth[0]
        assert whole[1] == pytest.approx(tenth[1], abs=stays)


def test_hd_d_hardly_moves_with_the_size_of_a_corpus_where_distinct_n_falls():
    assert_hd_d_stays_where_distinct_n_falls(zipf_texts(2000, seed=1))


@pytest.mark.slow
@pytest.mark.usefixtures("rated_data")
def test_hd_d_hardly_moves_on_film_reviews_where_distinct_n_falls():
    reviews = load("sst2", part="train", here=True)
    order = np.random.default_rng(0).permutation(len(reviews))[:4000]
    texts = [Sample(str(i), reviews[i].text) for i in order]
    assert_hd_d_stays_where_distinct_n_falls(texts)


@pytest.mark.slow
@pytest.mark.usefixtures("rated_data")
def test_distinct_n_as_published_for_every_run_with_texts():
    published = {run.name: run.results["distinct-n"] for run in lpf.runs(here=True)}
    groups: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in load("lpf", part=["sentiment", "topic"], here=True):
        run, value = sample.id.rpartition(":")[0], next(iter(sample.control.values()))
        if run in published:
            groups[run, str(value)].append(sample)
    assert len(groups) >= 159
    for metric in DISTINCT:
        as_published = metric(tokenizer="gpt2", denominator="tokens", floor=2)
        for (run, value), texts in groups.items():
            (scores,) = as_published.score(texts).values
            assert scores == published[run][value][f"dist{metric.n}"], (run, value)


@pytest.mark.slow
@pytest.mark.usefixtures("rated_data")
def test_hd_d_is_defined_for_every_published_group():
    texts = load("lpf", part=["sentiment", "topic", "keywords"], here=True)
    for metric in (HDD1, HDD2, HDD3):
        scores = metric().score(texts)
        assert len(scores) >= 159
        assert not scores.undefined


@pytest.mark.usefixtures("rated_data")
def test_gpt2_tells_case_and_leading_blanks_apart():
    texts = samples(["rain Rain", " rain rain"])
    state = Distinct1(tokenizer="gpt2").state(texts)
    assert state.tokens == 4
    assert len(state.hashes) == 3  # "rain", " Rain", " rain" twice
    assert state.tokens == sum(state.counts)


def test_a_models_tokenizer_can_be_named_by_its_folder(tiny_folders: dict[str, Path]):
    import tiny

    metric = Distinct1(tokenizer=str(tiny_folders["bart"]))
    texts = ["It rained and rained.", "", "👍🏽 雨"]
    expected = [tiny.tokenizer("bart")(t, add_special_tokens=False)["input_ids"] for t in texts]
    state = metric.state(samples(texts))
    assert state.tokens == sum(map(len, expected))
    assert len(state.hashes) == len(set(itertools.chain(*expected)))
    assert "|tokenizer:bart@" in metric.signature


def test_the_signature_names_every_choice():
    assert Distinct2(denominator="tokens", floor=2, tokenizer="gpt2").signature.startswith(
        "diversity.distinct-2|tokenizer:gpt2@ed19656ea170+fe36cab26d4f|denominator:tokens|floor:2|v:"
    )
    assert HDD3(draws=42).signature.startswith(
        "diversity.hdd-3|tokenizer:words-casefold|draws:42|v:"
    )
    assert len({m().signature for m in (*DISTINCT, HDD1, HDD2, HDD3)}) == 6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Don't STOP!", ["don", "'", "t", "stop", "!"]),
        ("e\u0301tude étude", ["étude", "étude"]),
        ("STRASSE straße", ["strasse", "strasse"]),
        ("👩‍👩‍👧👍🏽🇩🇪", ["👩‍👩‍👧", "👍🏽", "🇩🇪"]),
        ("火山ガス", ["火", "山", "ガ", "ス"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("a\u200b\x00b", ["a", "b"]),
        ("snake_case 3.5", ["snake_case", "3", ".", "5"]),
    ],
)
def test_words_in_many_scripts(text: str, expected: list[str]):
    assert words(text) == expected


@given(st.text())
def test_words_lose_nothing_that_can_be_seen(text: str):
    def seen(s: str) -> str:
        from levelfield.text.words import plain

        return "".join(c for c in plain(s, fold=True) if not c.isspace() and c.isprintable())

    # without the blanks between them, marks may have another order
    assert sorted(seen("".join(words(text)))) == sorted(seen(text))


def test_texts_that_are_hard_to_read_are_counted_too():
    texts = samples(["\ud800 lone", "\x00", "a" * 200_000, "word " * 50_000, "\u202eabc"])
    state = Distinct2().state(texts)
    assert state.tokens == 2 + 0 + 1 + 50_000 + 1
    assert state.total == 1 + 49_999


def test_hd_d_and_distinct_n_share_a_state():
    texts = zipf_texts(50, seed=2)
    assert same(HDD2().state(texts), Distinct2().state(texts))
    assert issubclass(HDD2, HDD)

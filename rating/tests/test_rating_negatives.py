"""Negative samples: bad on purpose, like no real text, neither first nor last."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.errors import InputError
from levelfield.core.sample import Sample
from levelfield_rating.allocate import slots_of
from levelfield_rating.model import Frozen, Item
from levelfield_rating.negatives import Lacking, dropped, negatives_of, shuffled, split
from levelfield_rating.plan.freezing import freeze
from levelfield_rating.units import BalancedItem, Show, Unit, questions_of, units_of
from study_folder import BOTH_WAYS, CRITERIA, TASKS, rewrites, write_study

SHOW = Show(fields=("source",))


def units(records: list[dict[str, object]], show: Show = SHOW) -> list[Unit]:
    samples = [
        Sample(**{k: v for k, v in record.items() if k != "control"})  # type: ignore[arg-type]
        for record in records
    ]
    return units_of(samples, show)


def made(
    survey_units: list[Unit], kind: str, *, count: int = 1, survey: int = 1
) -> list[BalancedItem]:
    questions = negatives_of(survey, survey_units, survey_units, "direct", count, kind, 1, {})  # type: ignore[arg-type]
    assert all(isinstance(question, BalancedItem) for question in questions)
    return [question for question in questions if isinstance(question, BalancedItem)]


def controls(frozen: Frozen) -> list[Item]:
    return [item for item in frozen.items.values() if item.control]


SENTENCES = st.lists(
    st.sampled_from(["We came by train.", "It rained!", "Was that all?", "Nobody slept. ", "Yes."]),
    min_size=1,
    max_size=8,
)


@given(SENTENCES, st.sampled_from([" ", "\n\n", "  "]), st.integers(0, 5))
def test_shuffling_keeps_all_sentences_and_changes_the_first(parts, blank, seed):
    text = blank.join(parts)
    sentences, between = split(text, "en")

    bad = shuffled(text, "en", seed)

    if bad is None:
        # too short, or all sentences read the same
        assert len(sentences) < 3 or len(set(sentences)) < 3
    else:
        assert Counter(split(bad, "en")[0]) == Counter(sentences)
        assert Counter(split(bad, "en")[1]) == Counter(between)
        assert bad.split() != text.split()


@given(SENTENCES, st.integers(0, 5))
def test_dropping_keeps_half_of_the_sentences_in_their_order(parts, seed):
    text = " ".join(parts)
    sentences = list(split(text, "en")[0])

    bad = dropped(text, "en", seed)

    if len(sentences) < 3:
        assert bad is None
    else:
        assert bad is not None
        kept = split(bad, "en")[0]
        assert len(kept) == len(sentences) // 2
        rest = iter(sentences)
        assert all(sentence in rest for sentence in kept)


def test_sentences_of_scripts_without_blanks_are_shuffled_without_blanks():
    text = "今日は晴れです。明日は雨です。昨日は雪でした。"

    bad = shuffled(text, "ja", 1)

    assert bad is not None
    assert bad != text
    assert sorted(bad) == sorted(text)


@pytest.mark.parametrize("kind", ["shuffled", "dropped", "other"])
def test_a_negative_sample_comes_from_another_unit_and_differs_from_the_texts_of_its_own(kind):
    survey_units = units(rewrites(4, sentences=4))

    (question,) = made(survey_units, kind)

    host = next(unit for unit in survey_units if unit.key == question.unit)
    (candidate,) = question.item.candidates
    assert question.item.control == kind
    assert candidate.samples == ()
    assert question.item.given == host.given
    number = host.given[0].text.split()[3]
    assert f"Parcel {number} " not in candidate.part.text
    real = {output.part.text for unit in survey_units for output in unit.outputs}
    assert (candidate.part.text in real) == (kind == "other")
    assert candidate.part.name == host.outputs[0].part.name


def test_without_a_choice_long_texts_are_shuffled_or_dropped_from_and_short_ones_swapped():
    long = [q.item.control for q in made(units(rewrites(6, sentences=4)), "auto", count=4)]
    short = [q.item.control for q in made(units(rewrites(6)), "auto", count=2)]

    assert Counter(long) == {"shuffled": 2, "dropped": 2}
    assert short == ["other", "other"]


def test_several_negative_samples_have_different_sources_and_differ():
    questions = made(units(rewrites(6, sentences=3)), "auto", count=5)

    assert len({question.unit for question in questions}) == 5
    assert len({q.item.candidates[0].part.text for q in questions}) == 5


@pytest.mark.parametrize("kind", ["shuffled", "dropped", "other", "auto"])
def test_an_impossible_negative_sample_has_a_reason(kind):
    (lacking,) = negatives_of(1, units(rewrites(1)), units(rewrites(1)), "direct", 1, kind, 1, {})

    assert isinstance(lacking, Lacking)
    assert lacking.survey == 1


def test_the_text_of_another_source_needs_a_source_to_be_seen():
    survey_units = units(rewrites(4), Show(fields=()))

    (lacking,) = negatives_of(1, survey_units, survey_units, "direct", 1, "other", 1, {})

    assert isinstance(lacking, Lacking)
    assert "in view of the raters" in lacking.reason


def test_empty_texts_neither_make_nor_carry_a_negative_sample():
    texts = ["", " ", "One text.", "Two texts."]
    records: list[dict[str, object]] = [
        {"id": str(n), "system": "a", "source": f"S{n}", "text": text}
        for n, text in enumerate(texts)
    ]

    questions = made(units(records), "other", count=2)

    assert {q.item.candidates[0].part.text for q in questions} == {"One text.", "Two texts."}
    assert {q.item.given[0].text for q in questions} == {"S2", "S3"}


@pytest.mark.parametrize("design", ["direct", "pairwise", "ranking"])
@pytest.mark.parametrize("seed", range(6))
def test_no_negative_sample_is_first_or_last_in_any_slot(tmp_path, design, seed):
    scale = {"direct": "slider"}.get(design, design)
    file = write_study(
        tmp_path,
        rewrites(6, ("plain", "florid")),
        BOTH_WAYS,
        TASKS,
        f'[design]\nkind = "{design}"\nsurveys = 2\nraters = 3\nseed = {seed}',
        "[controls]\nnegative = 1",
        criteria=f'{CRITERIA}\nscale = "{scale}"',
    )

    frozen = freeze(file)

    places: Counter[int] = Counter()
    for slot in frozen.slots:
        kinds = [frozen.items[placed.item].control for placed in slot.items]
        assert len([kind for kind in kinds if kind]) == 1
        assert not kinds[0]
        assert not kinds[-1]
        places[next(n for n, kind in enumerate(kinds) if kind)] += 1
    assert len(frozen.slots) == 6
    if design != "ranking":  # which has four items a slot
        assert len(places) > 1


@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), st.integers(1, 3), st.integers(0, 9))
def test_not_even_in_the_smallest_survey_with_room_for_it(sizes, ways, seed):
    survey_units = units_of(
        [
            Sample(id=f"{n} {k}", text=f"T {n} {k}", source=f"S{n}", control={"way": f"{n % ways}"})
            for n, size in enumerate(sizes)
            for k in range(size)
        ],
        SHOW,
        attribute="way",
    )
    questions = [question for unit in survey_units for question in questions_of(unit, "direct")]
    counts = Counter(question.item.direction for question in questions)
    (control,) = negatives_of(1, survey_units, survey_units, "direct", 1, "other", seed, counts)
    assert isinstance(control, BalancedItem)

    for slot in slots_of([[*questions, control]], "direct", 3, seed):
        assert control.item.key in [placed.item for placed in slot.items[1:-1]]


def test_the_text_comes_from_another_survey_so_that_no_rater_sees_it_twice(tmp_path):
    file = write_study(
        tmp_path, rewrites(8), "[design]\nsurveys = 2", '[controls]\nnegative = 2\nkind = "other"'
    )

    frozen = freeze(file)

    for control in controls(frozen):
        seen = {
            candidate.part.text
            for item in frozen.items.values()
            for candidate in item.candidates
            if item.survey == control.survey and not item.control
        }
        assert control.candidates[0].part.text not in seen


def test_in_a_pair_or_a_ranking_the_negative_sample_is_the_candidate_without_samples(tmp_path):
    records = rewrites(4, ("plain", "florid", "curt"))
    for design, real in (("pairwise", 1), ("ranking", 2)):  # of three systems
        file = write_study(
            tmp_path,
            records,
            f'[design]\nkind = "{design}"\nraters = 8',
            "[controls]\nnegative = 1",
            criteria=f'{CRITERIA}\nscale = "{design}"',
        )

        frozen = freeze(file)

        (control,) = controls(frozen)
        assert [bool(c.samples) for c in control.candidates] == [True] * real + [False]
        # where it is shown is another matter: it changes from rater to rater
        shown = {
            placed.order.index(real)
            for slot in frozen.slots
            for placed in slot.items
            if placed.item == control.key
        }
        assert len(shown) > 1


def test_negative_samples_even_out_the_directions():
    survey_units = units_of(
        [
            Sample(id=f"{n}", text=f"T{n}", source=f"S{n}", control={"way": way})
            for n, way in enumerate(["up"] * 4 + ["down"] * 3)
        ],
        SHOW,
        attribute="way",
    )

    (question,) = negatives_of(
        1, survey_units, survey_units, "direct", 1, "other", 1, {"up": 4, "down": 3}
    )

    assert isinstance(question, BalancedItem)
    assert question.item.direction == "down"


def test_a_survey_of_one_text_is_too_small_for_a_negative_sample(tmp_path):
    file = write_study(
        tmp_path, rewrites(2, ("plain",)), "[design]\nsurveys = 2", "[controls]\nnegative = 1"
    )

    with pytest.raises(InputError, match="too few items"):
        freeze(file)


@pytest.mark.parametrize("systems", [("plain", "florid"), ("plain", "florid", "curt", "odd")])
def test_a_ranking_with_a_negative_sample_has_as_many_texts_as_every_other(tmp_path, systems):
    file = write_study(
        tmp_path,
        rewrites(4, systems),
        '[design]\nkind = "ranking"',
        "[controls]\nnegative = 1",
        criteria=CRITERIA,
    )
    assert {len(item.candidates) for item in freeze(file).items.values()} == {len(systems)}

"""What is said of a study before anybody sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.core.errors import UserError
from levelfield_rating.plan.check import StudyCheck, check_study
from levelfield_rating.plan.freezing import freeze
from study_folder import BOTH_WAYS, CRITERIA, TASKS, rewrites, write_study

CALM = [
    'contact = "a@example.org"',
    '[words]\nconsent = "Yes?"\ninstructions = "Read."',
    '[[examples]]\ntext = "x"\ndirection = "formal"',
    '[[examples]]\ntext = "x"\ndirection = "informal"',
]
LABELLED = CRITERIA + '\nlow = "no"\nhigh = "yes"'


def checked(folder: Path, text: str, *parts: str, **fields: object) -> StudyCheck:
    """Returns a report on a study in which one of six texts is another."""
    records = rewrites(3)
    records[2] |= {"text": text, **fields}
    return check_study(write_study(folder, records, *parts))


def test_a_sound_study_has_no_problems_and_no_warnings(tmp_path):
    file = write_study(
        tmp_path, rewrites(8), BOTH_WAYS, TASKS, *CALM, "[design]\nsurveys = 2", criteria=LABELLED
    )

    report = check_study(file)

    assert report.ok
    assert report.problems == ()
    assert report.warnings == ()


def test_the_report_counts_what_raters_will_see(tmp_path):
    records = rewrites(8)
    records[1]["text"] = "  " + records[0]["text"] + "\n"  # florid says what plain says
    file = write_study(
        tmp_path,
        records,
        BOTH_WAYS,
        TASKS,
        "[design]\nsurveys = 2\nraters = 3",
        "[controls]\nnegative = 1",
    )

    report = check_study(file)
    frozen = freeze(file)

    assert (report.title, report.samples, report.units, report.raters) == ("Letters", 16, 8, 3)
    assert (report.texts, report.merged) == (15, 1)
    assert report.systems == {"plain": 8, "florid": 8}
    assert report.directions == {"formal": 4, "informal": 4}
    for number, survey in enumerate(report.surveys, 1):
        items = [item for item in frozen.items.values() if item.survey == number]
        assert survey.items == len(items)
        assert survey.controls == 1
        assert sum(survey.directions.values()) == survey.items
    assert sum(survey.items for survey in report.surveys) == 15 + 2


def test_the_time_is_reading_and_answering(tmp_path):
    record = {"id": "1", "source": "word " * 100, "text": "word " * 300}

    (survey,) = check_study(
        write_study(tmp_path, [record], criteria=CRITERIA + "\n" + CRITERIA.replace("content", "b"))
    ).surveys

    assert survey.words == 400
    assert survey.minutes == pytest.approx(400 / 200 + 2 * 5 / 60)


def test_a_study_that_is_wrong_is_reported_and_has_no_surveys(tmp_path):
    report = check_study(write_study(tmp_path, rewrites(2), "[design]\nsurveys = 9"))

    assert not report.ok
    assert len(report.problems) == 1
    assert report.problems[0].startswith(f"{tmp_path / 'STUDY.toml'}: design: surveys: 9 surveys")
    assert report.surveys == ()
    assert report.samples == 4


def test_a_file_that_is_not_there_is_the_users_mistake(tmp_path):
    with pytest.raises(UserError, match="can't be read"):
        check_study(tmp_path / "STUDY.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the text is empty in 1 sample"),
        (" \n", "the text is empty in 1 sample"),
        ("far too much " * 170, "the text has more than 500 words in 1 sample"),
        ("a\x07b", "control characters in 1 sample"),
        ("a\u202eb", "characters that turn the direction of writing in 1 sample"),
        ("a\ufffdb", "U+FFFD"),
        ("a\u200bb", "invisible characters in 1 sample"),
        ("cafÃ©", "UTF-8 read as another encoding"),
        ("itâ€™s", "UTF-8 read as another encoding"),
        ("one<br/>two", "what looks like markup"),
        ("Tom &amp; Ann", "what looks like markup"),
    ],
)
def test_texts_that_nobody_meant_are_pointed_out_with_their_samples(tmp_path, text, expected):
    before = set(checked(tmp_path, "A plain text.").warnings)

    (warning,) = set(checked(tmp_path, text).warnings) - before

    assert warning.startswith(expected)
    assert '"plain-1"' in warning


@pytest.mark.parametrize(
    "text", ["Ünïcödé ça va", "👩‍👩‍👧 family", "2 < 3 & 4 > 1", "line\nbreak\ttab", "नमस्ते", "Â, Ã"]
)
def test_texts_of_all_scripts_are_taken_as_they_are(tmp_path, text):
    before = checked(tmp_path, "A plain text.").warnings

    assert checked(tmp_path, text).warnings == before


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("[design]\nraters = 1", "one rater per survey: agreement can't be measured"),
        (
            TASKS.replace("[tasks]", f'{BOTH_WAYS}\n[tasks]\nnone = "x"'),
            'tasks: no sample wants "n',
        ),
        ('show = ["source", "prompt"]', "show: 6 samples"),
        ('language = "de"', 'raters read de, but "Original", "Text" above texts; set [names]'),
        ('[completion]\nurl = "https://a.org"', "completion: url has no {code}"),
        ('[controls]\nnegative = 1\nkind = "other"', "survey 1: the text of 1 of its negative"),
    ],
)
def test_what_deserves_a_look_is_a_warning(tmp_path, part, expected):
    before = set(check_study(write_study(tmp_path, rewrites(3))).warnings)

    (warning,) = set(check_study(write_study(tmp_path, rewrites(3), part)).warnings) - before

    assert warning.startswith(expected)


def test_information_that_raters_lack_is_a_warning(tmp_path):
    warnings = check_study(write_study(tmp_path, rewrites(3))).warnings

    begins = ["criterion", "no consent", "no instructions", "no contact", "no worked examples"]
    assert [next(b for b in begins if w.startswith(b)) for w in warnings] == begins


def test_a_direction_without_a_worked_example_is_named(tmp_path):
    file = write_study(tmp_path, rewrites(4), BOTH_WAYS, TASKS, *CALM[:3], criteria=LABELLED)

    assert check_study(file).warnings == ('no worked example for "informal"',)


def test_texts_under_several_sources_and_systems_with_gaps_are_pointed_out(tmp_path):
    records = rewrites(4)
    records[2]["text"] = records[0]["text"]

    repeated = check_study(write_study(tmp_path, records)).warnings
    (message,) = [w for w in repeated if "under several sources, prompts or contexts" in w]
    assert message.endswith(f'"{records[0]["text"]}"')

    gap = check_study(write_study(tmp_path, rewrites(4)[:-1])).warnings
    assert any(w.startswith('system "florid" has a text for 3 of 4 sources') for w in gap)


def test_a_language_that_is_not_a_tag_is_a_warning(tmp_path):
    warnings = checked(tmp_path, "Text.", language="the second one").warnings

    assert any(w.startswith("language is not a tag such as en in 1 sample") for w in warnings)


def test_sources_with_nothing_to_compare_are_left_out_and_named(tmp_path):
    records = rewrites(4)
    records[1]["text"] = records[0]["text"]
    file = write_study(
        tmp_path, records, '[design]\nkind = "pairwise"', criteria=CRITERIA + '\nscale = "pairwise"'
    )

    report = check_study(file)

    assert (report.units, report.surveys[0].items) == (3, 3)
    (warning,) = [w for w in report.warnings if "left out" in w]
    assert warning.startswith(
        "no two texts to compare for 1 source, prompt or context, which are left out"
    )
    assert '"plain-0"' in warning


def test_a_survey_of_more_than_an_hour_is_pointed_out(tmp_path):
    warnings = check_study(write_study(tmp_path, rewrites(360))).warnings

    assert any("takes a rater about" in w for w in warnings)

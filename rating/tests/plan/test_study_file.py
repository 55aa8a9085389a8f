"""A study file of the rating app: what it may say, and what is said of one that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from levelfield.core.errors import InputError, UserError
from levelfield_rating.model import Frozen, RatingCriterion, TextPart
from levelfield_rating.plan.file import read_study
from levelfield_rating.plan.freezing import freeze
from study_folder import BOTH_WAYS, CRITERIA, TASKS, TOP, rewrites, write_study

PAIRS = CRITERIA + '\nscale = "pairwise"'


def problems(file: Path) -> list[str]:
    """Returns the problems of a study, without the file's name."""
    with pytest.raises(InputError) as caught:
        freeze(file)
    assert all(p.startswith(f"{file}: ") and "\n" not in p for p in caught.value.problems)
    return [problem.removeprefix(f"{file}: ") for problem in caught.value.problems]


def test_a_small_file_is_a_whole_study(tmp_path):
    frozen = freeze(write_study(tmp_path, rewrites(4), BOTH_WAYS, TASKS))

    assert (frozen.id, frozen.version, frozen.title) == ("letters", 1, "Letters")
    assert (frozen.language, frozen.design, frozen.fail_rule) == ("en", "direct", "none")
    assert frozen.criteria == (
        RatingCriterion("content", "Content", "Both say the same.", "slider"),
    )
    assert [slot.name for slot in frozen.slots] == ["survey 1, rater 1", "survey 1, rater 2"]
    assert len(frozen.items) == 8
    item = next(i for i in frozen.items.values() if i.candidates[0].samples == ("florid-1",))
    assert item.given == (TextPart("Original", "The parcel number 1 came late.", "en", "auto"),)
    assert (item.task, item.direction, item.control) == ("Make it informal.", "informal", "")


def test_everything_a_file_can_say_is_read(tmp_path):
    (tmp_path / "consent.md").write_text("We keep **answers** only.", encoding="utf-8")
    file = write_study(
        tmp_path,
        rewrites(6, sentences=4),
        'language = "en-GB"\nversion = 3\ncontact = "a@example.org"\nduration = "ten minutes"',
        'consent_version = "2"\nids = "file"\n' + BOTH_WAYS,
        TASKS,
        '[names]\nsource = "Before"\ntext = "After"',
        "[design]\nsurveys = 2\nraters = 3\nseed = 9",
        '[[criteria]]\nid = "style"\ntitle = "Style"\nstatement = "It fits."\nscale = "likert"\n'
        'points = 3\nlabels = ["no", "so so", "yes"]\nhelp = "Look at *words*."',
        '[controls]\nnegative = 1\nkind = "shuffled"\nrule = "none"',
        '[words]\nwelcome = "Hello."\nconsent = { file = "consent.md" }\nthanks = "Bye."',
        '[[examples]]\nsource = "It rains."\ntext = "Rain falls."\ndirection = "formal"\n'
        'why = "Nothing is lost."\nanswers = { content = "high" }',
        '[[practice]]\nsource = "It snows."\ntext = "No."\ntask = "Make it polite."\n'
        'hint = "Is snow in it?"\naccept = { content = [1, 30], style = [1, 2] }',
        '[completion]\ncode = "C1"\nurl = "https://example.org/?c={code}"',
    )

    frozen = freeze(file)

    assert (frozen.version, frozen.language, frozen.seed) == (3, "en-GB", 9)
    assert (frozen.contact, frozen.duration) == ("a@example.org", "ten minutes")
    assert frozen.words.consent == "We keep **answers** only."
    assert (frozen.words.welcome, frozen.words.thanks) == ("Hello.", "Bye.")
    assert (frozen.consent_version, frozen.completion) == ("2", "C1")
    assert frozen.completion_url == "https://example.org/?c={code}"
    assert frozen.criteria[1].labels == ("no", "so so", "yes")
    assert {slot.survey for slot in frozen.slots} == {1, 2}
    assert len(frozen.slots) == 6
    assert [i.control for i in frozen.items.values() if i.control] == ["shuffled"] * 2
    (example,) = frozen.examples
    assert example.given == (TextPart("Before", "It rains.", "en-GB", "auto"),)
    assert (example.candidates[0].name, example.task) == ("After", "Make it formal.")
    assert example.answers == {"content": "high"}
    (practice,) = frozen.practice
    assert practice.accept == {"content": (1, 30), "style": (1, 2)}
    assert (practice.task, practice.hint) == ("Make it polite.", "Is snow in it?")


@pytest.mark.parametrize("design", ["direct", "pairwise", "ranking"])
def test_a_frozen_study_goes_through_json_unchanged(tmp_path, design):
    scale = {"direct": "slider"}.get(design, design)
    accept = {"direct": "{ content = [50, 100] }", "pairwise": '{ content = "second" }'}
    text = 'text = "One."' if design == "direct" else 'texts = ["One.", "Two."]'
    file = write_study(
        tmp_path,
        rewrites(5, ("plain", "florid", "curt")),
        BOTH_WAYS,
        TASKS,
        f'[design]\nkind = "{design}"',
        "[controls]\nnegative = 1",
        f'[[examples]]\n{text}\ndirection = "formal"',
        f'[[practice]]\n{text}\ndirection = "formal"\naccept = {accept.get(design, "{}")}',
        criteria=f'{CRITERIA}\nscale = "{scale}"',
    )

    frozen = freeze(file)

    again = Frozen.from_document(frozen.document())
    assert again == frozen
    assert again.digest == frozen.digest


def test_texts_are_shown_in_their_own_language_and_direction(tmp_path):
    records = [
        {"id": "1", "system": "a", "source": "Hello", "text": "שלום", "language": "he"}
        | {"source_language": "en"},
        {"id": "2", "system": "a", "source": "Bye", "text": "Bye now"},
        {"id": "3", "system": "a", "source": "Yes", "text": "ji haan", "language": "ur-Latn"},
    ]

    frozen = freeze(write_study(tmp_path, records))

    parts = {item.candidates[0].samples[0]: item for item in frozen.items.values()}
    assert parts["1"].candidates[0].part == TextPart("Text", "שלום", "he", "rtl")
    assert parts["1"].given[0] == TextPart("Original", "Hello", "en", "auto")
    assert parts["2"].candidates[0].part.language == "en"
    assert parts["3"].candidates[0].part.direction == "auto"


def test_a_task_is_filled_in_from_the_control(tmp_path):
    records = [
        {"id": "1", "prompt": "The lake", "text": "The lake froze."}
        | {"control": {"sentiment": "sad", "keywords": ["ice", "wind"]}}
    ]
    file = write_study(
        tmp_path, records, 'show = ["prompt"]\ntask = "Go on {{so}}: {sentiment}, with {keywords}."'
    )

    (item,) = freeze(file).items.values()

    assert item.task == "Go on {so}: sad, with ice, wind."


def test_the_turns_of_a_dialogue_are_shown_with_their_speakers(tmp_path):
    records = [{"id": "1", "text": "Fine.", "context": ["Hello!", "Hi.", "How are you?"]}]
    file = write_study(tmp_path, records, 'show = ["context"]', '[names]\ncontext = ["Ann", "Bo"]')

    (item,) = freeze(file).items.values()

    assert [part.name for part in item.given] == ["Ann", "Bo", "Ann"]


def test_fields_go_by_other_names_with_map(tmp_path):
    records = [{"id": "1", "src": "It rains.", "output": "Rain."}]
    file = write_study(tmp_path, records, '[map]\ntext = "output"\nsource = "src"')

    (item,) = freeze(file).items.values()

    assert item.candidates[0].part.text == "Rain."
    assert item.given[0].text == "It rains."


def test_fields_of_other_names_are_guessed_as_the_file_writes_them(tmp_path):
    records = [{"Model Output": "Rain.", "src": "It rains.", "wanted_tone": "glad"}]

    (problem,) = problems(write_study(tmp_path, records))

    mend = 'map = { text = "Model Output", source = "src", "control.sentiment" = "wanted_tone" }'
    assert problem.endswith(f"name yours, for example {mend}")
    assert freeze(write_study(tmp_path, records, mend)).items


def test_files_that_use_the_same_ids_need_the_file_before_the_id(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(
            f'{{"id": "1", "source": "S", "text": "By {name}."}}', encoding="utf-8"
        )
    top = TOP.replace('"texts.jsonl"', '"one.jsonl", "two.jsonl"')

    (problem,) = problems(write_study(tmp_path, [], top=top))
    assert problem.endswith('with ids = "file", each id begins with the name of its file')

    frozen = freeze(write_study(tmp_path, [], 'ids = "file"', top=top))
    assert {c.samples for i in frozen.items.values() for c in i.candidates} == {
        ("one/1",),
        ("two/1",),
    }


def test_a_study_that_did_not_change_stays_what_was_frozen_before(tmp_path):
    (tmp_path / "consent.md").write_text("Yes?", encoding="utf-8")
    file = write_study(tmp_path, rewrites(4), '[words]\nconsent = { file = "consent.md" }')
    first = freeze(file)

    assert freeze(file) != first  # opaque ids are random
    assert freeze(file, earlier=first) is first

    (tmp_path / "consent.md").write_text("Or no?", encoding="utf-8")
    assert freeze(file, earlier=first).words.consent == "Or no?"
    write_study(tmp_path, rewrites(5), '[words]\nconsent = { file = "consent.md" }')
    assert len(freeze(file, earlier=first).items) == 10


def test_nothing_that_a_rater_sees_tells_item_system_or_control(tmp_path):
    file = write_study(
        tmp_path, rewrites(8), "[controls]\nnegative = 2", "[design]\nsurveys = 2\nseed = 5"
    )

    frozen, again = freeze(file), freeze(file)

    opaque = [p.opaque for f in (frozen, again) for s in f.slots for p in s.items]
    assert len(set(opaque)) == len(opaque)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{16}", name) for name in opaque)
    shown = [
        part.name + part.text
        for item in frozen.items.values()
        for part in (*item.given, *(c.part for c in item.candidates))
        if not item.control
    ]
    assert {part.split("Parcel")[0] for part in shown if "Parcel" in part} == {"Text"}


def test_a_key_that_is_mistyped_is_named_with_the_nearest_one(tmp_path):
    file = write_study(
        tmp_path,
        rewrites(2),
        'titel = "x"',
        '[design]\nrater = 2\nversion = 2\n[words]\nwelcom = "Hi"',
        criteria=CRITERIA + "\npoint = 3",
    )

    assert problems(file) == [
        'design: rater: there is no such key; did you mean "raters"?',
        "design: version: belongs to the whole study; write it above the first [table] of the file",
        'criteria[1]: point: there is no such key; did you mean "points"?',
        'words: welcom: there is no such key; did you mean "welcome"?',
        'titel: there is no such key; did you mean "title"?',
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ('language = "the Queen\'s"', "language: expected the tag of a language"),
        ("version = 0", "version: expected a whole number from 1 on; found 0"),
        (
            'show = ["sources"]',
            'show[1]: expected source, prompt or context; found "sources"; did you mean source?',
        ),
        (
            'show = "source"',
            "show: expected a list, each source, prompt or context,"
            ' such as ["source"]; found "source"',
        ),
        ('task = "Say {"', "task: "),
        ('task = "Say {mood.x}"', 'task: can\'t fill in "Say {mood.x}"; write {attribute}'),
        (
            'task = "Say {mood}"',
            'task: the control of samples "plain-0", "florid-0", "plain-1" and',
        ),
        ('direction = "mood"', 'direction: the control of samples "plain-0"'),
        (
            f'{BOTH_WAYS}\n[tasks]\nformal = "x"',
            'tasks: there is none for "informal", wanted by samples "plain-1", "florid-1"; '
            'did you mean "formal"?',
        ),
        (TASKS, 'tasks: requires direction = "ATTRIBUTE"'),
        (
            '[design]\nkind = "pairs"',
            "design: kind: expected direct, pairwise or ranking;"
            ' found "pairs"; did you mean pairwise?',
        ),
        (
            "[design]\nraters = 0",
            "design: raters: expected a whole number from 1 to 1,000; found 0",
        ),
        (
            "[design]\nraters = 1_000_000_000",
            "design: raters: expected a whole number from 1 to 1,000",
        ),
        (
            "[design]\nsurveys = 1_000_000_000",
            "design: surveys: expected a whole number from 1 to 1,000",
        ),
        (
            "[controls]\nnegative = 1_000_000_000",
            "controls: negative: expected a whole number from",
        ),
        (
            "[design]\nseed = -1",
            "design: seed: expected a whole number from 0 to 4,294,967,295; found -1",
        ),
        ('[design]\npairs = "all"', 'design: pairs: requires kind = "pairwise"'),
        ("[design]\nsurveys = 3", "design: surveys: 3 surveys, but only 2 different sources"),
        (
            '[controls]\nkind = "x"\nnegative = 1',
            'controls: kind: expected auto, shuffled, dropped or other; found "x"',
        ),
        ('[controls]\nrule = "not-lowest"', "controls: rule: there is no negative sample"),
        (
            '[controls]\nkind = "dropped"\nnegative = 1',
            "controls: survey 1: no text of another unit has 3 sentences; ",
        ),
        ('[words]\nconsent = { file = "no.md" }', 'words: consent: file: "no.md" can\'t be read'),
        (
            '[completion]\nurl = "javascript:x"',
            "completion: url: expected an address that begins with",
        ),
        ('[[examples]]\ntext = "a"\nanswers = { x = "y" }', "examples[1]: answers: x: there is no"),
        (
            '[[examples]]\ntext = "a"\nprompt = "b"',
            'examples[1]: prompt: is not shown; set show = ["prompt"]',
        ),
        ('[[practice]]\ntext = "a"', "practice[1]: accept: expected the answers that pass"),
        (
            '[[practice]]\ntext = "a"\naccept = { content = [0, 5] }',
            "practice[1]: accept: content: expected 1 ≤ lowest ≤ highest ≤ 100; found [0, 5]",
        ),
        (
            '[[practice]]\ntext = "a"\naccept = { content = true }',
            "practice[1]: accept: content: expected the lowest and the highest, such as [50, 100]",
        ),
    ],
)
def test_problems_name_their_place(tmp_path, part, expected):
    lines = problems(write_study(tmp_path, rewrites(2), part))

    assert len(lines) == 1
    assert lines[0].startswith(expected)


@pytest.mark.parametrize(
    ("criterion", "expected"),
    [
        (
            'id = "a b"',
            "id: expected up to 60 letters a to z, digits, - _ and .,"
            ' such as "content"; found "a b"',
        ),
        (
            'id = "../x"',
            "id: expected up to 60 letters a to z, digits, - _ and .,"
            ' such as "content"; found "../x"',
        ),
        ('id = "a"\nscale = "ranking"', "scale: ranking is not a scale of a direct design"),
        ('id = "a"\npoints = 4', "points: only a likert scale has points"),
        (
            'id = "a"\nscale = "likert"\npoints = 12',
            "points: expected a whole number from 2 to 11; found 12",
        ),
        ('id = "a"\nscale = "likert"\nlabels = ["x"]', "labels: 1 labels for 5 points"),
        ('id = "a"\nlabels = ["x"]', "labels: only the points of a likert scale have labels"),
    ],
)
def test_a_criterion_that_cannot_be_asked_is_refused(tmp_path, criterion, expected):
    whole = f'[[criteria]]\ntitle = "T"\nstatement = "S"\n{criterion}'

    (problem,) = problems(write_study(tmp_path, rewrites(2), criteria=whole))

    assert problem.startswith(f"criteria[1]: {expected}")


def test_two_criteria_of_one_id_are_refused(tmp_path):
    file = write_study(tmp_path, rewrites(2), criteria=f"{CRITERIA}\n{CRITERIA}")

    assert problems(file) == ['criteria: 2 have the id "content"; ids are unique']


def test_without_required_keys_all_are_named(tmp_path):
    file = tmp_path / "STUDY.toml"
    file.write_text("", encoding="utf-8")

    lines = problems(file)

    assert [line.split(":")[0] for line in lines] == ["id", "title", "samples", "criteria"]


def test_files_of_samples_that_are_not_there_are_named(tmp_path):
    (tmp_path / "STUDY.toml").write_text(
        f"{TOP.replace('texts.jsonl', 'none.jsonl')}\n{CRITERIA}", encoding="utf-8"
    )

    assert problems(tmp_path / "STUDY.toml") == [
        'samples[1]: "none.jsonl": there is no such file, seen from the study file'
    ]


def test_samples_that_cannot_be_read_are_named_with_their_line(tmp_path):
    file = write_study(tmp_path, [{"id": "1", "text": "a"}, {"id": "1", "text": "b"}, {"id": "2"}])

    lines = problems(file)

    assert len(lines) == 2
    assert all(line.startswith("samples: ") for line in lines)
    assert "texts.jsonl:2" in lines[0]
    assert "texts.jsonl:3" in lines[1]


@pytest.mark.parametrize("text", ["a = ", "\0"])
def test_a_file_that_is_not_toml_is_one_line(tmp_path, text):
    file = tmp_path / "STUDY.toml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(UserError, match="not a TOML file") as caught:
        freeze(file)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="can't be read"):
        freeze(tmp_path / "other.toml")


def test_pairs_need_two_systems_with_something_in_common(tmp_path):
    records = [{"id": str(n), "system": "a", "source": f"S{n}", "text": "x"} for n in range(3)]
    design = '[design]\nkind = "pairwise"'

    (problem,) = problems(write_study(tmp_path, records, design, criteria=PAIRS))
    assert problem.startswith("design: no source, prompt or context has two texts to compare")

    file = write_study(tmp_path, rewrites(2), f'{design}\npairs = "with:flowery"', criteria=PAIRS)
    (problem,) = problems(file)
    assert problem.startswith('design: pairs: no sample is from "flowery"')

    file = write_study(tmp_path, rewrites(2), f'{design}\npairs = "florid"', criteria=PAIRS)
    assert problems(file) == ['design: pairs: expected "all" or "with:SYSTEM"; found "florid"']


def test_a_ranking_of_too_many_texts_is_refused(tmp_path):
    records = rewrites(1, [f"s{n}" for n in range(13)])
    criteria = CRITERIA + '\nscale = "ranking"'

    (problem,) = problems(
        write_study(tmp_path, records, '[design]\nkind = "ranking"', criteria=criteria)
    )

    assert problem.startswith("design: a ranking of 13 texts; more than 12 can't be put in order")


def test_reading_the_file_alone_reads_no_samples(tmp_path):
    file = write_study(tmp_path, [{"nonsense": 1}])

    study, lines = read_study(file)

    assert lines == ()
    assert study.samples == (tmp_path / "texts.jsonl",)


def test_the_examples_of_the_documentation_are_a_study(tmp_path):
    root = Path(__file__).parents[3]
    text = (root / "docs" / "rating-study-file.md").read_text(encoding="utf-8")
    first, second = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    for name in ("rewrites.jsonl", "consent.md"):
        assert f'"{name}"' in first
    (tmp_path / "consent.md").write_text("Do you agree?", encoding="utf-8")
    write_study(tmp_path, rewrites(8))
    (tmp_path / "texts.jsonl").rename(tmp_path / "rewrites.jsonl")
    (tmp_path / "STUDY.toml").write_text(first + second, encoding="utf-8")

    frozen = freeze(tmp_path / "STUDY.toml")

    assert len(frozen.slots) == 8
    assert (len(frozen.examples), len(frozen.practice)) == (1, 1)
    assert all(item.task for item in (*frozen.examples, *frozen.practice))

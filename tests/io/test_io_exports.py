"""Exports of annotation tools become ratings: of Potato, pearmut and Label Studio."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from levelfield import agreement, correlate
from levelfield.core.errors import InputError
from levelfield.io import load_ratings
from levelfield.io.formats import FORMATS, format_at


def ratings(path: Path) -> list[tuple[str, str, str, float]]:
    return sorted(tuple(rating) for rating in load_ratings([path]).ratings)


def write_lines(path: Path, records: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_ratings([path])
    assert all("\n" not in problem for problem in caught.value.problems)
    return list(caught.value.problems)


# Potato

POTATO = [
    ("i1", "ann", {"quality": {"scale_4": "4"}, "mood": {"glad": "true"}}),
    ("i1", "bo", {"quality": {"5": "true"}, "length": {"slider": "2.5"}}),
    ("i2", "ann", {"quality": {"scale_2": "2"}, "note": {"text_box": "too long"}}),
]
POTATO_RATINGS = [
    ("i1", "length", "bo", 2.5),
    ("i1", "quality", "ann", 4.0),
    ("i1", "quality", "bo", 5.0),
    ("i2", "quality", "ann", 2.0),
]


def potato_lines() -> list[dict[str, object]]:
    return [
        {"instance_id": id, "user_id": user, "labels": labels, "spans": {}, "links": {}}
        for id, user, labels in POTATO
    ]


def test_potato_exports_lines(tmp_path: Path):
    path = write_lines(tmp_path / "annotations.jsonl", potato_lines())
    assert format_at(path) is FORMATS["potato"]
    assert ratings(path) == POTATO_RATINGS


@pytest.mark.parametrize(("joint", "user"), [(".", "user_id"), (":::", "user")])
def test_potato_exports_tables(tmp_path: Path, joint: str, user: str):
    columns = ["quality.scale_4", "quality.scale_2", "quality.5", "length.slider", "mood.glad"]
    rows = [
        {
            "instance_id": id,
            user: name,
            **{
                f"{question}{joint}{option}": value
                for question, options in labels.items()
                for option, value in options.items()
            },
        }
        for id, name, labels in POTATO
    ]
    header = ["instance_id", user, *(column.replace(".", joint, 1) for column in columns)]
    header.append(f"note{joint}text_box")
    for suffix, delimiter in ((".csv", ","), (".tsv", "\t")):
        path = tmp_path / f"annotations{suffix}"
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, header, delimiter=delimiter)
            table.writeheader()
            table.writerows(rows)
        assert format_at(path) is FORMATS["potato"]
        assert ratings(path) == POTATO_RATINGS


def test_a_table_with_our_own_columns_is_no_export_of_potato(tmp_path: Path):
    path = tmp_path / "ratings.csv"
    path.write_text("instance_id,user,ratings.quality\ni1,ann,4\n")
    assert format_at(path) is FORMATS["csv"]


@pytest.mark.parametrize("as_pairs", [False, True])
def test_potato_keeps_a_state_an_annotator(tmp_path: Path, as_pairs: bool):
    folder = tmp_path / "annotation_output"
    for user in ("ann", "bo"):
        states = {id: labels for id, name, labels in POTATO if name == user}
        pairs = {
            id: [
                [{"schema": question, "name": option}, value]
                for question, options in labels.items()
                for option, value in options.items()
            ]
            for id, labels in states.items()
        }
        (folder / user).mkdir(parents=True)
        state = {"user_id": user, "instance_id_ordering": list(states)}
        state["instance_id_to_label_to_value"] = pairs if as_pairs else states
        (folder / user / "user_state.json").write_text(json.dumps(state))
    assert ratings(folder) == POTATO_RATINGS
    of_ann = [rating for rating in POTATO_RATINGS if rating[2] == "ann"]
    assert ratings(folder / "ann" / "user_state.json") == of_ann


def test_older_versions_of_potato_name_the_annotator_by_the_folder(tmp_path: Path):
    for user in ("ann", "bo"):
        lines = [
            {
                "id": id,
                "displayed_text": f"text {id}",
                "label_annotations": labels,
                "span_annotations": [],
                "behavioral_data": {"time_string": "…"},
            }
            for id, name, labels in POTATO
            if name == user
        ]
        write_lines(tmp_path / "out" / user / "annotated_instances.jsonl", lines)
    assert ratings(tmp_path / "out") == POTATO_RATINGS
    rated = load_ratings([tmp_path / "out"])
    assert rated.samples["i1"].text == "text i1"


def test_answers_of_which_none_is_a_number_are_refused(tmp_path: Path):
    lines = [{**line, "labels": {"mood": {"glad": "true"}}} for line in potato_lines()]
    path = write_lines(tmp_path / "annotations.jsonl", lines)
    assert problems(path) == [
        f'{path}: no answer is a number: the questions are "mood", and an answer to "mood" is '
        '"glad"; ratings are numbers'
    ]


def test_two_questions_about_one_instance_are_two_aspects(tmp_path: Path):
    labels = {"parts": {"clear": "4", "kind": "2"}}
    path = write_lines(
        tmp_path / "a.jsonl", [{"instance_id": "i", "user_id": "u", "labels": labels}]
    )
    assert ratings(path) == [("i", "parts/clear", "u", 4.0), ("i", "parts/kind", "u", 2.0)]


def potato_file(path: Path, *labels: dict[str, object]) -> Path:
    lines = [
        {"instance_id": f"i{n}", "user_id": "u", "labels": answer}
        for n, answer in enumerate(labels)
    ]
    return write_lines(path / "a.jsonl", lines)


def test_the_number_one_of_potato_is_a_value(tmp_path: Path):
    path = potato_file(tmp_path, *({"quality": {"scale": n}} for n in (1, 2, 4)))
    assert [value for *_, value in ratings(path)] == [1, 2, 4]
    path = potato_file(tmp_path, *({"quality": n} for n in (1, 0, 4)))
    assert [value for *_, value in ratings(path)] == [1, 0, 4]


def test_keys_of_named_options_are_no_numbers(tmp_path: Path):
    moods = [{"mood": {name: key}} for name, key in (("glad", "1"), ("even", "2"), ("sad", "3"))]
    (problem,) = problems(potato_file(tmp_path, *moods, moods[0]))
    assert 'no answer is a number: the questions are "mood"' in problem
    scale = [{"mood": {f"scale_{n}": str(n)}} for n in (1, 2, 3)]
    assert [value for *_, value in ratings(potato_file(tmp_path, *scale))] == [1, 2, 3]


def test_an_aspect_has_one_name_however_many_options_an_answer_has(tmp_path: Path):
    both, single = {"clear": "4", "kind": "2"}, {"clear": "3"}
    path = potato_file(tmp_path, {"parts": single}, {"parts": both}, {"parts": single})
    assert [aspect for _, aspect, *_ in ratings(path)] == ["parts/clear"] * 2 + [
        "parts/kind", "parts/clear",
    ]  # fmt: skip


# pearmut


def pearmut_answer(user: str, item: object, scores: dict[str, float | None], **more: object):
    return {
        "annotation": [
            {
                model: {"score": score, "error_spans": [], "textfield": None}
                for model, score in scores.items()
            }
        ],
        "actions": [{"time": 1.0, "action": "load"}],
        "item": [
            {
                "item_id": f"de-{item}",
                "src": f"Quelle {item}",
                "tgt": {model: f"{model} {item}" for model in scores},
            }
        ],
        "user_id": user,
        "item_i": item,
        **more,
    }


PEARMUT = [
    pearmut_answer("ann", 0, {"m1": 70, "m2": 90}),
    pearmut_answer("bo", 0, {"m1": 60, "m2": None}),
    pearmut_answer("ann", 0, {"m1": 75, "m2": 90}),
    pearmut_answer("ann", "welcome_0", {"m1": 5}),
    pearmut_answer("bo", 1, {"m1": 1}),
    {"annotation": "__RESET__", "user_id": "bo", "item_i": 1},
]
PEARMUT_RATINGS = [
    ("m1/de-0", "score", "ann", 75.0),
    ("m1/de-0", "score", "bo", 60.0),
    ("m2/de-0", "score", "ann", 90.0),
]


def test_pearmut_keeps_a_line_an_answer_of_which_the_last_counts(tmp_path: Path):
    path = write_lines(tmp_path / "campaign.jsonl", PEARMUT)
    assert format_at(path) is FORMATS["pearmut"]
    assert ratings(path) == PEARMUT_RATINGS
    sample = load_ratings([path]).samples["m1/de-0"]
    assert (sample.system, sample.source, sample.text) == ("m1", "Quelle 0", "m1 0")


def test_pearmut_exports_campaigns(tmp_path: Path):
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps({"first": PEARMUT}))
    assert format_at(path) is FORMATS["pearmut"]
    assert ratings(path) == PEARMUT_RATINGS
    path.write_text(json.dumps({"first": PEARMUT, "second": PEARMUT}))
    assert ratings(path) == sorted(
        (f"{campaign}/{id}", *rest)
        for campaign in ("first", "second")
        for id, *rest in PEARMUT_RATINGS
    )


def test_sliders_of_pearmut_are_aspects(tmp_path: Path):
    answer = pearmut_answer("ann", 0, {"m1": None})
    answer["annotation"][0]["m1"]["sliders"] = {"Fluency": 4, "Adequacy": 90}
    path = write_lines(tmp_path / "campaign.jsonl", [answer])
    assert ratings(path) == [
        ("m1/de-0", "Adequacy", "ann", 90.0),
        ("m1/de-0", "Fluency", "ann", 4.0),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"annotation": [], "item_i": 0}', "expected an answer with user_id, item_i and ann"),
        ('{"user_id": "ann", "item_i": 0}', "expected an answer with user_id, item_i and ann"),
        ("{", "not JSON"),
    ],
)
def test_a_broken_answer_of_pearmut_is_named(tmp_path: Path, line: str, problem: str):
    path = write_lines(tmp_path / "campaign.jsonl", PEARMUT)
    path.write_text(path.read_text() + line + "\n")
    (complaint,) = problems(path)
    assert complaint.startswith(f"{path}:answer 7: {problem}")


# Label Studio


def task(id: int, *answers: tuple[object, dict[str, object]], **more: object) -> dict[str, object]:
    return {
        "id": id,
        "project": 1,
        "data": {"text": f"text {id}", "system": "m1"},
        "annotations": [
            {
                "id": 100 * id + n,
                "completed_by": author,
                "was_cancelled": False,
                "lead_time": 2.5,
                "result": [
                    {"from_name": name, "to_name": "text", "type": kind, "value": {kind: value}}
                    for name, (kind, value) in controls.items()
                ],
            }
            for n, (author, controls) in enumerate(answers)
        ],
        "predictions": [{"result": [], "model_version": "m"}],
        **more,
    }


STUDIO = [
    task(1, (7, {"quality": ("rating", 4)}), ({"email": "bo@x.org"}, {"quality": ("rating", 5)})),
    task(2, (7, {"quality": ("rating", 2), "length": ("number", 2.5), "mood": ("choices", ["3"])})),
]
STUDIO_RATINGS = [
    ("1", "quality", "7", 4.0),
    ("1", "quality", "bo@x.org", 5.0),
    ("2", "length", "7", 2.5),
    ("2", "mood", "7", 3.0),
    ("2", "quality", "7", 2.0),
]


def test_label_studio_exports_tasks(tmp_path: Path):
    path = tmp_path / "project.json"
    path.write_text(json.dumps(STUDIO))
    assert format_at(path) is FORMATS["label-studio"]
    assert ratings(path) == STUDIO_RATINGS
    sample = load_ratings([path]).samples["1"]
    assert (sample.text, sample.system) == ("text 1", "m1")


def test_an_id_in_the_data_goes_before_that_of_the_task(tmp_path: Path):
    tasks = [{**STUDIO[0], "data": {"id": "s9", "text": "x"}}]
    path = tmp_path / "project.json"
    path.write_text(json.dumps(tasks))
    assert {rating[0] for rating in ratings(path)} == {"s9"}
    mapped = load_ratings([path], mapping={"id": "data.id"})
    assert {rating.id for rating in mapped.ratings} == {"s9"}


def test_cancelled_annotations_and_answers_about_a_part_are_left_out(tmp_path: Path):
    tasks = json.loads(json.dumps(STUDIO))
    tasks[0]["annotations"][1]["was_cancelled"] = True
    tasks[1]["annotations"][0]["result"][0]["value"] |= {"start": 0, "end": 4}
    path = tmp_path / "project.json"
    path.write_text(json.dumps(tasks))
    left_out = {("1", "quality", "bo@x.org", 5.0), ("2", "quality", "7", 2.0)}
    assert set(ratings(path)) == set(STUDIO_RATINGS) - left_out


@pytest.mark.parametrize("form", [".json", ".csv", ".tsv"])
def test_the_short_forms_of_label_studio_are_rows(tmp_path: Path, form: str):
    rows = [
        {
            "id": id,
            "text": f"text {id}",
            "annotator": author,
            "annotation_id": n,
            "created_at": "…",
            "lead_time": 1.5,
            "quality": [{"rating": value}],
        }
        for n, (id, author, value) in enumerate([(1, 7, 4), (1, 8, 5), (2, 7, 2)])
    ]
    path = tmp_path / f"project{form}"
    if form == ".json":
        path.write_text(json.dumps(rows))
    else:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(
                file, list(rows[0]), delimiter="," if form == ".csv" else "\t",
                quoting=csv.QUOTE_NONNUMERIC,
            )  # fmt: skip
            table.writeheader()
            table.writerows({**row, "quality": json.dumps(row["quality"])} for row in rows)
    assert format_at(path) is FORMATS["label-studio"]
    assert ratings(path) == [
        ("1", "quality", "7", 4.0),
        ("1", "quality", "8", 5.0),
        ("2", "quality", "7", 2.0),
    ]


def test_an_annotation_without_an_author_is_named(tmp_path: Path):
    path = tmp_path / "project.json"
    path.write_text(json.dumps([task(1, (None, {"quality": ("rating", 4)}))]))
    assert problems(path) == [f"{path}:task 1: completed_by: expected the annotator, found null"]


def test_two_ratings_of_one_rater_for_one_text_are_refused(tmp_path: Path):
    controls = {"quality": ("rating", 4)}
    path = tmp_path / "project.json"
    path.write_text(json.dumps([task(1, (7, controls), (7, controls))]))
    (problem,) = problems(path)
    assert f'7 already rated quality of id "1" at {path}:task 1' in problem


def test_an_annotation_that_comes_twice_counts_once(tmp_path: Path):
    path, copy = tmp_path / "project.json", tmp_path / "copy.json"
    path.write_text(json.dumps([*STUDIO, *STUDIO]))
    copy.write_text(json.dumps(STUDIO))
    assert ratings(path) == STUDIO_RATINGS
    note = "ratings that come twice with one annotation_id count once: "
    assert load_ratings([path]).notes == (f"{note}5",)
    assert load_ratings([path, copy]).notes == (f"{note}10",)
    assert agreement(path).notes()[0] == f"{note}5"
    assert not load_ratings(copy).notes


def test_short_forms_that_come_twice_count_once(tmp_path: Path):
    path = tmp_path / "project.csv"
    line = '1,"text 1",7,11,1.5,"[{""rating"": 4}]"\n'
    path.write_text("id,text,annotator,annotation_id,lead_time,quality\n" + line * 2)
    assert ratings(path) == [("1", "quality", "7", 4.0)]


def test_an_annotator_who_answers_again_is_named_with_both_annotations(tmp_path: Path):
    again = task(1, (7, {"quality": ("rating", 1)}))
    again["annotations"][0]["id"] = 999  # type: ignore[index]
    path = tmp_path / "project.json"
    path.write_text(json.dumps([*STUDIO, again]))
    (problem,) = problems(path)
    assert "(annotation_id 100 and 999); remove one of the two ratings" in problem


def rows_of_six_texts() -> list[dict[str, object]]:
    """Ratings of six texts by two raters, as rows that any export may have."""
    return [
        {"id": f"m1/de-{i}", "aspect": "score", "rater": rater, "value": value}
        for i in range(6)
        for rater, value in (("ann", 10 * i), ("bo", 10 * i + (5, -8, 2, 0, 9, -3)[i]))
    ]


def exported(path: Path, name: str) -> Path:
    rows = rows_of_six_texts()
    if name == "potato":
        return write_lines(
            path / "a.jsonl",
            [
                {
                    "instance_id": row["id"],
                    "user_id": row["rater"],
                    "labels": {"score": {"slider": str(row["value"])}},
                }
                for row in rows
            ],
        )
    if name == "pearmut":
        return write_lines(
            path / "a.jsonl",
            [
                pearmut_answer(row["rater"], i // 2, {"m1": row["value"]})
                for i, row in enumerate(rows)
            ],
        )
    tasks = [
        {
            **task(
                i,
                *((row["rater"], {"score": ("number", row["value"])}) for row in rows[2 * i :][:2]),
            ),
            "data": {"id": rows[2 * i]["id"]},
        }
        for i in range(6)
    ]
    (path / "a.json").write_text(json.dumps(tasks))
    return path / "a.json"


TOOLS = pytest.mark.parametrize("name", ["potato", "pearmut", "label-studio"])


@TOOLS
def test_agreement_of_an_export_is_that_of_its_ratings(tmp_path: Path, name: str):
    plain = write_lines(tmp_path / "plain.jsonl", rows_of_six_texts())
    (expected,) = agreement([plain]).groups
    (found,) = agreement([exported(tmp_path, name)]).groups
    assert (found.aspect, found.items, found.ratings) == ("score", 6, 12)
    assert found.alpha.value == pytest.approx(expected.alpha.value)
    assert found.raters == expected.raters


@TOOLS
def test_an_export_is_correlated_with_scores(tmp_path: Path, name: str):
    scores = write_lines(
        tmp_path / "scores.jsonl",
        [
            {"id": f"m1/de-{i}", "metric": "length", "score": (3, 1, 4, 1, 5, 9)[i]}
            for i in range(6)
        ],
    )
    plain = write_lines(tmp_path / "plain.jsonl", rows_of_six_texts())
    options = {"systems": "these", "resamples": 50, "permutations": 50}
    expected = correlate([scores], [plain], **options)
    evaluation = correlate([scores], [exported(tmp_path, name)], **options)
    ((of_plain,), (of_export,)) = expected.correlations, evaluation.correlations
    assert (of_export.metric, of_export.aspect, of_export.n) == ("length", "score", 6)
    pearson = of_export.estimates["pearson"].value
    assert pearson == pytest.approx(of_plain.estimates["pearson"].value)
    assert abs(pearson) > 0.1

from __future__ import annotations

import json
import math

import pytest

from levelfield.core.errors import InputError, UserError
from levelfield.core.sample import Sample
from levelfield.io import Rating, as_record, load_ratings, load_scores
from levelfield.io import ratings as ratings_module


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def row(id, aspect, rater, value, **more):
    return {"id": id, "aspect": aspect, "rater": rater, "value": value, **more}


def score(id, value, *, metric="m", signature="m|v:1", **more):
    return {"id": id, "metric": metric, "value": value, "signature": signature, **more}


def found(load, *paths, **options):
    """All that is wrong with the files, a line each."""
    with pytest.raises(InputError) as caught:
        load(list(paths), **options)
    assert all("\n" not in problem for problem in caught.value.problems)
    return list(caught.value.problems)


def test_samples_carry_their_ratings(write):
    path = write(
        "a.jsonl",
        jsonl(
            {"id": "1", "text": "Calm.", "ratings": {"style": {"ann": 3, "bo": None}}, "survey": 2},
            {"text": "Wild.", "ratings": {"style": {"ann": 4}, "fluency": [1, 5]}},
        ),
    )
    rated = load_ratings([path])
    assert rated.ratings == (
        ("1", "style", "ann", 3.0),
        ("a:2", "style", "ann", 4.0),
        ("a:2", "fluency", "1", 1.0),
        ("a:2", "fluency", "2", 5.0),
    )
    assert isinstance(rated.ratings[0], Rating)
    assert rated.samples["1"] == Sample(
        "1", "Calm.", ratings={"style": {"ann": 3.0}}, extra={"survey": 2}
    )


def test_a_rating_a_row_in_any_format(write):
    rows = [row("x", "style", "ann", 3), row("x", "style", "bo", 4.5)]
    expected = (("x", "style", "ann", 3.0), ("x", "style", "bo", 4.5))
    for path in (
        write("a.jsonl", jsonl(*rows)),
        write("b.json", json.dumps(rows)),
        write("c.csv", "id,aspect,rater,value\nx,style,ann,3\nx,style,bo,4.5\n"),
        write("d.tsv", "value\trater\taspect\tid\n3\tann\tstyle\tx\n4.5\tbo\tstyle\tx\n"),
    ):
        rated = load_ratings(path)
        assert rated.ratings == expected
        assert rated.samples == {}


def test_null_nan_and_an_empty_cell_are_missing_ratings(write):
    nan = '{"id": 1, "aspect": "s", "rater": "a", "value": NaN}\n'
    rest = jsonl(row(1, "s", "b", None), row(1, "s", "c", 2), row(1, "s", "a", 7))
    long = write("a.jsonl", nan + rest)
    assert load_ratings([long]).ratings == (("1", "s", "c", 2.0), ("1", "s", "a", 7.0))
    cells = write("a.csv", "id,aspect,rater,value\n1,s,a,\n1,s,b,nan\n1,s,c,2\n")
    assert load_ratings([cells]).ratings == (("1", "s", "c", 2.0),)


def test_other_columns_of_a_row_say_what_the_sample_is(write):
    path = write(
        "a.jsonl",
        jsonl(
            row("1", "style", "ann", 3, survey=2, source="Hi.", comment="odd"),
            row("1", "style", "bo", 4, survey=2, system="x", comment="fine"),
        ),
    )
    assert load_ratings([path]).samples == {
        "1": Sample(
            "1",
            "",
            source="Hi.",
            system="x",
            ratings={"style": {"ann": 3.0, "bo": 4.0}},
            extra={"survey": 2},  # a comment is of one rating
        )
    }


def test_rows_and_samples_can_be_read_together(write):
    texts = write("texts.jsonl", jsonl({"id": "1", "text": "Calm.", "system": "x"}))
    rows = write("rows.jsonl", jsonl(row("1", "style", "ann", 3), row("2", "style", "ann", 4)))
    rated = load_ratings([texts, rows])
    assert len(rated.ratings) == 2
    assert rated.samples == {"1": Sample("1", "Calm.", system="x", ratings={"style": {"ann": 3}})}


def test_one_file_a_rater(write):
    ann = write("ann.jsonl", jsonl({"id": 1, "text": "Calm.", "ratings": {"style": {"ann": 3}}}))
    bo = write("bo.jsonl", jsonl({"id": 1, "text": "Calm.", "ratings": {"style": {"bo": 5}}}))
    rated = load_ratings([ann, bo])
    assert rated.samples["1"].ratings == {"style": {"ann": 3.0, "bo": 5.0}}
    assert rated.samples["1"].system == ""


def test_several_files_of_texts_are_systems(write):
    for name in ("gedi", "pplm"):
        write(f"{name}.jsonl", jsonl({"text": "Calm.", "ratings": {"style": {"ann": 3}}}))
    samples = load_ratings(["gedi.jsonl", "pplm.jsonl"]).samples
    assert {id: s.system for id, s in samples.items()} == {"gedi:1": "gedi", "pplm:1": "pplm"}


def test_columns_of_other_names(write):
    path = write("a.csv", "item,question,who,score,output\n7,style,ann,3,Calm.\n")
    mapping = {"id": "item", "aspect": "question", "rater": "who", "value": "score"}
    assert load_ratings([path], mapping=mapping).ratings == (("7", "style", "ann", 3.0),)
    rated = load_ratings([path], mapping=mapping | {"text": "output"})
    assert rated.samples["7"].text == "Calm."
    wrong = found(load_ratings, path, mapping=mapping | {"rater": "whom"})
    assert wrong == [
        'a.csv: neither a sample, as there is no "text", nor a rating, as there is no "whom"; the '
        'fields are "item", "question", "who", "score", "output"; name yours, for example '
        "--map id=item --map aspect=question --map value=score --map rater=who"
    ]
    assert "no record has" in found(load_ratings, path, mapping=mapping | {"system": "by"})[0]
    with pytest.raises(UserError, match="a sample has no such field"):
        load_ratings([path], mapping={"raters": "who"})


def test_ctrleval_has_one_rater_the_mean(write):
    path = write("set.txt", "positive\tA\tA b.\t4.4\t2.4\t\n")
    assert load_ratings([path], format="ctrleval").ratings == (
        ("set:1", "coherence", "mean", 4.4),
        ("set:1", "consistency", "mean", 2.4),
    )


def test_every_bad_rating_is_reported_with_its_place(write):
    a = write(
        "a.jsonl",
        jsonl(
            row(1, "style", "ann", "3"),
            row(1, "style", "bo", True),
            row(1, "", "bo", 3),
            {"aspect": "style", "rater": "bo", "value": 3},
            {"id": 2, "aspect": "style", "value": 3},
            row(1, "style", "di", -1e308),
        )
        + '{"id":1,"aspect":"style","rater":"cy","value":Infinity}\n',
    )
    b = write("b.csv", "id,aspect,rater,value\n1,style,ann,four\n")
    c = write("c.jsonl", jsonl({"text": "Calm.", "ratings": {"style": {"ann": "3"}}}))
    messages = [
        "a.jsonl:1: value: expected a number, found the string",
        "a.jsonl:2: value: expected a number, found true or false",
        "a.jsonl:3: aspect: is empty; name it",
        "a.jsonl:4: id: missing; say which",
        'a.jsonl:5: neither a sample, as there is no "text", nor a rating, as there is no "rater"',
        "a.jsonl:6: value: expected a number, found -1e+308; the largest accepted is 1e+100",
        "a.jsonl:7: value: expected a number, found inf, which is not finite",
        'b.csv:2: value: expected a number, found the string "four"',
        "c.jsonl:1: ratings.style.ann: expected a number, found the string",
    ]
    problems = found(load_ratings, a, b, c)
    assert len(problems) == len(messages)
    for problem, message in zip(problems, messages, strict=True):
        assert problem.startswith(message)


def test_rating_twice_names_both_places(write):
    a = write("a.csv", "id,aspect,rater,value\n1,style,ann,3\n1,style,ann,3\n")
    b = write("b.jsonl", jsonl({"id": 1, "text": "Calm.", "ratings": {"style": {"ann": 4}}}))
    assert found(load_ratings, a, b) == [
        'a.csv:3: ann already rated style of id "1" at a.csv:2; remove one of the two ratings',
        'b.jsonl:1: ann already rated style of id "1" at a.csv:2; remove one of the two ratings',
    ]


def test_one_id_is_one_sample(write):
    path = write(
        "a.jsonl", jsonl(row(1, "s", "ann", 3, system="x"), row(1, "s", "bo", 3, system="y"))
    )
    assert found(load_ratings, path) == [
        'a.jsonl:2: system: "y", but "x" at a.jsonl:1 for the same id "1"; correct one of them, or '
        "give other ids"
    ]


def test_a_file_without_ratings_says_so(write):
    texts = write("a.jsonl", jsonl({"text": "Calm."}))
    assert found(load_ratings, texts)[0].startswith("no ratings in a.jsonl; expected samples with")
    assert found(load_ratings, write("b.jsonl", "")) == [
        "no ratings in b.jsonl; is it the file you mean?"
    ]
    with pytest.raises(UserError, match="No such file"):
        load_ratings(["none.jsonl"])


def test_what_samples_say_survives_writing(write):
    path = write("a.jsonl", jsonl({"id": "1", "text": "Calm.", "ratings": {"s": {"a": 1, "b": 2}}}))
    first = load_ratings([path])
    again = write("b.jsonl", jsonl(*map(as_record, first.samples.values())))
    assert load_ratings([again]) == first


def test_scores_are_columns_by_metric(write):
    path = write(
        "scores.jsonl",
        jsonl(
            score("1", 0.5),
            score("1", 7, metric="n", signature="n|v:1"),
            score("2", None, undefined="empty text"),
        ),
    )
    m, n = load_scores([path])
    assert (m.metric, m.signature, m.values["1"]) == ("m", "m|v:1", 0.5)
    assert math.isnan(m.values["2"])
    assert n.values == {"1": 7.0}


def test_scores_of_two_kinds_do_not_mix(write):
    a = write("a.jsonl", jsonl(score("1", 0.5), score("1", 0.6), score("2", "0.5")))
    b = write(
        "b.jsonl", jsonl(score("3", 0.5, signature="m|v:2"), score("4", 0.5, signature="m|v:2"))
    )
    problems = found(load_scores, a, b)
    assert problems[0].startswith('a.jsonl:2: m of id "1" already has a value at a.jsonl:1')
    assert problems[1].startswith("a.jsonl:3: value: expected a number")
    assert problems[2].startswith(
        'b.jsonl:1: m has the signature "m|v:2" here and "m|v:1" at a.jsonl:1'
    )
    assert len(problems) == 3


def test_a_file_that_holds_no_scores(write):
    path = write("a.jsonl", jsonl(row("1", "style", "ann", 3)) * 2)
    (problem,) = found(load_scores, path)
    assert problem == (
        'a.jsonl: no score; the columns are "id", "aspect", "rater", "value"; expected what '
        "`levelfield score` writes, or name your columns, for example --map metric.value=value"
    )


def test_ratings_without_texts_and_with_ids_of_several_columns(write):
    path = write("a.csv", "sys,seg,human\na,1,3\na,2,\nb,1,5\n")
    mapping = {"id": "sys+seg", "system": "sys", "source": "seg", "ratings.quality": "human"}
    rated = load_ratings(path, mapping=mapping)
    assert rated.ratings == (("a/1", "quality", "1", 3.0), ("b/1", "quality", "1", 5.0))
    assert (rated.samples["b/1"].system, rated.samples["b/1"].source) == ("b", "1")
    assert found(load_ratings, path) == [
        'a.csv: neither a sample, as there is no "text", nor a rating, as there is no "aspect", '
        '"rater", "value"; the fields are "sys", "seg", "human"; name yours, for example '
        "--map id=sys+seg --map system=sys --map source=seg --map ratings.human=human"
    ]
    twice = found(load_ratings, path, mapping=mapping | {"id": "seg", "system": "seg"})
    assert "combine several columns into the id, for example --map id=sys+seg" in twice[0]


def test_a_row_a_rater_with_a_column_an_aspect(write):
    path = write("a.csv", "id,who,fluency,style\n1,ann,3,4\n1,bo,2,\n")
    mapping = {"rater": "who", "ratings.fluency": "fluency", "ratings.style": "style"}
    assert load_ratings(path, mapping=mapping).ratings == (
        ("1", "fluency", "ann", 3.0),
        ("1", "style", "ann", 4.0),
        ("1", "fluency", "bo", 2.0),
    )


def test_a_file_of_one_rater_may_leave_the_rater_out(write):
    path = write("a.csv", "id,aspect,value\n1,style,3\n2,style,4\n")
    assert load_ratings(path).ratings == (("1", "style", "1", 3.0), ("2", "style", "1", 4.0))


def test_columns_of_raters_are_suggested_as_raters_of_one_aspect(write):
    (problem,) = found(load_ratings, write("a.csv", "id,rater1,Rater 2\n1,3,4\n"))
    assert problem.endswith(
        "--map ratings.quality.rater1=rater1 --map 'ratings.quality.rater-2=Rater 2'"
    )


def test_numbered_segments_are_sources_that_samples_share(write):
    path = write("a.jsonl", jsonl(*({"sys": s, "seg": 7, "human": 3} for s in "ab")))
    mapping = {"id": "sys+seg", "source": "seg", "ratings.quality": "human"}
    samples = load_ratings(path, mapping=mapping).samples
    assert [samples[id].source for id in ("a/7", "b/7")] == ["7", "7"]


def test_a_row_a_rater_without_the_raters_says_which_column_names_them(write):
    path = write("r.csv", "annotator,id,ratings.q\nann,1,3\nbo,1,4\n")
    (problem,) = found(load_ratings, path)
    assert problem.endswith("or name who rated: --map rater=annotator")
    assert len(load_ratings(path, mapping={"rater": "annotator"}).ratings) == 2


def test_plain_ratings_are_read_as_all_others(tmp_path, monkeypatch):
    rating = {"id": "1", "aspect": "style", "rater": "ann", "value": 4}
    file = tmp_path / "ratings.jsonl"

    def read(**changed):
        records = [{**rating, "system": "x"}, {**rating, "rater": "bo", "value": 2.5}]
        records.append({**rating, "rater": "cy", **changed})
        file.write_text("\n".join(map(json.dumps, records)))
        try:
            rated = load_ratings([file])
        except InputError as error:
            return str(error)
        return repr((rated.ratings, dict(rated.samples)))

    cases = (
        {}, {"id": 1}, {"id": "é"}, {"id": ""}, {"rater": "bo"}, {"rater": None}, {"aspect": 3},
        {"aspect": ""}, {"value": True}, {"value": None}, {"value": "4"}, {"value": 1e300},
        {"value": 10**400}, {"system": "x"}, {"system": "y"}, {"text": "So."},
    )  # fmt: skip
    quick = [read(**case) for case in cases]
    monkeypatch.setattr(ratings_module._RatingReader, "_add_plain", lambda *_: False)
    assert quick == [read(**case) for case in cases]

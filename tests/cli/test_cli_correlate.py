"""`levelfield correlate` as a user has it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command_line import Run, Write
from levelfield.agree.evaluation import correlate

DATA = Path(os.environ.get("LEVELFIELD_DATA", "")) / "ctrleval" / "data" / "data_senti.txt"
SMALL = ("--resamples", "50", "--permutations", "99")


def rated(n=24):
    """Samples of two systems with two raters."""
    return [
        {
            "id": str(i),
            "text": f"The court sat for the {i}th time.",
            "source": f"s{i // 2}",
            "system": "ab"[i % 2],
            "ratings": {
                "content": {"x": (i * 7) % 5 + 1, "y": (i * 5) % 4 + 1},
                "style": {"x": i % 5},
            },
        }
        for i in range(n)
    ]


def scores(metric, values, signature=None):
    return [
        {"id": str(id), "metric": metric, "value": v, "signature": signature or f"{metric}|v:1"}
        | ({"undefined": "empty text"} if v is None else {})
        for id, v in enumerate(values)
    ]


@pytest.fixture
def files(write):
    good = [(i * 7) % 5 + 0.1 * (i % 3) for i in range(24)]
    other = [None if i == 3 else (i * 11) % 7 / 7 for i in range(24)]
    return (
        write("s.jsonl", scores("good", good) + scores("fam_ily.x", other)),
        write("r.jsonl", rated()),
    )


def test_the_table_names_metrics_numbers_intervals_and_the_ranking(run, files):
    done = run("correlate", files[0], "--ratings", files[1], "--systems", "these", *SMALL)
    assert done.code == 0, done.err
    words = [
        "content: all samples together; intervals and tests: these systems on sources like these",
        "fam_ily.x",
        "95 % interval",
        "ranking (r)",
        "no value for 1 of 24 rated samples",
        "permutation p =",
        "Williams t =",
        "samples as independent, which form 12 clusters",
    ]
    for word in words:
        assert word in done.out
    assert "nan" not in done.out.lower()


def test_json_is_one_document_with_null_and_reasons(run, write, files):
    flat = write("flat.jsonl", scores("flat", [1.0] * 24))
    done = run("correlate", files[0], flat, "--ratings", files[1], "--drift", "--json", *SMALL)
    document = done.json
    assert document["n"] == 24
    assert document["clusters"] == 12
    assert set(document["metrics"]) == {"good", "fam_ily.x", "flat"}
    found = {(c["metric"], c["aspect"]): c for c in document["correlations"]}
    flat = found["flat", "content"]["statistics"]["pearson"]
    assert flat["value"] is None
    assert flat["why_undefined"] == "constant metric"
    assert found["fam_ily.x", "content"]["undefined"] == 1
    assert found["good", "content"]["statistics"]["pearson"]["value"] > 0.3
    assert document["rankings"][0]["not_ranked"] == {"flat": "constant metric"}
    assert len(document["drift"]) == 6
    assert document["drift"][0]["by_quality"]["subsets"][0]["total"] == 20


@pytest.mark.parametrize(
    ("words", "keywords"),
    [
        ((), {}),
        (
            ("--group", "system", "--compare", "spearman"),
            {"group": "system", "compare": "spearman"},
        ),
        (("--perm-both", "--ties", "in-sample"), {"perm_both": True, "ties": "in-sample"}),
        (("--aspect", "style", "-m", "good"), {"aspects": ["style"], "metrics": ["good"]}),
        (
            ("--drift", "--lower-is-better", "good", "--correction", "bonferroni", "--seed", "3"),
            {"drift": True, "lower_is_better": ["good"], "correction": "bonferroni", "seed": 3},
        ),
        (
            ("--level", "system", "--systems", "these"),
            {"level": "system", "systems": "these"},
        ),
    ],
)
def test_a_python_call_gives_the_document_of_the_command(run, files, words, keywords):
    document = run("correlate", files[0], "--ratings", files[1], "--json", *words, *SMALL).json
    evaluation = correlate([files[0]], [files[1]], resamples=50, permutations=99, **keywords)
    assert evaluation.to_dict() == document


def test_aspects_and_metrics_and_statistics_can_be_chosen(run, files):
    document = run(
        "correlate", files[0], "--ratings", files[1], "--aspect", "style", "-m", "fam_ily",
        "--statistic", "kendall", "--json", *SMALL,
    ).json  # fmt: skip
    (found,) = document["correlations"]
    assert (found["metric"], found["aspect"]) == ("fam_ily.x", "style")
    assert list(found["statistics"]) == ["kendall"]
    assert document["comparisons"] == []


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        (("--group", "system"), 12),
        (("--group", "source"), 4),
        (("--level", "system"), 4),
        (("--level", "system", "--systems", "these"), 4),
    ],
)
def test_levels_and_groups(run, files, how, rows):
    document = run("correlate", files[0], "--ratings", files[1], *how, "--json", *SMALL).json
    assert len(document["correlations"]) == rows
    table = run("correlate", files[0], "--ratings", files[1], *how, *SMALL)
    assert table.code == 0, table.err


def test_the_table_of_systems_names_the_question_and_both_correlations(run, write):
    rows = [
        {"id": str(i), "text": "", "source": f"s{i // 6}", "system": f"system {i % 6}",
         "ratings": {"content": {"x": i % 6 + (i * 7) % 5 / 5}}}
        for i in range(120)
    ]  # fmt: skip
    values = [[i % 6 + (i * k) % 7 / 7 for i in range(120)] for k in (3, 5)]
    files = (
        write("s.jsonl", scores("one", values[0]) + scores("two", values[1])),
        write("r.jsonl", rows),
    )
    command = ("correlate", files[0], "--ratings", files[1], "--level", "system", *SMALL)
    like, these = run(*command), run(*command, "--systems", "these", "--report", "p.html")
    assert "true means of systems like these" in like.out
    assert "r without" in like.out
    table = like.out[: like.out.index("ranking")].splitlines()
    assert max(map(len, (line for line in table if not line.startswith("  one, two:")))) <= 80
    assert "one, two: acc. cal.: undefined: not calibrated at system level" in like.out
    assert "6 systems: little can be said" in like.out
    assert "permutation p =" in like.out
    assert "true means of these systems" in these.out
    assert "noise can't be taken out of ranks" in these.out
    assert "true means p =" in these.out
    assert "Williams' test is for systems like these" in these.out
    page = Path("p.html").read_text()
    assert "true means of these systems" in page
    assert "r without noise" in page
    assert "Williams&#39; test is for systems like these" in page


def test_long_form_ratings_and_samples_from_another_file(run, write, files):
    rows = [
        {"id": str(i), "aspect": "content", "rater": r, "value": (i * 7 + k) % 5}
        for i in range(24)
        for k, r in enumerate("xy")
    ]
    long = write("long.jsonl", rows)
    command = ("correlate", files[0], "--ratings", long, "--json", *SMALL)
    bare = run(*command)
    assert bare.json["clusters"] == 24
    assert "each counts as independent" in bare.err
    assert "--samples" in run(*command, "--level", "system").complaint
    assert run(*command, "--samples", files[1]).json["clusters"] == 12


def test_latex_is_escaped_and_the_page_is_written(run, files):
    done = run(
        "correlate", files[0], "--ratings", files[1], "--latex", "t.tex", "--report", "p.html",
        *SMALL,
    )  # fmt: skip
    assert "wrote t.tex, p.html" in done.err
    text = Path("t.tex").read_text()
    assert "fam\\_ily.x" in text
    assert "\\toprule" in text
    assert text.count("{") == text.count("}")
    assert Path("p.html").read_text().startswith("<!doctype html>")
    on_stdout = run("correlate", files[0], "--ratings", files[1], "--latex", "-", *SMALL).out
    assert on_stdout == text


def test_parts_give_drift_by_number_of_evaluators(run, write, files):
    parts = write(
        "parts.jsonl",
        [
            {"metric": "good", "id": str(i), "part": p, "score": (i * 7) % 5 + k, "weight": 0.5}
            for i in range(24)
            for k, p in enumerate(("one", "two"))
        ],
    )
    document = run(
        "correlate", files[0], "--ratings", files[1], "--parts", parts, "--json", *SMALL
    ).json
    drift = {(d["metric"], d["aspect"]): d["by_evaluators"] for d in document["drift"]}
    assert [k["k"] for k in drift["good", "content"]["k"]] == [1, 2]
    assert drift["fam_ily.x", "content"] is None
    other = write("other.jsonl", [{"metric": "x", "id": "1", "part": "", "score": 1, "weight": 1}])
    words = ("correlate", files[0], "--ratings", files[1], "--parts", other, *SMALL)
    assert "parts of x" in run(*words).complaint


def test_ids_that_do_not_match_are_said(run, write, files):
    few = write("few.jsonl", scores("m", [0.1 * (i % 7) for i in range(12)]))
    assert "12 rated ids have no score" in run("correlate", few, "--ratings", files[1], *SMALL).err
    other = write("o.jsonl", [{"id": "q", "metric": "m", "value": 1, "signature": "m|v:1"}])
    assert "no id is in both" in run("correlate", other, "--ratings", files[1]).complaint


def test_two_signatures_are_an_error_in_a_file_and_two_columns_from_two_files(run, write, files):
    values = [0.1 * (i % 7) for i in range(24)]
    both = scores("m", values, "m|a") + scores("m", values[::-1], "m|b")
    done = run("correlate", write("both.jsonl", both), "--ratings", files[1])
    assert done.code == 2
    assert "m|a" in done.err
    assert "m|b" in done.err
    one = write("small.jsonl", scores("m", values, "m|a"))
    two = write("large.jsonl", scores("m", values[::-1], "m|b"))
    document = run("correlate", one, two, "--ratings", files[1], "--json", *SMALL).json
    assert set(document["metrics"]) == {"m (small)", "m (large)"}


def test_shards_of_one_metric_are_put_together_unless_they_contradict(run, write, files):
    rows = scores("m", [0.1 * (i % 7) for i in range(24)])
    one, two = write("1.jsonl", rows[:15]), write("2.jsonl", rows[10:])
    document = run("correlate", one, two, "--ratings", files[1], "--json", *SMALL).json
    assert document["correlations"][0]["n"] == 24
    wrong = write("3.jsonl", [{**rows[0], "value": 99.0}])
    assert "'0' is 99" in run("correlate", one, wrong, "--ratings", files[1]).complaint


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--aspect", "fluency"), "no aspect 'fluency'"),
        (("--metric", "bleu"), "no metric 'bleu'"),
        (("--lower-is-better", "bleu"), "no metric 'bleu'"),
        (("--level", "system", "--group", "source"), "does not accept --group"),
        (("--systems", "all"), "like-these"),
        (("--perm-both", "--group", "source"), "neither --level system nor --group"),
        (("--latex", "-", "--json"), "can write to stdout"),
        (("--group", "dataset"), "has a dataset"),
        (("--parts", "nowhere.jsonl"), "nowhere.jsonl"),
        (("--report", "s.jsonl"), "--report"),
        (("--alpha", "2"), "alpha"),
    ],
)
def test_mistakes_get_one_line(run, files, words, expected):
    assert expected in run("correlate", files[0], "--ratings", files[1], *words).complaint


def test_few_samples_and_ties_everywhere_are_said_and_do_not_fail(run, write):
    for n, why in ((1, "one sample"), (2, "two samples"), (6, "constant")):
        s = write("s.jsonl", scores("m", [1.0 if n == 6 else i for i in range(n)]))
        r = write("r.jsonl", rated(n))
        done = run("correlate", s, "--ratings", r, "--drift", "--report", "p.html", *SMALL)
        assert done.code == 0, done.err
        assert why in done.out
        assert run("correlate", s, "--ratings", r, "--drift", "--json", *SMALL).json["n"] == n


@pytest.mark.skipif(not DATA.is_file(), reason="LEVELFIELD_DATA has no ctrleval/data")
def test_the_rated_set_of_ctrleval_is_read(run, write):
    lines = DATA.read_text(encoding="utf-8").splitlines()
    s = write(
        "s.jsonl",
        [
            {"id": f"data_senti:{i}", "metric": "length", "value": len(line), "signature": "l|v:1"}
            for i, line in enumerate(lines, start=1)
        ],
    )
    document = run("correlate", s, "--ratings", DATA, "--format", "ctrleval", "--json", *SMALL).json
    assert [c["aspect"] for c in document["correlations"]] == [
        "coherence", "consistency", "attribute relevance"
    ]  # fmt: skip
    assert document["correlations"][0]["n"] == 360
    assert document["clusters"] == 15
    json.dumps(document, allow_nan=False)


@pytest.mark.parametrize("option", ["--resamples", "--permutations"])
def test_counts_without_bounds_are_refused_at_once(run, option):
    ran = run("correlate", "scores.jsonl", "--ratings", "texts.jsonl", option, 100_000_000)

    assert "expected a whole number from 1 to 1,000,000" in ran.complaint


def table(columns):
    """A CSV of 4 systems' outputs for 6 segments."""
    rows = [
        [f"s{s}", str(seg), *(str(round((s + 1) * k + (seg * (k + 3)) % 7, 2)) for k in columns)]
        for s in range(4)
        for seg in range(6)
    ]
    header = ["mdl", "seg", *columns.values()]
    return "".join(",".join(row) + "\n" for row in [header, *rows])


def test_own_tables_become_a_page_in_one_command(run, write):
    scores_file = write("scores.csv", table({1: "BLEURT", 2: "comet", 3: "TER"}))
    people = write("people.csv", table({1.5: "human"}))
    words = (
        "--map id=mdl+seg --map system=mdl --map source=seg --map ratings.quality=human "
        "--map metric.bleurt=BLEURT --map metric.comet=comet --map metric.ter=TER"
    )
    done = run(
        "correlate", scores_file, "--ratings", people, *words.split(), "--lower-is-better", "ter",
        "--json", "--report", "page.html", *SMALL,
    )  # fmt: skip
    assert done.code == 0, done
    assert list(done.json["metrics"]) == ["bleurt", "comet", "ter"]
    assert done.json["n"] == 24
    assert done.json["clusters"] == 6
    assert done.json["signature"].count("flip:ter") == 1
    assert "elsewhere.comet|file:scores.csv" in Path("page.html").read_text()


def test_the_first_error_names_all_words_that_own_tables_need(run, write):
    scores_file = write("scores.csv", table({1: "BLEURT", 2: "comet"}))
    people = write("people.csv", table({1.5: "human"}))
    failed = run("correlate", scores_file, "--ratings", people)
    assert failed.code == 2
    words = [word for line in failed.err.splitlines() for word in line.split("example ")[1].split()]
    done = run("correlate", scores_file, "--ratings", people, *distinct(words), *SMALL)
    assert done.code == 0, done


def distinct(words):
    named = {word for word in words if word != "--map"}
    return [part for word in sorted(named) for part in ("--map", word)]


def test_one_file_may_hold_ratings_and_scores(run, write):
    both = write("all.csv", table({1.5: "human", 1: "bleurt"}))
    words = "--map id=mdl+seg --map ratings.quality=human --map metric.bleurt=bleurt"
    done = run("correlate", both, "--ratings", both, *words.split(), "--json", *SMALL)
    assert done.code == 0, done
    assert done.json["correlations"][0]["aspect"] == "quality"


def test_scores_of_a_file_a_system_are_one_metric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = table({1: "metric.bleurt"}).splitlines()
    for name, part in (("a", rows[1:13]), ("b", rows[13:])):
        Path(f"{name}.csv").write_text("\n".join([rows[0], *part]))
    Path("r.csv").write_text(table({1.5: "ratings.quality"}))
    found = correlate(["a.csv", "b.csv"], "r.csv", mapping={"id": "mdl+seg"}, resamples=20)
    ((metric, signature),) = found.table.signatures.items()
    assert metric == "bleurt"
    assert "file:a.csv" in signature
    assert "file:b.csv" in signature
    assert len(found.table.ids) == 24


def test_ids_without_a_match_are_counted_and_shown_from_both_sides(run, write):
    scores_file = write("scores.csv", "id,metric.m\n1,0.5\n2,0.6\n")
    people = write("r.csv", "id,ratings.q\na/1,3\na/2,4\n")
    complaint = run("correlate", scores_file, "--ratings", people).complaint
    assert "the scores have 2 ids ('1', '2'), the ratings have 2 ids ('a/1', 'a/2')" in complaint
    assert "--map id=COLUMN" in complaint


def test_ids_that_each_file_names_otherwise_are_named_one_by_one(run, write):
    rows = [(f"m{s}", f"d{d}", (s * 3 + d * 2) % 5) for s in range(3) for d in range(4)]
    raters = "".join(
        f"{who},{d},{s},{value + k},\n" for s, d, value in rows for k, who in enumerate("ab")
    )
    people = write("people.csv", f"annotator,doc,sysname,fluency_1_5,adequacy_1_5\n{raters}")
    wide = write("wide.csv", "system,segment,M1\n" + "".join(f"{s},{d},{v}\n" for s, d, v in rows))
    long = write(
        "long.csv",
        "mdl,seg,metric,value\n" + "".join(f"{s},{d},m2,{-v}\n" for s, d, v in rows),
    )
    words = ["--map", "rater=annotator", "--map", "ratings.fluency=fluency_1_5"]
    files = ("correlate", wide, long, "--ratings", people, "--map", "metric.m1=M1")
    first = run(*files, *words).err
    for ids in ("sysname+doc", "system+segment", "mdl+seg"):
        assert f"--map id={ids}" in first
        words += ["--map", f"id={ids}"]
    of_scores = run(*files, *words[:6]).err
    assert "wide.csv: no id" in of_scores
    assert "--map id=sysname+doc --map id=system+segment" in of_scores
    done = run(*files, *words, "--map", "system=sysname", "--map", "source=doc", "--json", *SMALL)
    assert done.code == 0, done
    assert (done.json["n"], done.json["clusters"]) == (12, 4)


def test_ratings_whose_ids_are_not_named_say_so_once(run, write):
    people = write("people.csv", "doc,sysname,score\n1,a,3\n1,b,4\n")
    (problem,) = run(
        "agreement", people, "--map", "ratings.q=score", "--map", "id=system+segment"
    ).err.splitlines()
    assert problem.endswith("for example --map id=system+segment --map id=sysname+doc")


def test_samples_in_a_table_of_their_own_take_their_part_of_the_mapping(run, write):
    scores_file = write("scores.csv", table({1: "metric.bleurt"}))
    people = write("people.csv", table({1.5: "human"}))
    texts = write(
        "texts.csv",
        "mdl,seg,output\n"
        + "".join(f"s{s},{seg},Text {seg}.\n" for s in range(4) for seg in range(6)),
    )
    words = "--map id=mdl+seg --map ratings.q=human --map text=output --map source=seg"
    done = run(
        "correlate", scores_file, "--ratings", people, "--samples", texts, *words.split(),
        "--json", *SMALL,
    )  # fmt: skip
    assert done.code == 0, done
    assert done.json["clusters"] == 6
    failed = run("correlate", scores_file, "--ratings", people, *words.split(), *SMALL)
    assert 'mapping text=output: no record has "output"' in failed.complaint


def test_soft_accuracy_is_of_systems_and_only_where_asked_for(run, files):
    words = ("correlate", files[0], "--ratings", files[1], "--statistic", "soft-accuracy")
    document = run(*words, "--level", "system", "--json", *SMALL).json
    first = document["correlations"][0]["statistics"]
    assert list(first) == ["soft-accuracy"]
    assert 0 <= first["soft-accuracy"]["value"] <= 1
    assert "SPA" in run(*words, "--statistic", "pearson", "--level", "system", *SMALL).out
    assert "it requires --level system" in run(*words).complaint
    plain = ("correlate", files[0], "--ratings", files[1], "--level", "system", "--json", *SMALL)
    assert "soft-accuracy" not in run(*plain).json["correlations"][0]["statistics"]


def test_choices_instead_of_ratings(run: Run, write: Write):
    choices = [
        {"a": "plain", "b": "florid", "better": "plain", "aspect": "style", "item": f"pair {n}",
         "sample_a": f"a{n}", "sample_b": f"b{n}", "prompt": f"prompt {n}"}
        for n in range(4)
    ]  # fmt: skip
    values = {f"{side}{n}": value for n in range(4) for side, value in (("a", 2), ("b", 1))}
    scores = write("scores.jsonl", [{"id": i, "metric.length": v} for i, v in values.items()])
    words = ("correlate", scores, "--choices", write("choices.jsonl", choices))
    ran = run(*words)
    assert ran.code == 0, ran
    assert "metrics against choices in style" in ran.out.lower()
    assert "1.000" in ran.out
    first = run(*words, "--json").json["agreements"][0]
    assert (first["metric"], first["pairs"], first["decided"]["value"]) == ("length", 4, 1)


def test_judgements_are_ratings_or_choices(run: Run, write: Write):
    scores = write("scores.jsonl", [{"id": "a", "metric.length": 1}])
    ran = run("correlate", scores)
    assert (ran.code, "--ratings or --choices" in ran.err) == (2, True), ran
    ran = run("correlate", scores, "--choices", scores, "--report", "page.html")
    assert (ran.code, "--report shows ratings" in ran.err) == (2, True), ran


def test_choices_without_scores_of_their_texts_are_one_line(run: Run, write: Write):
    scores = write("scores.jsonl", [{"id": "a", "metric.length": 1}])
    texts = {"a": "x", "b": "y", "better": "a", "sample_a": "a", "sample_b": "b"}
    for choices in ([], [texts]):
        ran = run("correlate", scores, "--choices", write("choices.jsonl", choices))
        assert (ran.code, ran.err.count("error:")) == (2, 1), ran

"""Every public function takes what callers have at hand, with one result, or refuses it by type."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest

import levelfield
from levelfield import (
    agreement,
    compare,
    correlate,
    estimate,
    generate,
    load_samples,
    plan_metrics,
    plan_raters,
    plan_systems,
    preferences,
    score,
    strengths,
)
from levelfield.core.errors import InputError, UserError
from levelfield.io import load_ratings, load_scores
from levelfield.io.comparisons import load_comparisons
from stub_technique import Stub

Door = Callable[..., Any]


@levelfield.metric
def lakes(text: str) -> float:
    """Counts the word lake."""
    return float(text.count("lake"))


TEXTS = [
    {"id": f"{system}{n}", "text": "lake " * (3 * n % 5 + len(system) * (n % 3 + 1)),
     "system": system, "prompt": f"p{n}"}
    for n in range(6) for system in ("a", "bb")
]  # fmt: skip
RATINGS = [
    {"id": t["id"], "aspect": "depth", "rater": rater, "value": t["text"].count("lake") + e}
    for n, t in enumerate(TEXTS)
    for rater, e in (("ann", n % 2), ("bo", n % 3))
]
SCORES = [{"id": t["id"], "metric": "lakes", "score": t["text"].count("lake")} for t in TEXTS]
CHOICES = [
    {"a": "a", "b": "bb", "better": "ab"[n % 3 > 0] * (1 + (n % 3 > 0)), "rater": rater,
     "sample_a": f"a{n}", "sample_b": f"bb{n}", "prompt": f"p{n}", "aspect": "depth"}
    for n in range(6) for rater in ("ann", "bo")
]  # fmt: skip
PROMPTS = [{"id": f"r{n}", "prompt": f"The lake {n}"} for n in range(3)]


def as_path(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_csv(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "rows.csv"
    polars.DataFrame(rows).write_csv(path)
    return path


def in_the_index(rows: list[dict[str, Any]], *names: str) -> pandas.DataFrame:
    return pandas.DataFrame(rows).set_index([n for n in names if n in rows[0]] or [*rows[0]][:1])


FORMS: dict[str, Callable[[list[dict[str, Any]], Path], Any]] = {
    "path": as_path,
    "string": lambda rows, folder: str(as_path(rows, folder)),
    "list of a path": lambda rows, folder: [as_path(rows, folder)],
    "table": as_csv,
    "records": lambda rows, _: rows,
    "tuple": lambda rows, _: tuple(rows),
    "generator": lambda rows, _: (row for row in rows),
    "polars": lambda rows, _: polars.DataFrame(rows),
    "pandas": lambda rows, _: pandas.DataFrame(rows),
    "pandas with ids in the index": lambda rows, _: in_the_index(rows, "id"),
    "pandas with levels": lambda rows, _: in_the_index(rows, "id", "system", "rater"),
}

FEW = {"resamples": 50, "permutations": 50}

DOORS: dict[str, tuple[list[dict[str, Any]], Door]] = {
    "score": (TEXTS, lambda x: score(x, lakes, cache=False)),
    "compare": (TEXTS, lambda x: compare(x, lakes, cache=False)),
    "load_samples": (TEXTS, load_samples),
    "generate": (PROMPTS, lambda x: [s.text for s in generate(x, Stub()).samples]),
    "correlate scores": (SCORES, lambda x: correlate(x, RATINGS, samples=TEXTS, **FEW)),
    "correlate ratings": (RATINGS, lambda x: correlate(SCORES, x, samples=TEXTS, **FEW)),
    "correlate samples": (TEXTS, lambda x: correlate(SCORES, RATINGS, samples=x, **FEW)),
    "estimate scores": (SCORES, lambda x: estimate(x, RATINGS, samples=TEXTS)),
    "estimate ratings": (RATINGS, lambda x: estimate(SCORES, x, samples=TEXTS)),
    "agreement ratings": (RATINGS, agreement),
    "agreement choices": (CHOICES, agreement),
    "agreement judge": (SCORES, lambda x: agreement(RATINGS, judge=x)),
    "strengths": (CHOICES, strengths),
    "preferences scores": (SCORES, lambda x: preferences(x, CHOICES)),
    "preferences choices": (CHOICES, lambda x: preferences(SCORES, x)),
    "plan_systems scores": (SCORES, lambda x: plan_systems(x, samples=TEXTS)),
    "plan_systems samples": (TEXTS, lambda x: plan_systems(SCORES, samples=x)),
    "plan_metrics scores": (SCORES, lambda x: plan_metrics(x, ratings=RATINGS)),
    "plan_metrics ratings": (RATINGS, lambda x: plan_metrics(SCORES, ratings=x)),
    "plan_raters": (RATINGS, plan_raters),
    "load_ratings": (RATINGS, load_ratings),
    "load_scores": (SCORES, lambda x: [c.values for c in load_scores(x)]),
    "load_comparisons": (CHOICES, lambda x: load_comparisons(x, {})),
}

_PLACES = ("files", "scores", "ratings", "signature", "metrics", "judges")
"""Parts of documents that name files."""


def numbers(result: Any) -> Any:
    """What a result says, without where its rows come from and the digests of files."""
    document = result.to_dict() if hasattr(result, "to_dict") else result
    if isinstance(document, dict):
        document = {k: v for k, v in document.items() if k not in _PLACES or isinstance(v, list)}
        document = {k: v for k, v in document.items() if k not in ("files", "scores", "ratings")}
        for judge in document.get("judges", ()):
            judge.pop("signature", None)
        document.pop("choices", None)
    return json.loads(json.dumps(document, default=repr))


@functools.cache
def from_records(door: str) -> Any:
    rows, call = DOORS[door]
    return numbers(call([dict(row) for row in rows]))


@pytest.mark.parametrize("door", DOORS)
def test_every_form_of_the_same_rows_gives_the_same_numbers(door: str, tmp_path: Path):
    rows, call = DOORS[door]
    for name, form in FORMS.items():
        assert numbers(call(form(rows, tmp_path))) == from_records(door), name


REFUSED: dict[str, tuple[Callable[[list[dict[str, Any]]], Any], str]] = {
    "none": (lambda _: None, "None, expected"),
    "number": (lambda _: 3, "the number 3, expected"),
    "bytes": (lambda _: b"lake", "type bytes, expected"),
    "set": (lambda _: {"lake"}, "no order"),
    "record": (lambda rows: rows[0], "a mapping with the keys"),
    "columns": (lambda rows: {k: [r[k] for r in rows] for k in rows[0]}, "a mapping with the keys"),
    "lazy frame": (lambda rows: polars.LazyFrame(rows), "collect"),
    "class": (lambda _: Path, "expected a path, a data frame"),
    "list of numbers": (lambda _: [1, 2], "item 1 is the number 1"),
    "list of lists": (lambda _: [["lake"]], "item 1 is a list"),
    "two columns of one name": (
        lambda _: pandas.DataFrame([[0, 1]], columns=["id", "id"]),
        'named "id"',
    ),
    "index without a name": (
        lambda _: pandas.DataFrame([{"text": "a", "metric.m": 1}], index=["x"]),
        "the index of the data frame has no name",
    ),
}

_NEED_NOTHING = {"estimate ratings", "plan_systems scores", "plan_metrics scores"}
"""Arguments that may be left out."""


@pytest.mark.parametrize("door", DOORS)
def test_every_door_refuses_other_types_in_the_same_words(door: str):
    rows, call = DOORS[door]
    for name, (make, words) in REFUSED.items():
        if name == "none" and (door in _NEED_NOTHING or "plan" in door or "judge" in door):
            continue
        if name == "index without a name" and rows in (CHOICES, RATINGS):
            continue  # rows without an id of their own are refused as such, or need none
        with pytest.raises(InputError) as caught:
            call(make(rows))
        message = str(caught.value)
        assert words in message, (name, message)
        assert "\n" not in message, name


def test_results_of_score_are_scores():
    result = score(TEXTS, lakes, cache=False)
    expected = numbers(correlate([result.scores["lakes"]], RATINGS, samples=TEXTS))
    for scores in (
        result, [result], result.scores, result.scores.values(), result.scores["lakes"],
    ):  # fmt: skip
        assert numbers(correlate(scores, RATINGS, samples=TEXTS)) == expected
    assert numbers(compare(TEXTS, scores=result)) == numbers(compare(TEXTS, lakes, cache=False))
    assert plan_systems(result, samples=TEXTS).rows


def test_a_summary_without_values_and_other_results_are_no_scores():
    result = score(TEXTS, lakes, cache=False)
    for other in (compare(result), agreement(RATINGS)):
        with pytest.raises(InputError, match="scores: "):
            correlate(other, RATINGS)
    for texts in (result, result.scores["lakes"], agreement(RATINGS)):
        with pytest.raises(InputError, match="texts: a value of type"):
            score(texts, lakes, cache=False)


def test_what_generate_returns_is_scored():
    written = generate(PROMPTS, Stub())
    assert score(written, lakes, cache=False).n == len(PROMPTS)


def test_ids_in_the_index_are_ids():
    frame = pandas.DataFrame(TEXTS[::-1]).set_index("id")
    samples = load_samples(frame)
    assert [sample.id for sample in samples] == [t["id"] for t in TEXTS[::-1]]
    series = load_samples(frame["text"])
    assert [(s.id, s.text) for s in series] == [(s.id, s.text) for s in samples]
    evaluation = correlate(score(frame, lakes, cache=False), RATINGS)
    (r,) = evaluation.correlations
    assert r.estimates["pearson"].value > 0.9


def test_systems_in_the_index_are_systems():
    frame = pandas.DataFrame(TEXTS).set_index(["system", "id"])
    assert len(compare(frame, lakes, cache=False).summaries[0].comparisons) == 1


def test_part_of_a_frame_needs_ids():
    frame = pandas.DataFrame([{"text": t["text"]} for t in TEXTS])
    assert len(load_samples(frame)) == len(TEXTS)
    with pytest.raises(InputError, match="rename_axis"):
        load_samples(frame[3:])
    numbered = load_samples(frame[3:].reset_index(drop=True))
    assert [s.id for s in numbered[:2]] == ["1", "2"]
    assert load_samples(frame[3:].rename_axis("id"))[0].id == "3"
    named = frame[3:].assign(key=[t["id"] for t in TEXTS[3:]])
    assert load_samples(named, mapping={"id": "key"})[0].id == TEXTS[3]["id"]


def test_doubled_ids_are_an_error_at_every_door():
    twice = [*TEXTS, TEXTS[0]]
    samples = load_samples(TEXTS)
    for call in (
        lambda: load_samples(twice),
        lambda: load_samples(polars.DataFrame(twice)),
        lambda: correlate(SCORES, RATINGS, samples=[*samples, load_samples(TEXTS[:1])[0]]),
        lambda: correlate([*SCORES, SCORES[0]], RATINGS),
        lambda: correlate(SCORES, [*RATINGS, RATINGS[0]]),
        lambda: agreement([*samples, samples[0]]),
        lambda: correlate(SCORES, RATINGS, samples=[{**TEXTS[0], "system": "other"}, *samples]),
    ):
        with pytest.raises(InputError, match=r'(id|ids must differ).*"?a0"?'):
            call()


def test_files_and_objects_are_not_mixed_up(tmp_path: Path):
    path = as_path(RATINGS, tmp_path)
    with pytest.raises(InputError, match="samples and files together"):
        agreement([path, *load_samples(TEXTS)])
    choices = load_comparisons(CHOICES[:6], {})
    both = [as_path(CHOICES[6:], tmp_path), *choices]
    assert strengths(both).strengths[0].estimate.n == len(CHOICES)


RESULT_OPTIONS = ({"margin": {"all": 0.1}}, {"family": "run"}, {"seed": 0}, {"cache": False},
                  {"metrics": "lakes"}, {"mapping": {"id": "n"}}, {"model": "m"})  # fmt: skip


def test_options_of_a_result_are_refused_by_name():
    result = score(TEXTS, lakes, cache=False)
    assert compare(result).summaries == result.summaries
    for words in RESULT_OPTIONS:
        (name,) = words
        with pytest.raises(UserError, match=f"^{name}: "):
            compare(result, **words)
    for name in ("nonsense", "by"):
        with pytest.raises(UserError, match=f"there is no option '{name}'"):
            compare(result, **{name: "system"})


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: compare(TEXTS, lakes, scores=score(TEXTS, lakes, cache=False)), "metrics"),
        (lambda: compare(TEXTS, scores=score(TEXTS, lakes, cache=False), model="m"), "model"),
        (lambda: score(TEXTS, lakes, cache=False, corpus_by="none"), "corpus_by"),
        (lambda: score(["A lake."], lakes, cache=False, margin={"all": 0.1}), "margin"),
        (lambda: score(TEXTS, lakes, cache=False, by="none", family="run"), "family"),
        (lambda: load_samples(TEXTS, format="csv"), "format"),
        (lambda: load_samples(TEXTS, ids="file"), "ids=file"),
        (lambda: agreement(RATINGS, epsilon=0.2), "epsilon"),
        (lambda: agreement(RATINGS, samples=TEXTS), "samples"),
        (lambda: agreement(CHOICES, worst=3), "worst"),
        (lambda: agreement(CHOICES, by="rater"), "by"),
        (lambda: agreement(RATINGS, format="csv"), "format"),
        (lambda: correlate(SCORES, load_ratings(RATINGS), format="csv"), "format"),
        (lambda: correlate(SCORES, load_ratings(RATINGS), mapping={"value": "v"}), "mapping"),
        (lambda: estimate(SCORES, RATINGS, strata=3), "strata"),
        (lambda: strengths(load_comparisons(CHOICES, {}), mapping={"a": "x"}), "mapping"),
        (lambda: plan_systems(sd=1.0, sd_seeds=0.0, samples=TEXTS), "samples"),
        (lambda: plan_metrics(r=0.4, ratings=polars.DataFrame(RATINGS)), "ratings"),
        (lambda: plan_metrics(r=0.4, between=0.9), "between"),
        (lambda: plan_raters(agreement=0.5, aspects=["depth"]), "aspects"),
    ],
)
def test_options_that_would_be_ignored_are_refused(call: Callable[[], Any], name: str):
    with pytest.raises(UserError, match=f"^{name}: "):
        call()


def test_ids_in_memory_may_repeat_if_they_are_not_compared():
    twice = [TEXTS[0], TEXTS[0]]
    assert len(load_samples(twice, ids="any")) == 2


GROUPS = [
    {"id": f"system={name} seed=1", "metric": "diversity.distinct-1", "value": 0.5,
     "signature": "diversity.distinct-1|v:1"}
    for name in ("GPT-x", "b")
]  # fmt: skip
OURS = [{"id": s["id"], "metric": "lakes", "value": s["score"], "signature": "lakes|v:1"}
        for s in SCORES]  # fmt: skip


def test_values_of_groups_are_no_values_of_texts():
    for call in (
        lambda scores: estimate(scores, RATINGS, samples=TEXTS),
        lambda scores: correlate(scores, RATINGS, samples=TEXTS),
        lambda scores: preferences(scores, CHOICES),
        lambda scores: plan_metrics(scores, ratings=RATINGS),
    ):
        both, alone = (numbers(call(scores)) for scores in ([*OURS, *GROUPS], OURS))
        notes, plain = both.pop("notes", []), alone.pop("notes", [])
        assert both == alone
        assert [n for n in notes if "distinct" not in n] == plain
        with pytest.raises(UserError, match="values of groups of texts, such as 'system=GPT-x"):
            call(GROUPS)
    assert (
        "values of groups, not of texts, are left out: diversity.distinct-1"
        in estimate([*OURS, *GROUPS], RATINGS).notes
    )
    judged = agreement(RATINGS, judge=[*OURS, *GROUPS])
    assert [judge.metric for judge in judged.judges] == ["lakes"]
    assert any("distinct-1" in note for note in judged.notes())
    assert any(
        "distinct-1" in note for note in plan_metrics([*OURS, *GROUPS], ratings=RATINGS).notes
    )
    with pytest.raises(UserError, match="values of groups"):
        correlate([*OURS, *GROUPS], RATINGS, metrics=["diversity"])


def test_texts_may_have_ids_that_look_like_groups():
    rename = {t["id"]: f"system={t['id']}" for t in TEXTS}
    scores = [{**s, "id": rename[s["id"]]} for s in OURS]
    ratings = [{**r, "id": rename[r["id"]]} for r in RATINGS]
    (r,) = correlate(scores, ratings).correlations
    assert r.n == len(TEXTS)
    assert not math.isnan(r.estimates["pearson"].value)

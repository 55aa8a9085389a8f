"""Logs are compared by the scores that they hold, and their means are those that they state."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from levelfield import compare, load_samples, score
from levelfield.core.errors import InputError, UserError
from levelfield.scoring.compare import SystemComparisons
from levelfield.scoring.comparison import verdict
from levelfield.scoring.logs import is_equal
from levelfield.show.terminal.score_tables import print_comparisons
from levelfield.stats.multiplicity import holm
from levelfield.stats.sign_flip import sign_flips
from others_logs import (
    inspect_log,
    inspect_sample,
    lm_eval_line,
    number,
    write_helm,
    write_inspect_eval,
    write_inspect_json,
    write_lm_eval,
)


def letters(
    seed: int, n: int, epochs: int = 1, alphabet: str = "CIP"
) -> dict[tuple[int, int], object]:
    draw = random.Random(seed)
    keys = itertools.product(range(n), range(1, epochs + 1))
    return {key: draw.choice(alphabet) for key in keys}


def inspect_pair(folder: Path, of_a: dict, of_b: dict, **words: object) -> list[Path]:
    a = write_inspect_eval(folder / "a.eval", inspect_log("lab/a", of_a, **words))
    return [a, write_inspect_json(folder / "b.json", inspect_log("lab/b", of_b, **words))]


def means(comparisons: SystemComparisons) -> dict[tuple[str, str], float]:
    return {(s.metric, g.group): g.mean.value for s in comparisons.summaries for g in s.groups}


@pytest.mark.parametrize("epochs", [1, 3])
def test_means_of_inspect_are_those_that_the_log_states(tmp_path: Path, epochs: int):
    of_a, of_b = ({"match": letters(seed, 30, epochs)} for seed in (1, 2))
    found = compare(inspect_pair(tmp_path, of_a, of_b, epochs=epochs))
    assert found.stated.keys() == means(found).keys() == {("match", "lab/a"), ("match", "lab/b")}
    for key, mean in means(found).items():
        assert mean == pytest.approx(found.stated[key], abs=1e-9)
    assert found.equal_to_stated == 2
    assert found.notes == ()


def test_where_epochs_lack_values_every_sample_still_weighs_the_same(tmp_path: Path):
    values = letters(3, 25, 4)
    for id, epoch in values:
        if epoch > 1 + id % 4 and values[id, 1] == "C":
            values[id, epoch] = float("nan")
    found = compare(
        inspect_pair(tmp_path, {"match": values}, {"match": letters(4, 25, 4)}, epochs=4)
    )
    numbers = [v for v in map(number, values.values()) if v is not None]
    of_texts = sum(numbers) / len(numbers)
    stated = found.stated["match", "lab/a"]
    assert abs(of_texts - stated) > 0.01
    assert means(found)["match", "lab/a"] == pytest.approx(stated, abs=1e-9)


def test_means_of_lm_eval_are_those_of_its_results(tmp_path: Path):
    draw = random.Random(5)
    runs = [
        write_lm_eval(
            tmp_path / model,
            {
                "gsm": [
                    lm_eval_line(i, {"exact_match": draw.choice([0, 1])}, filter=filter)
                    for filter in ("strict", "flexible")
                    for i in range(23)
                ],
                "arc": [lm_eval_line(i, {"acc": draw.random()}) for i in range(17)],
            },
            model=model,
        )
        for model in ("one", "two")
    ]
    found = compare(runs)
    assert [s.metric for s in found.summaries] == [
        "arc.acc,none",
        "gsm.exact_match,strict",
        "gsm.exact_match,flexible",
    ]
    assert len(found.stated) == found.equal_to_stated == 6
    for key, mean in means(found).items():
        assert mean == pytest.approx(found.stated[key], abs=1e-9)


@pytest.mark.parametrize("trials", [1, 3])
def test_means_of_helm_are_those_of_its_stats(tmp_path: Path, trials: int):
    draw = random.Random(6)
    runs = [
        write_helm(
            tmp_path / model,
            {
                "exact_match": {
                    (f"id{i}", trial): float(draw.random() < 0.6)
                    for i in range(20)
                    for trial in range(trials)
                },
                "f1_score": {
                    (f"id{i}", trial): draw.random() for i in range(20) for trial in range(trials)
                },
            },
            model=model,
            trials=trials,
        )
        for model in ("one", "two")
    ]
    found = compare(runs)
    assert len(found.stated) == found.equal_to_stated == 4
    for key, mean in means(found).items():
        assert mean == pytest.approx(found.stated[key], abs=1e-9)


def test_a_difference_is_that_of_pairs_of_one_sample_with_the_test_of_sign_flips(tmp_path: Path):
    of_a, of_b = letters(7, 12), letters(8, 11)  # few enough for all signs to be tried
    found = compare(inspect_pair(tmp_path, {"match": of_a}, {"match": of_b}))
    ((_, c),) = found
    pairs = [(number(of_a[key]), number(of_b[key])) for key in of_b]
    d = np.array([a - b for a, b in pairs])
    assert c.inputs == 11
    assert c.difference == pytest.approx(d.mean(), abs=1e-12)
    n = d.size
    tests = sign_flips(d[:, None] / n, np.full((n, 1), 1 / n), mid=np.array([False]))
    assert c.p == pytest.approx(tests.p[0], rel=1e-9)
    assert (c.low, c.high) == pytest.approx((tests.low[0], tests.high[0]), rel=1e-9)


def test_epochs_are_averaged_within_items(tmp_path: Path):
    of_a, of_b = letters(9, 12, 3), letters(10, 12, 3)  # few enough for all signs to be tried
    found = compare(inspect_pair(tmp_path, {"match": of_a}, {"match": of_b}, epochs=3))
    ((_, c),) = found
    of_samples: dict[int, list[float]] = defaultdict(list)
    for (id, epoch), value in of_a.items():
        of_samples[id].append(number(value) - number(of_b[id, epoch]))
    d = np.array([np.mean(values) for values in of_samples.values()])
    assert c.difference == pytest.approx(d.mean(), abs=1e-12)
    n = d.size
    tests = sign_flips(d[:, None] / n, np.full((n, 1), 1 / n), mid=np.array([False]))
    assert c.p == pytest.approx(tests.p[0], rel=1e-9)
    assert (c.low, c.high) == pytest.approx((tests.low[0], tests.high[0]), rel=1e-9)
    assert c.inputs == 12


def binary_epochs(seed: int, n: int, epochs: int, lift: float) -> dict[tuple[int, int], object]:
    """Right or wrong: items differ in how hard they are, epochs by chance alone."""
    draw = np.random.default_rng(seed)
    hard = np.random.default_rng(5).beta(1, 1, n)
    right = draw.random((n, epochs)) < np.clip(hard + lift, 0, 1)[:, None]
    return {(i, e + 1): "C" if right[i, e] else "I" for i in range(n) for e in range(epochs)}


def test_more_epochs_make_a_difference_more_certain(tmp_path: Path):
    widths = []
    for epochs in (1, 2, 5):
        of_a, of_b = (binary_epochs(s, 150, epochs, lift) for s, lift in ((1, 0.0), (2, 0.1)))
        files = inspect_pair(tmp_path, {"match": of_a}, {"match": of_b}, epochs=epochs)
        ((_, c),) = compare(files)
        d = np.array([
            np.mean([number(of_b[i, e + 1]) - number(of_a[i, e + 1]) for e in range(epochs)])
            for i in range(150)
        ])  # fmt: skip
        t = 1.976 * d.std(ddof=1) / np.sqrt(150)
        assert c.high - c.low == pytest.approx(2 * t, rel=0.05)
        widths.append(c.high - c.low)
    assert widths[0] > 1.2 * widths[1] > 1.5 * widths[2]


def test_samples_that_only_one_log_has_are_named(tmp_path: Path):
    of_a, of_b = letters(1, 12), letters(2, 30)
    del of_b[4, 1]
    found = compare(inspect_pair(tmp_path, {"match": of_a}, {"match": of_b}))
    assert found.notes == (
        "1 of 12 samples of lab/a are not in lab/b: 4",
        "18 of 29 samples of lab/b are not in lab/a: 12, 13, 14, 15, 16, …",
    )
    ((_, c),) = found
    assert (c.inputs, c.left_out) == (11, 19)


def test_scores_that_only_one_log_has_are_named_and_not_compared(tmp_path: Path):
    of_a = {"match": letters(1, 9), "fluency": letters(2, 9)}
    found = compare(inspect_pair(tmp_path, of_a, {"match": letters(3, 9)}))
    assert [s.metric for s in found.summaries] == ["match"]
    assert found.notes == ("fluency: only in lab/a",)


def test_a_missing_score_is_undefined_and_bounds_the_difference(tmp_path: Path):
    of_a, of_b = letters(1, 30, alphabet="CCCI"), letters(2, 30, alphabet="CIII")
    for id in range(6):
        of_a[id, 1] = None
    found = compare(inspect_pair(tmp_path, {"match": of_a}, {"match": of_b}))
    (summary,) = found.summaries
    (c,) = summary.comparisons
    assert summary.reasons == {"no score in the log": 6}
    assert summary.groups[0].undefined == 6
    assert c.inputs == 24
    assert c.bounds is not None
    assert c.bounds.only_a == 6


def test_one_sample_gives_a_difference_without_an_interval(tmp_path: Path):
    found = compare(inspect_pair(tmp_path, {"match": {(1, 1): "C"}}, {"match": {(1, 1): "I"}}))
    ((_, c),) = found
    assert (c.difference, c.inputs) == (1.0, 1)
    assert math.isnan(c.low)
    assert "one input: no interval" in c.note
    assert found.to_dict()["metrics"][0]["systems"][0]["mean"] == 1.0


def test_a_log_that_contradicts_its_samples_is_named(tmp_path: Path):
    a = inspect_log("lab/a", {"match": letters(1, 20)}, stated={"match": 0.9})
    b = inspect_log("lab/b", {"match": letters(2, 20)})
    found = compare(
        [write_inspect_json(tmp_path / f"{i}.json", log) for i, log in enumerate((a, b))]
    )
    (note,) = found.notes
    mean = means(found)["match", "lab/a"]
    assert note == (
        f"lab/a: its log states 0.9 for match, and the mean of its samples is {mean:.6g}; what it "
        "states may not be a mean"
    )
    assert found.equal_to_stated == 1


def test_equal_is_within_a_billionth():
    assert is_equal(0.5, 0.5 + 9e-10)
    assert not is_equal(0.5, 0.5 + 2e-9)
    assert is_equal(5e6, 5e6 + 4e-3)


def test_samples_that_were_asked_otherwise_are_named_and_still_paired(tmp_path: Path):
    a, b = (inspect_log(m, {"match": letters(s, 10)}) for m, s in (("lab/a", 1), ("lab/b", 2)))
    for sample in b["samples"][2:5]:
        sample["input"] += " Answer briefly."
    found = compare(
        [write_inspect_json(tmp_path / f"{i}.json", log) for i, log in enumerate((a, b))]
    )
    assert found.notes == (
        "3 of 10 samples were asked otherwise in lab/a than in lab/b: 2, 3, 4; they are paired by "
        "their ids",
    )
    assert next(iter(found))[1].inputs == 10


def test_two_logs_of_one_model_bear_the_names_of_their_files(tmp_path: Path):
    files = [
        write_inspect_json(
            tmp_path / f"{name}.json", inspect_log("lab/a", {"match": letters(seed, 8)})
        )
        for seed, name in enumerate(("before", "after"))
    ]
    ((_, c),) = compare(files)
    assert {c.a, c.b} == {"before", "after"}


def test_three_logs_give_every_pair_with_p_adjusted(tmp_path: Path):
    files = [
        write_inspect_json(
            tmp_path / f"{i}.json", inspect_log(f"lab/{i}", {"match": letters(i, 30)})
        )
        for i in range(3)
    ]
    comparisons = [c for _, c in compare(files)]
    assert [(c.a, c.b) for c in comparisons] == [
        ("lab/0", "lab/1"), ("lab/0", "lab/2"), ("lab/1", "lab/2"),
    ]  # fmt: skip
    assert any(c.p_adjusted > c.p for c in comparisons)


def runs_of_two_tasks(folder: Path) -> list[Path]:
    return [
        write_lm_eval(
            folder / model,
            {
                task: [lm_eval_line(i, {"acc": (i * k) % 3 == 0}) for i in range(n)]
                for task, n in (("arc", 12), ("gsm", 15))
            },
            model=model,
        )
        for k, model in enumerate(("one", "two"), 1)
    ]


def test_a_score_is_named_alone_or_with_its_data_set(tmp_path: Path):
    runs = runs_of_two_tasks(tmp_path)
    both = compare(runs, "acc,none")
    assert [s.metric for s in both.summaries] == ["arc.acc,none", "gsm.acc,none"]
    assert [s.metric for s in compare(runs, "gsm.acc,none").summaries] == ["gsm.acc,none"]
    with pytest.raises(UserError, match=r"no log has the score f1; there are acc,none, arc\.acc"):
        compare(runs, "f1")


def test_a_margin_and_a_family_hold_for_data_sets_together(tmp_path: Path):
    runs = runs_of_two_tasks(tmp_path)
    found = compare(runs, margin={"gsm": 0.5})
    margins = {s.metric: s.comparisons[0].margin for s in found.summaries}
    assert math.isnan(margins["arc.acc,none"])
    assert margins["gsm.acc,none"] == 0.5
    of_run = [c for _, c in compare(runs, family="run")]
    assert [c.p_adjusted for c in of_run] == pytest.approx(
        [min(1.0, max(2 * min(c.p for c in of_run), c.p)) for c in of_run]
    )


def test_a_task_that_only_one_run_has_is_named(tmp_path: Path):
    lines = [lm_eval_line(i, {"acc": i % 2}) for i in range(8)]
    one = write_lm_eval(tmp_path / "one", {"arc": lines, "gsm": lines}, model="one")
    two = write_lm_eval(tmp_path / "two", {"arc": lines[:6]}, model="two")
    found = compare([one, two])
    assert [s.metric for s in found.summaries] == ["arc.acc,none"]
    assert "gsm: only in one" in found.notes


def test_directions_come_from_the_logs_or_from_the_user(tmp_path: Path):
    lines = [
        [lm_eval_line(i, {"perplexity": v, "length": v}) for i in range(30)] for v in (2.0, 3.0)
    ]
    for of_run, k in zip(lines, (0.0, 0.1), strict=True):
        for line in of_run:
            line["perplexity"] = line["length"] = line["length"] + k * (line["doc_id"] % 3)
    runs = [
        write_lm_eval(tmp_path / model, {"t": of_run}, model=model)
        for model, of_run in zip(("one", "two"), lines, strict=True)
    ]
    found = {s.metric: s.direction for s in compare(runs).summaries}
    assert found == {"perplexity,none": "lower", "length,none": "none"}
    document = compare(runs, direction={"length,none": "higher"}).to_dict()
    verdicts = {m["metric"]: m["comparisons"][0]["verdict"] for m in document["metrics"]}
    assert verdicts == {"perplexity,none": "one > two", "length,none": "two > one"}
    with pytest.raises(UserError, match="direction of length,none: expected higher or lower"):
        compare(runs, direction={"length,none": "up"})
    with pytest.raises(UserError, match="no log has the score size"):
        compare(runs, direction={"size": "higher"})


def test_json_lines_with_the_field_are_a_log(tmp_path: Path):
    for name, values in (("a", (1, 0, None)), ("b", (0, 0, 1))):
        lines = [
            {"text": "x", "system": name, "logged": {"item": f"q{i}", "scores": {"match": value}}}
            for i, value in enumerate(values)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ((_, c),) = compare([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert (c.inputs, c.difference) == (2, 0.5)


def test_a_score_that_is_no_number_names_the_sample(tmp_path: Path):
    for name in ("a", "b"):
        line = {"id": "q", "text": "x", "system": name, "logged": {"scores": {"match": "good"}}}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line))
    with pytest.raises(
        InputError, match=r"a\.jsonl: id q: logged\.scores\.match: expected a number"
    ):
        compare([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def test_logs_of_other_data_sets_and_one_log_alone_are_refused(tmp_path: Path):
    a = write_inspect_json(tmp_path / "a.json", inspect_log("lab/a", {"match": letters(1, 5)}))
    other = inspect_log("lab/b", {"match": letters(1, 5)}, task="boats")
    b = write_inspect_json(tmp_path / "b.json", other)
    with pytest.raises(UserError, match="no two of these logs have a score in common: lakes: only"):
        compare([a, b])
    with pytest.raises(UserError, match=r"one system only \(lab/a\); name a second log"):
        compare([a])


def test_logs_without_scores_in_common_are_refused(tmp_path: Path):
    files = inspect_pair(tmp_path, {"match": letters(1, 5)}, {"other": letters(2, 5)})
    with pytest.raises(UserError, match=r"match: only in lab/a; other: only in lab/b"):
        compare(files)
    empty = [
        write_inspect_json(
            tmp_path / f"{name}.json", inspect_log(name, {}, samples=[inspect_sample(1, 1, {})])
        )
        for name in ("c", "d")
    ]
    with pytest.raises(UserError, match="they hold none"):
        compare(empty)


def test_a_log_beside_texts_without_scores_is_refused(tmp_path: Path):
    a = write_inspect_json(tmp_path / "a.json", inspect_log("lab/a", {"match": letters(1, 5)}))
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "x"}\n')
    with pytest.raises(UserError, match=r"texts\.jsonl: holds no scores of its samples"):
        compare([a, texts])


def test_with_a_metric_the_texts_of_logs_are_scored(tmp_path: Path):
    files = inspect_pair(tmp_path, {"match": letters(1, 6)}, {"match": letters(2, 6)})
    found = compare(files, "rouge-1.references", cache=False)
    assert [s.metric for s in found.summaries] == ["rouge-1.references"]
    assert found.stated == {}
    assert next(iter(found))[1].inputs == 6
    with pytest.raises(UserError, match="--direction applies to scores of logs"):
        compare(files, "rouge-1.references", cache=False, direction={"match": "higher"})


def test_all_that_is_wrong_with_logs_is_said_at_once(tmp_path: Path):
    files = []
    for name in ("a", "b"):
        log = inspect_log(name, {}, samples=[inspect_sample(1, 1, {})] * 2)
        files.append(write_inspect_json(tmp_path / f"{name}.json", log))
    with pytest.raises(InputError) as caught:
        compare(files)
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [*map(str, files)]


def test_a_signature_names_the_logs_by_their_content(tmp_path: Path):
    files = inspect_pair(tmp_path, {"match": letters(1, 6)}, {"match": letters(2, 6)})
    before = compare(files).summaries[0].signature
    assert compare(files).summaries[0].signature == before
    assert before.startswith("logged.match|lab/a:")
    inspect_pair(tmp_path, {"match": letters(3, 6)}, {"match": letters(2, 6)})
    assert compare(files).summaries[0].signature != before
    run = runs_of_two_tasks(tmp_path)
    before = compare(run).summaries[0].signature
    results = next(run[0].glob("results_*.json"))
    results.write_text(results.read_text() + "\n")
    assert compare(run).summaries[0].signature != before


def test_the_order_of_samples_changes_nothing(tmp_path: Path):
    files = inspect_pair(
        tmp_path, {"match": letters(1, 20, 2)}, {"match": letters(2, 20, 2)}, epochs=2
    )
    before = compare(files)
    log = json.loads(files[1].read_text())
    log["samples"].reverse()
    files[1].write_text(json.dumps(log))
    after = compare(files)
    assert [c for _, c in after] == [c for _, c in before]
    assert means(after) == means(before)


def runs_with_likelihoods(folder: Path, make: Callable[[float, int], dict], **words) -> list[Path]:
    """Two runs of 30 documents: the model `strong` has likelihoods that are higher by 1.2 nats."""
    draw = random.Random(8)
    likelihoods = [-2.0 - draw.random() for _ in range(30)]
    return [
        write_lm_eval(
            folder / model,
            {
                "t": [
                    lm_eval_line(i, make(value + gain + draw.random() / 9, i))
                    for i, value in enumerate(likelihoods)
                ]
            },
            model=model,
            **{name: choice(likelihoods, gain) for name, choice in words.items()},
        )
        for model, gain in (("weak", 0.0), ("strong", 1.2))
    ]


def restated(runs: list[Path], score: str, value: Callable[[list], float]) -> None:
    """Has the results state a value of all documents."""
    for run in runs:
        (file,), (results,) = run.glob("samples_*"), run.glob("results_*")
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        document = json.loads(results.read_text())
        document["results"]["t"][score] = value([line[score.split(",")[0]] for line in lines])
        results.write_text(json.dumps(document))


def test_perplexity_is_the_value_of_all_documents_and_its_direction_holds(tmp_path: Path):
    runs = runs_with_likelihoods(tmp_path, lambda ll, _: {"perplexity": ll})
    restated(runs, "perplexity,none", lambda values: math.exp(-np.mean(values)))
    found = compare(runs)
    ((summary, c),) = found
    assert found.equal_to_stated == 2
    assert summary.direction == "lower"
    assert verdict(c, summary.direction) == "strong > weak"
    values = means(found)
    assert c.difference == pytest.approx(
        values["perplexity,none", "strong"] - values["perplexity,none", "weak"], rel=1e-9
    )
    assert math.isnan(c.effect)
    for group in summary.groups:
        assert 0 < group.mean.low < group.mean.value < group.mean.high
    assert "values of all documents together" in found.notes[0]


def test_a_value_that_is_no_mean_of_the_documents_lends_them_no_direction(tmp_path: Path):
    runs = runs_with_likelihoods(tmp_path, lambda ll, _: {"perplexity": ll})
    restated(runs, "perplexity,none", lambda values: -np.median(values))
    found = compare(runs)
    ((summary, c),) = found
    assert summary.direction == "none"
    assert verdict(c, summary.direction) == "strong higher than weak"
    assert "the logs say which end is better of another value than this one" in c.note
    assert any("what it states may not be a mean" in note for note in found.notes)
    named = compare(runs, direction={"perplexity,none": "higher"})
    assert next(iter(named))[0].direction == "higher"
    assert "another value" not in next(iter(named))[1].note


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("word_perplexity", lambda ll, w: math.exp(-ll / w)),
        ("bits_per_byte", lambda ll, w: -ll / w / math.log(2)),
        ("my_rate", lambda ll, w: -ll / w / math.log(2)),
    ],
)
def test_pairs_of_a_likelihood_and_a_length_make_the_value_of_the_corpus(tmp_path, metric, value):
    runs = runs_with_likelihoods(tmp_path, lambda ll, i: {metric: [ll * (9 + i), 9 + i]})
    restated(runs, f"{metric},none", lambda pairs: value(*np.sum(np.array(pairs), axis=0).tolist()))
    for run in runs:
        (results,) = run.glob("results_*")
        document = json.loads(results.read_text())
        document["higher_is_better"]["t"] = {metric: False}
        results.write_text(json.dumps(document))
    found = compare(runs)
    ((summary, c),) = found
    assert found.equal_to_stated == 2
    assert verdict(c, summary.direction) == "strong > weak"


def test_lists_that_make_no_known_value_are_named(tmp_path: Path):
    runs = runs_with_likelihoods(tmp_path, lambda ll, i: {"f1": [i % 2, 1], "acc": ll})
    found = compare(runs)
    assert [s.metric for s in found.summaries] == ["acc,none"]
    assert "f1,none: left out: a list for each sample" in found.notes[0]
    with pytest.raises(UserError, match="f1,none: left out: a list for each sample"):
        compare(runs, "f1,none")


@pytest.mark.parametrize(
    ("reducer", "reduce"),
    [
        ("max", max),
        ("median", lambda v: sorted(v)[1]),
        ("mode", lambda v: max(set(v), key=v.count)),
        ("at_least_2", lambda v: float(sum(x >= 1 for x in v) >= 2)),
        ("pass_at_2", lambda v: 1 - [3, 1, 0, 0][sum(x >= 1 for x in v)] / 3),
    ],
)
def test_draws_of_a_sample_are_reduced_as_the_log_does(tmp_path: Path, reducer, reduce):
    files = []
    for name, seed in (("a", 1), ("b", 2)):
        values = letters(seed, 20, 3, "CI")
        of_items = [reduce([number(values[i, e]) for e in (1, 2, 3)]) for i in range(20)]
        log = inspect_log(
            name, {"match": values}, epochs=3, stated={"match": sum(of_items) / len(of_items)}
        )
        log["results"]["scores"][0]["reducer"] = reducer
        files.append(write_inspect_json(tmp_path / f"{name}.json", log))
    found = compare(files)
    ((summary, c),) = found
    assert found.equal_to_stated == 2
    assert (summary.metric, summary.direction, c.inputs) == ("match", "higher", 20)
    assert found.notes == (
        f"match: one value for the draws of a sample, by {reducer} as in the logs",
    )


def test_several_reducers_give_several_scores_and_an_unknown_one_is_named(tmp_path: Path):
    files = []
    for name, seed in (("a", 1), ("b", 2)):
        values = letters(seed, 20, 3, "CI")
        log = inspect_log(name, {"match": values}, epochs=3)
        (mean,) = log["results"]["scores"]
        log["results"]["scores"] = [
            mean,
            {**mean, "reducer": "max", "metrics": {"accuracy": {"value": 0.5}}},
            {**mean, "reducer": "my_own", "metrics": {"accuracy": {"value": 0.1}}},
        ]
        files.append(write_inspect_json(tmp_path / f"{name}.json", log))
    found = compare(files)
    assert [s.metric for s in found.summaries] == ["match", "match,max", "match,my_own"]
    assert [s.direction for s in found.summaries] == ["higher", "none", "none"]
    assert any("by my_own, which is not known here" in note for note in found.notes)


def test_logs_with_other_reducers_are_compared_by_means_and_say_so(tmp_path: Path):
    files = []
    for name, reducer in (("a", "mean"), ("b", "max")):
        log = inspect_log(name, {"match": letters(1, 9, 3)}, epochs=3, stated={"match": 0.99})
        log["results"]["scores"][0]["reducer"] = reducer
        files.append(write_inspect_json(tmp_path / f"{name}.json", log))
    found = compare(files)
    assert "reduce the draws of a sample otherwise, a by mean, b by max" in found.notes[0]


def test_what_the_grader_could_not_grade_is_undefined_and_counted(tmp_path: Path):
    files = []
    for name, failed in (("a", range(4)), ("b", ())):
        log = inspect_log(name, {"quality": letters(1, 24, alphabet="C")})
        for i in failed:
            log["samples"][i]["scores"]["quality"] = {
                "value": "I",
                "explanation": "Grade not found in model output: I would say",
            }
        if name == "a":  # which Inspect counted as wrong
            log["results"]["scores"][0]["metrics"]["accuracy"]["value"] = 20 / 24
        files.append(write_inspect_json(tmp_path / f"{name}.json", log))
    found = compare(files)
    ((summary, c),) = found
    assert summary.reasons == {"the grader gave no grade": 4}
    assert (c.inputs, c.difference) == (20, 0.0)
    assert summary.direction == "higher"
    assert found.notes == (
        "a: its log states 0.833333 for quality, which counts scores that are undefined here; "
        "without them it is 1",
        "a: 4 of 24 samples have no value of quality: the grader gave no grade",
    )


def test_a_failing_grader_withholds_a_verdict_that_it_could_turn(tmp_path: Path):
    of_a = {key: "C" if key[0] % 8 else "I" for key in letters(1, 40)}
    of_b = {key: "I" if key[0] % 3 else "C" for key in letters(1, 40)}
    a, b = (inspect_log(m, {"q": v}) for m, v in (("a", of_a), ("b", of_b)))
    for sample in b["samples"][:38]:
        sample["scores"]["q"] |= {"value": math.nan, "reason": "grader_failed"}
    found = compare([
        write_inspect_json(tmp_path / f"{name}.json", log) for name, log in (("a", a), ("b", b))
    ])  # fmt: skip
    ((summary, c),) = found
    assert summary.reasons == {"the grader gave no grade": 38}
    assert verdict(c, summary.direction) in ("withheld", "no difference shown")


@pytest.mark.parametrize("code", ["invalid_response_format", "no_response", "refusal"])
def test_an_answer_in_another_format_is_wrong_and_counted(tmp_path: Path, code: str):
    log = inspect_log("a", {"q": letters(1, 20, alphabet="CI")})
    for sample in log["samples"][:3]:
        sample["scores"]["q"] |= {"value": "I", "reason": code}
    b = inspect_log("b", {"q": letters(2, 20, alphabet="CI")})
    found = compare([
        write_inspect_json(tmp_path / f"{name}.json", log) for name, log in (("a", log), ("b", b))
    ])  # fmt: skip
    assert found.summaries[0].reasons == {}
    assert any(
        note.startswith("a: 3 of 20 samples have ") and "counts as the log scores it" in note
        for note in found.notes
    )


def test_errors_and_invalidated_samples_are_undefined_and_counted_by_kind(tmp_path: Path):
    log = inspect_log("a", {"q": letters(1, 20, alphabet="C")})
    for sample in log["samples"][:3]:
        sample["error"] = {"message": "timeout"}
        sample["scores"]["q"]["value"] = "I"
    log["samples"][3]["invalidation"] = {"reason": "a wrong sandbox"}
    b = inspect_log("b", {"q": letters(2, 20, alphabet="CI")})
    files = [write_inspect_json(tmp_path / f"{n}.json", x) for n, x in (("a", log), ("b", b))]
    found = compare(files)
    assert found.summaries[0].reasons == {
        "the sample ended with an error": 3,
        "the sample was invalidated": 1,
    }
    assert "a: 3 of 20 samples have no value of q: the sample ended with an error" in found.notes
    assert "a: 1 of 20 samples have no value of q: the sample was invalidated" in found.notes
    log["eval"]["config"]["score_on_error"] = True
    write_inspect_json(files[0], log)
    found = compare(files)
    assert found.summaries[0].reasons == {"the sample was invalidated": 1}
    assert any("3 of 20 samples ended with an error and were scored" in n for n in found.notes)


def test_settings_in_which_logs_differ_and_a_grader_of_itself_are_named(tmp_path: Path):
    logs = [inspect_log(f"lab/{name}", {"q": letters(1, 9)}) for name in "ab"]
    for log, temperature in zip(logs, (0, 0.7), strict=True):
        log["eval"]["model_generate_config"] = {"temperature": temperature, "top_p": 0.9}
        log["eval"]["task_version"] = 2
        log["results"]["scores"][0]["scorer"] = "model_graded_qa"
        log["results"]["scores"][0]["name"] = "q"
        for sample in log["samples"]:
            sample["scores"] = {"model_graded_qa.q": sample["scores"]["q"]}
    logs[1]["eval"]["config"]["message_limit"] = 30
    logs[1]["eval"]["model_roles"] = {"grader": {"model": "lab/c"}}
    found = compare([
        write_inspect_json(tmp_path / f"{i}.json", log) for i, log in enumerate(logs)
    ])  # fmt: skip
    assert found.notes == (
        "the logs differ in their settings: temperature 0 in lab/a, 0.7 in lab/b; message_limit "
        "not set in lab/a, 30 in lab/b; grader not set in lab/a, lab/c in lab/b",
        "lab/a: graded by the model itself: model_graded_qa.q",
    )


def grouped_runs(folder: Path, **words: object) -> list[Path]:
    draw = random.Random(4)
    runs = []
    for model, level in (("one", 0.8), ("two", 0.55)):
        tasks = {
            f"t{k}": [lm_eval_line(i, {"acc": float(draw.random() < level)}) for i in range(9 + k)]
            for k in range(6)
        }
        groups = {"all": ["first", "t4", "t5"], "first": ["t0", "t1", "t2", "t3"]}
        run = write_lm_eval(
            folder / model, tasks, model=model, groups=groups, higher={"acc": True}, **words
        )
        runs.append(run)
    return runs


def test_a_group_is_compared_by_the_documents_of_its_tasks_together(tmp_path: Path):
    found = compare(grouped_runs(tmp_path))
    of_metric = {s.metric: s.comparisons[0] for s in found.summaries}
    assert list(of_metric) == [
        "all.acc,none", "first.acc,none", *(f"t{k}.acc,none" for k in range(6)),
    ]  # fmt: skip
    assert of_metric["all.acc,none"].inputs == sum(9 + k for k in range(6))
    assert of_metric["first.acc,none"].inputs == sum(9 + k for k in range(4))
    assert found.equal_to_stated == len(found.stated) == 16
    assert found.summaries[0].direction == "higher"
    assert found.parts == {
        "first.acc,none": "all.acc,none",
        "t4.acc,none": "all.acc,none",
        "t5.acc,none": "all.acc,none",
        **{f"t{k}.acc,none": "first.acc,none" for k in range(4)},
    }


def test_p_of_a_score_is_adjusted_over_the_tasks_of_a_group(tmp_path: Path):
    found = compare(grouped_runs(tmp_path))
    of_metric = {s.metric: s.comparisons[0] for s in found.summaries}
    for family in (["all"], ["first", "t4", "t5"], ["t0", "t1", "t2", "t3"]):
        comparisons = [of_metric[f"{name}.acc,none"] for name in family]
        assert [c.p_adjusted for c in comparisons] == pytest.approx(
            holm([c.p for c in comparisons]).tolist()
        )


def test_the_tasks_of_a_group_take_a_line_for_each_verdict(tmp_path: Path, capsys):
    print_comparisons(compare(grouped_runs(tmp_path)))
    printed = capsys.readouterr().out
    assert "all.acc,none" in printed
    assert "of 3 parts" in printed
    assert "of 4 parts" in printed
    assert printed.count(" − ") == 1
    assert "logged.t0" not in printed


def test_p_of_a_score_is_adjusted_over_data_sets(tmp_path: Path):
    found = compare(runs_of_two_tasks(tmp_path))
    comparisons = [c for _, c in found]
    assert [c.p_adjusted for c in comparisons] == pytest.approx(
        holm([c.p for c in comparisons]).tolist()
    )


def test_scores_of_two_logs_of_one_model_keep_them_apart(tmp_path: Path):
    files = [
        write_inspect_json(
            tmp_path / f"{name}.json", inspect_log("lab/a", {"match": letters(seed, 8)})
        )
        for seed, name in enumerate(("before", "after"))
    ]
    scored = score(files, "rouge-1.references", ids="file", cache=False)
    assert [group.group for group in scored.summaries[0].groups] == ["after", "before"]
    assert {s.system for s in load_samples(files[0])} == {"lab/a"}
    renamed = load_samples(files, ids="file", mapping={"system": "dataset"})
    assert {s.system for s in renamed} == {"lakes"}


def test_a_stated_mean_may_be_rounded(tmp_path: Path):
    files = []
    for name, right in (("a", 23), ("b", 11)):
        values = {(i, 1): "C" if i < right else "I" for i in range(24)}
        log = inspect_log(name, {"q": values}, stated={"q": round(right / 24, 3)})
        files.append(write_inspect_json(tmp_path / f"{name}.json", log))
    ((summary, c),) = compare(files)
    assert verdict(c, summary.direction) == "a > b"


def test_groups_that_hold_each_other_end(tmp_path: Path, capsys):
    runs = grouped_runs(tmp_path)
    for run in runs:
        (results,) = run.glob("results_*")
        document = json.loads(results.read_text())
        document["group_subtasks"]["first"] += ["all", "first"]
        results.write_text(json.dumps(document))
    print_comparisons(compare(runs))
    assert "parts" in capsys.readouterr().out


@pytest.mark.parametrize("draw", ["two", 1.5, 10**40])
def test_a_draw_that_is_no_number_is_named(tmp_path: Path, draw: object):
    for name in "ab":
        logged = {"item": "q", "draw": draw, "scores": {"match": 1}}
        (tmp_path / f"{name}.jsonl").write_text(
            json.dumps({"id": "q", "text": "x", "system": name, "logged": logged})
        )
    with pytest.raises(InputError, match=r"a\.jsonl: id q: logged\.draw: expected a whole number"):
        compare([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])


def test_a_log_of_json_lines_may_give_reasons_and_draws(tmp_path: Path):
    for name, values in (("a", (1, None, 0, 1)), ("b", (0, 1, 1, 0))):
        lines = [
            {
                "text": "x",
                "system": name,
                "logged": {
                    "item": f"q{i // 2}",
                    "draw": i % 2,
                    "scores": {"f1": value},
                    "reasons": {} if value is not None else {"f1": "no grade"},
                },
            }
            for i, value in enumerate(values)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = compare([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    ((summary, c),) = found
    assert (c.inputs, c.difference) == (2, pytest.approx(0.25))
    assert summary.reasons == {"no grade": 1}
    assert found.notes == ("a: 1 of 4 samples have no value of f1: no grade",)

"""The verbs `score` and `compare`: what they return, and that the command returns the same."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

import levelfield
from levelfield.cli import main
from levelfield.core.errors import InputError, UserError
from levelfield.core.metric import Level
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import PARTS_SCHEMA, Scores, part_name

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Words:
    """The number of words; undefined for a text without any."""

    name: ClassVar[str] = "words"
    level: ClassVar[Level] = "sample"
    requires: ClassVar[frozenset[str]] = frozenset({"text"})
    higher_is_better: ClassVar[bool] = True
    signature: ClassVar[str] = "words|v:1"

    def score(self, samples: Any, *, progress: Progress = no_progress) -> Scores:
        values = [float(len(s.text.split())) or np.nan for s in samples]
        progress(len(samples))
        return Scores(
            metric=self.name,
            ids=tuple(s.id for s in samples),
            values=np.array(values),
            undefined={s.id: "empty text" for s in samples if not s.text.split()},
            signature=self.signature,
            higher_is_better=True,
        )


@dataclass(frozen=True)
class Share(Words):
    """The number of words as a share of those of the whole run."""

    total: int = 0

    name: ClassVar[str] = "share"

    def counting(self, texts: Any) -> Share:
        return Share(total=sum(len(text.split()) for text in texts))

    def score(self, samples: Any, *, progress: Progress = no_progress) -> Scores:
        words = super().score(samples, progress=progress)
        return Scores(
            self.name, words.ids, words.values / self.total, words.undefined, self.signature,
            higher_is_better=True,
        )  # fmt: skip


def texts(*systems: str, n: int = 4) -> list[Sample]:
    return [
        Sample(f"{system}{i}", f"Day {i} " * (i + j), prompt=f"Day {i}", system=system)
        for i in range(1, n + 1)
        for j, system in enumerate(systems)
    ]


def command(monkeypatch: pytest.MonkeyPatch, capsys: Any, *words: object) -> Any:
    monkeypatch.setattr(sys, "argv", ["levelfield", "score", *map(str, words), "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 0
    return json.loads(capsys.readouterr().out)


def test_the_call_returns_the_document_that_the_command_prints(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")  # inside a run, what `--fast` skips by is an error of the metric
    some = (EXAMPLES / "texts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)[::5]
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(some), encoding="utf-8")
    words = (file, "-m", "diversity.distinct-1", "-m", "ctrleval.coherence", "--seed", "3")
    out = tmp_path / "scores.jsonl"
    document = command(monkeypatch, capsys, *words, "--out", out)
    result = levelfield.score(file, ["diversity.distinct-1", "ctrleval.coherence"], seed=3)
    assert result.to_dict() == document
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    of_call = [r for metric in result.scores.values() for r in metric.records()]
    by_id = {(r["metric"], r["id"]): r for r in of_call}
    assert by_id == {(r["metric"], r["id"]): r for r in records}


@pytest.mark.slow
def test_a_task_is_the_same_from_python(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch")  # inside a run, what `--fast` skips by is an error of the metric
    file = EXAMPLES / "rewrites.jsonl"
    words = ("--task", "style-transfer", "--out", tmp_path / "s.jsonl")
    chosen = {"control:judges": "linear"}
    document = command(monkeypatch, capsys, file, *words, "-o", "control:judges=linear")
    left_out: list[str] = []
    result = levelfield.score(file, task="style-transfer", options=chosen, note=left_out.append)
    assert result.to_dict() == document
    assert "joint.geometric" in [s.metric for s in result.summaries]


def test_strings_are_texts_with_ids_from_1():
    result = levelfield.score(["a b c", "a"], Words(), cache=False)
    assert result.scores["words"].ids == ("1", "2")
    assert result.scores["words"].values.tolist() == [3.0, 1.0]
    assert result.files == ()


def test_samples_are_scored_as_they_are():
    samples = texts("x")
    result = levelfield.score(samples, Words(), cache=False)
    assert result.scores["words"].ids == tuple(sample.id for sample in samples)


def test_an_empty_text_is_undefined_with_a_reason_and_counted():
    result = levelfield.score(["", "a b"], Words(), cache=False)
    assert result.scores["words"].undefined == {"1": "empty text"}
    assert result["words"].overall.undefined == 1
    assert result.to_dict()["metrics"][0]["undefined"] == {"empty text": 1}


def test_texts_with_thoughts_are_counted_and_the_option_that_removes_them_is_named():
    thoughts = ("", "<think>Ice?</think>\n\n", "Ice?</think> ")
    rows = [f"{thought}The lake froze." for thought in thoughts]
    metric = "diversity.distinct-1"
    notes: list[str] = []
    levelfield.score(rows, metric, note=notes.append, cache=False)
    assert [note[:41] for note in notes] == ["2 of 3 texts begin with a block <think>…<"]
    assert "--thoughts remove" in notes[0]
    removed: list[str] = []
    without = levelfield.score(rows, metric, note=removed.append, cache=False, thoughts="remove")
    assert not removed
    assert without.scores[metric].values.tolist() == [4 / 12]


def test_two_samples_with_one_id_are_an_error():
    with pytest.raises(InputError, match='id "1" was used'):
        levelfield.score([Sample("1", "a"), Sample("1", "b")], Words(), cache=False)


def test_a_metric_twice_is_an_error():
    with pytest.raises(UserError, match="'words' is given twice"):
        levelfield.score(["a"], [Words(), Words()], cache=False)


def test_options_may_be_values():
    by_text = levelfield.score(["a a b"], "diversity.distinct-1", options={"floor": "1"})
    by_value = levelfield.score(["a a b"], "diversity.distinct-1", options={"floor": 1})
    assert by_text.to_dict() == by_value.to_dict()


def test_a_corpus_metric_has_one_value_a_corpus():
    result = levelfield.score(texts("x", "y"), ["diversity.distinct-1", Words()], cache=False)
    (corpus,) = result.corpora
    assert result.scores[corpus.metric] is corpus
    assert corpus.ids == ("system=x", "system=y")


def test_a_metric_that_counts_texts_sees_all_of_them_before_it_scores():
    names: list[str] = []

    def stages(name: str, total: int | None) -> Any:
        names.append(name)
        return levelfield.core.progress.no_stages(name, total)

    result = levelfield.score(["a b c", "a"], Share(), cache=False, stages=stages)
    assert result.scores["share"].values.tolist() == [0.75, 0.25]
    assert names == ["reading", "counting", "share"]


def test_summaries_are_a_table_for_polars_and_for_latex():
    result = levelfield.score(texts("x", "y"), Words(), cache=False)
    table = result.to_polars()
    assert table["group"].to_list() == ["all", "x", "y"]
    assert table["mean"][0] == result["words"].overall.mean.value
    assert "\\toprule" in result.to_latex()
    assert "x & " in result.to_latex()


def test_systems_are_compared_in_the_same_way_whatever_compare_is_given():
    samples = texts("x", "y")
    result = levelfield.score(samples, Words(), cache=False)
    comparisons = levelfield.compare(result)
    ((metric, c),) = comparisons
    assert (metric.metric, c.a, c.b, c.inputs) == ("words", "x", "y", 4)
    assert c is result["words"].comparisons[0]
    document = comparisons.to_dict()
    assert levelfield.compare(samples, Words(), cache=False).to_dict() == document
    of_scores = levelfield.compare(samples, scores=list(result.scores.values()))
    assert of_scores.to_dict() == document
    (of_metric,) = document["metrics"]
    (of_score,) = result.to_dict()["metrics"][0]["comparisons"]
    assert of_metric["comparisons"] == [of_score | {"verdict": "no difference shown"}]
    assert comparisons.to_polars()["difference"].to_list() == [c.difference]
    assert "words & x & y & 4" in comparisons.to_latex()
    assert "ystems on equal inputs; p by" in comparisons.to_latex()


def test_the_caption_of_comparisons_says_where_texts_share_no_inputs():
    samples = [
        Sample(id=f"{s}{i}", text="so " * (i % 3 + 1), prompt=f"{s} {i}", system=s)
        for s in "xy"
        for i in range(9)
    ]
    comparisons = levelfield.compare(samples, Words(), cache=False)
    assert "ystems on independent texts; p by" in comparisons.to_latex()


def test_one_system_is_compared_with_nobody():
    samples = texts("x")
    assert levelfield.score(samples, Words(), cache=False)["words"].comparisons == ()
    with pytest.raises(UserError, match="one system only"):
        levelfield.compare(samples, Words(), cache=False)


def test_scores_of_other_samples_are_not_compared():
    of_others = levelfield.score(texts("x", "y", n=3), Words(), cache=False).scores.values()
    with pytest.raises(UserError, match="scores of other samples"):
        levelfield.compare(texts("x", "y"), scores=list(of_others))


def test_groups_that_are_no_systems_are_not_compared():
    result = levelfield.score(texts("x", "y"), Words(), by="none", cache=False)
    with pytest.raises(UserError, match="grouped by none"):
        levelfield.compare(result)


@dataclass(frozen=True)
class Divided(Words):
    """A metric whose judges are divided on texts that hold a `?`."""

    name: ClassVar[str] = "control.majority"
    signature: ClassVar[str] = "control.majority|rule:majority|ties:share|v:1"

    def score(self, samples: Any, *, progress: Progress = no_progress) -> Scores:
        progress(len(samples))
        labels = [["cold", "warm"] if "?" in s.text else ["warm"] for s in samples]
        rows = [
            (s.id, part_name("tone/majority", of), 1 / len(of), 1.0)
            for s, of in zip(samples, labels, strict=True)
        ]
        return Scores(
            metric=self.name,
            ids=tuple(s.id for s in samples),
            values=np.array([1 / len(of) for of in labels]),
            undefined={},
            signature=self.signature,
            higher_is_better=True,
            parts=pl.DataFrame(rows, schema=PARTS_SCHEMA, orient="row"),
        )


def test_a_note_says_on_how_many_texts_the_judges_are_divided():
    result = levelfield.score(["Warm.", "Warm?", "Cold?", "Cool."] * 30, Divided(), cache=False)
    [note] = result.notes
    assert note.startswith(
        "control.majority: the judges are divided on 50 % of the texts (60 of 120)"
    )
    assert result.to_dict()["notes"] == [note]
    assert levelfield.score(["Warm."], Divided(), cache=False).notes == ()


def labelled(control):
    """Two systems that answer six prompts, each for the labels that `control` gives."""
    return [
        {"text": "w " * (i + len(system)), "prompt": f"p{i}", "system": system, "control": wanted}
        for system in ("x", "yy")
        for i in range(6)
        for wanted in control(i)
    ]


@pytest.mark.parametrize(
    ("control", "labels"),
    [
        (
            lambda _: [{"sentiment": "positive"}, {"sentiment": "negative"}],
            ["negative", "positive"],
        ),
        (lambda i: [{"topic": "sport"}] if i < 3 else [{"mood": "glad"}], ["glad", "sport"]),
        (lambda _: [{"sentiment": "positive"}], []),
        (lambda i: [{"topic": f"t{i}-{j}"} for j in range(2)], []),
        (lambda _: [{}], []),
    ],
    ids=["one attribute", "two attributes", "one label", "many labels", "none"],
)
def test_systems_are_split_by_labels_where_there_are_a_few(control, labels):
    texts = labelled(control)
    result = levelfield.score(texts, Words(), cache=False)
    table = result.label_table()
    assert [column.label for column in table.columns] == labels if labels else table is None
    assert (result.to_dict()["labels"] is None) == (not labels)
    assert result.to_latex().count("begin{tabular}") == 1 + bool(labels)
    for column in table.columns if table else ():
        for name, cell in column.cells.items():
            values = [
                len(t["text"].split())
                for t in texts
                if t["system"] == name and column.label in t["control"].values()
            ]
            assert cell.group.mean.value == pytest.approx(sum(values) / len(values))
            assert cell.group.n == len(values)


def test_metrics_that_read_the_label_are_split_by_it_and_others_where_there_are_none():
    texts = labelled(lambda _: [{"keywords": "w"}, {"keywords": "v"}])
    metrics = ["keywords.any", "diversity.distinct-1"]
    for chosen, split in (
        (metrics, {"keywords.any"}),
        (metrics[1:], {"diversity.distinct-1"}),
    ):
        table = levelfield.score(texts, chosen, cache=False).label_table()
        assert {column.summary.metric for column in table.columns} == split
        assert [column.label for column in table.columns] == ["v", "w"]


def _words(text: str) -> float:
    return float(len(text.split()))


def test_texts_of_seeds_that_draw_text_by_text_are_averaged_within_inputs():
    texts = [
        {
            "id": f"{system}{n}{seed}",
            "text": "word " * (1 + (7 * n + 3 * seed) % 5 + (system == "b")),
            "prompt": f"p{n}",
            "system": system,
            "seed": seed,
        }
        for system in "ab"
        for n in range(12)
        for seed in (1, 2, 3)
    ]
    seedless = [{k: v for k, v in text.items() if k != "seed"} for text in texts]
    metric = levelfield.metric(direction="higher")(_words)
    comparisons = levelfield.compare(texts, metric, draws="text")
    assert comparisons.to_dict() == levelfield.compare(seedless, metric).to_dict()
    assert comparisons.to_dict() != levelfield.compare(texts, metric).to_dict()
    scored = levelfield.score(texts, metric)
    by_scores = levelfield.compare(texts, scores=scored.scores, draws="text")
    assert by_scores.to_dict() == comparisons.to_dict()

"""The table of systems × metrics: what is best, who is alike, and its forms."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.comparison import Comparison
from levelfield.scoring.result_table import ResultCell, result_table
from levelfield.scoring.run_table import RunTable
from levelfield.scoring.standing import Scale, scale_for, standings
from levelfield.scoring.summary import GroupSummary, adjusted, summarise, summarise_corpus
from levelfield.stats.estimate import estimate_of_mean

NAN = float("nan")


def summaries_of(columns, systems, *, inputs=12, compare=True):
    """Metrics (name -> values of each system) of systems that answer the same prompts."""
    samples = [
        Sample(id=f"{s}-{i}", text="x", prompt=f"p{i}", system=s)
        for s in systems
        for i in range(inputs)
    ]
    tally = RunTable()
    for sample in samples:
        tally.add([sample], [sample.system])
    for metric, values in columns.items():
        array = np.concatenate([np.broadcast_to(v, inputs) for v in values]).astype(float)
        tally.add_scores(
            Scores(
                metric=metric,
                ids=tuple(s.id for s in samples),
                values=array,
                undefined={
                    s.id: "empty text" for s, v in zip(samples, array, strict=True) if v != v
                },
                signature=f"{metric}|k:a_b`c|v:1",
                direction="lower" if "perplexity" in metric else "higher",
            )
        )
    return summarise(tally, compare=compare)


def table_of(columns, systems, **more):
    summaries = summaries_of(columns, systems, **more)
    return result_table(
        summaries, by="system", n=12 * len(systems), compares=more.get("compare", True)
    )


NOISE = np.sin(np.arange(12.0))


def marks(table, column=0):
    return {name: (c.letters, c.best) for name, c in table.columns[column].cells.items()}


def test_best_is_what_is_shown_better_than_every_other_in_either_direction():
    columns = {
        "f.up": [NOISE, NOISE[::-1], NOISE + 9],
        "f.perplexity": [NOISE, NOISE[::-1], NOISE + 9],
    }
    table = table_of(columns, "xyz")
    assert marks(table) == {"x": ("b", False), "y": ("b", False), "z": ("a", True)}
    assert marks(table, 1) == {"x": ("a", False), "y": ("a", False), "z": ("b", False)}


def test_equal_systems_share_rank_and_letter_and_none_is_best():
    table = table_of({"m": [NOISE, NOISE]}, "xy")
    assert [(c.standing.rank, c.letters, c.best) for c in table.columns[0].ranking] == [
        (1, "a", False),
        (1, "a", False),
    ]


def test_a_system_without_values_has_no_place_and_takes_no_mark_from_the_others():
    table = table_of({"m": [NOISE, NOISE + 9, NAN]}, "xyz")
    assert marks(table) == {"x": ("b", False), "y": ("a", True), "z": ("", False)}
    assert table.columns[0].cells["z"].mean == "–"
    assert "– no value" in table.legend()
    assert "m: undefined: empty text: 12 (z\u00a012)" in table.notes()


def test_a_withheld_verdict_counts_as_not_shown():
    lacking = np.where(np.arange(12) < 6, NAN, NOISE + 1)
    table = table_of({"m": [NOISE, lacking]}, "xy")
    assert marks(table) == {"x": ("a", False), "y": ("a", False)}
    said = "1 of 1 verdicts withheld: values undefined for one system alone could turn them"
    [note] = [note for note in table.notes() if note.startswith(said)]
    assert "x − y: the difference is shown unless those of y average below −0.0102" in note


@given(st.data())
@settings(max_examples=30)
def test_letters_are_the_verdicts_whatever_they_are(data):
    names = [f"s{i}" for i in range(data.draw(st.integers(2, 6)))]
    means = {n: data.draw(st.sampled_from([0.1, 0.2, 0.3, NAN])) for n in names}
    comparisons = [
        Comparison(
            a=a, b=b, inputs=9, left_out=0, clusters=9, low=NAN, high=NAN, effect=NAN, note="",
            difference=data.draw(st.sampled_from([-1, 1])),
            p=0.01, p_adjusted=data.draw(st.sampled_from([0.01, 0.9, NAN])),
        )
        for a, b in itertools.combinations(names, 2)
    ]  # fmt: skip
    of_systems = standings(means, comparisons, direction="higher", rounded=lambda v: round(v, 1))
    assert set(of_systems) == {n for n, mean in means.items() if mean == mean}
    for c in comparisons:
        if {c.a, c.b} <= set(of_systems) and any(s.letters for s in of_systems.values()):
            alike = bool({*of_systems[c.a].letters} & {*of_systems[c.b].letters})
            assert alike == (not c.p_adjusted <= 0.05)
    assert sum(s.best for s in of_systems.values()) <= 1


def test_one_input_is_named_in_the_singular():
    table = table_of({"m": [NOISE[:1], NOISE[:1]]}, "xy", inputs=1)
    compared, sensitivity = table.notes()[-2:]
    assert compared.startswith("compared on 1 input; ")
    assert sensitivity.startswith("no difference of any size can be shown")


def test_labels_have_no_marks_and_a_row_of_all_texts():
    table = table_of({"m": [NOISE, NOISE + 9]}, "xy", compare=False)
    assert marks(table) == {"x": ("", False), "y": ("", False)}
    assert [name for name, _ in table.rows()] == ["x", "y", "all"]
    assert "not compared with each other" in table.notes()[-1]


def test_one_system_is_a_row_without_marks_or_words_about_others():
    table = table_of({"m": [NOISE]}, "x")
    assert marks(table) == {"x": ("", False)}
    assert table.legend() == ["± half the 95 % interval"]
    assert (table.notes(), table.letters_legend()) == ([], "")


def test_a_corpus_has_no_interval_and_a_rank_without_letters():
    scores = Scores("types", ("c1", "c2"), np.array([0.5, 0.7]), {}, "types|v:1", True)
    table = result_table(
        adjusted([summarise_corpus(scores, {"c1": "x", "c2": "y"})]), by="system", n=9
    )
    cells = table.columns[0].ranking
    assert [(c.group.group, c.mean, c.interval, c.letters) for c in cells] == [
        ("y", "0.700", "", ""),
        ("x", "0.500", "", ""),
    ]
    assert table.notes() == ["no interval, not compared: values of corpora"]
    assert table.counted == "corpora"
    assert table_of({"m": [0.1, 0.9]}, ["x", "y"]).counted == "n"


def test_a_corpus_of_all_systems_is_in_a_row_of_its_own():
    scores = Scores("types", ("all texts",), np.array([0.5]), {}, "types|v:1", True)
    table = result_table([summarise_corpus(scores, {})], by="system", n=9)
    assert [(name, cell.mean) for name, (cell,) in table.rows()] == [("all", "0.500")]


def test_no_shared_inputs_are_said_once_under_the_table():
    summaries = summaries_of({"m": [NOISE, NOISE], "o": [NOISE, NOISE]}, "xy")
    nowhere = [
        type(s)(**{**vars(s), "comparisons": tuple(
            type(c)(**{**vars(c), "p_adjusted": math.nan, "note": "no shared inputs"})
            for c in s.comparisons
        )})
        for s in summaries
    ]  # fmt: skip
    table = result_table(nowhere, by="system", n=24)
    assert table.notes() == ["not compared: no shared inputs"]
    assert marks(table) == {"x": ("", False), "y": ("", False)}


@pytest.mark.parametrize(
    ("means", "half_widths", "places"),
    [
        ([0.31, 0.17], [0.034, 0.011], 3),
        ([1523.4], [61.0], 0),
        ([1523.4, 12.1], [300.0, 0.42], 1),
        ([15000.0, 12.1], [300.0, 0.042], 2),
        ([0.5], [], 3),
        ([0.0], [0.0], 3),
        ([], [], 3),
    ],
)
def test_decimals_follow_the_intervals_and_not_the_unit(means, half_widths, places):
    assert scale_for(means, [w for w in half_widths if w]).places == places


def test_n_is_what_the_means_rest_on():
    few = np.where(np.arange(12) < 5, NOISE, NAN)
    table = table_of({"m": [few, NOISE]}, "xy")
    assert [row[1] for row in table.drawn().rows] == ["5", "12"]
    assert table.caption == "means over 17 of 24 texts"
    for form in (table.to_markdown(), table.to_latex()):
        assert "Means over 17 of 24 texts" in form
    both = table_of({"m": [few, NOISE], "k": [NOISE, NOISE]}, "xy")
    assert [row[1] for row in both.drawn().rows] == ["5–12", "12"]
    assert both.caption == "means over 17 to 24 of 24 texts"
    one_metric_has_none = table_of({"m": [NAN, NAN], "k": [NOISE, NOISE]}, "xy")
    assert one_metric_has_none.caption == "means over 24 texts"
    assert table_of({"m": [NAN]}, "x").caption == "means over 0 of 12 texts"


def test_latex_marks_the_best_and_the_letters_and_keeps_signatures_whole():
    text = table_of(
        {"f.up": [NOISE, NOISE + 9], "f.perplexity": [NOISE, NAN]}, ["a_b", "y"]
    ).to_latex()
    assert text.startswith("% f.up|k:a_b`c|v:1|n:24 undefined:0 truncated:0\n% f.perplexity|")
    assert r" &  & \multicolumn{2}{c}{f} \\" in text
    assert re.search(r"^a\\_b & .*\\textsuperscript\{b\} & ", text, re.MULTILINE)
    assert re.search(
        r"^y & 12 & \\textbf\{[\d.]+\} \$\\pm\$ .*\\textsuperscript\{a\} & --", text, re.MULTILINE
    )
    assert "±" not in text
    assert "\n% f.perplexity: undefined: empty text: 12 (y 12)\n" in text.replace("\u00a0", " ")


def test_no_name_or_number_of_a_latex_table_is_taken_for_a_command():
    columns = {"f.up": [NOISE * 1e-9, (NOISE + 9) * 1e-9, NOISE * 1e-9, NOISE * 1e-9]}
    text = table_of(columns, ["[bold]", "*a", "50 % & $x_1$", "{\\b}^#~"]).to_latex()
    rows = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0].splitlines()
    assert all(re.match(r"[^\[*]", row) and row.count(" & ") == 2 for row in rows)  # \\[2ex], \\*
    assert any(row.startswith("{[}bold]") for row in rows)
    assert text.isascii()


def test_systems_stand_in_the_order_of_the_numbers_in_their_names():
    lacking = np.where(np.arange(12) < 1, NAN, NOISE)
    table = table_of({"m": [lacking, lacking, NOISE, NOISE]}, ["m-10", "m-9", "m-9-b", "m"])
    assert table.groups == ("m", "m-9", "m-9-b", "m-10")
    assert "m: undefined: empty text: 2 (m-9\u00a01, m-10\u00a01)" in table.notes()
    equal = table_of({"m": [NOISE] * 4}, ["m-10", "m-9", "m-9-b", "m"])
    assert [cell.group.group for cell in equal.columns[0].ranking] == list(equal.groups)


def test_markdown_marks_the_best_and_keeps_signatures_whole():
    text = table_of({"f.up": [NOISE, NOISE + 9]}, ["a_b|c", "y"]).to_markdown()
    head, rule, *rows = text.splitlines()
    assert (head, rule) == ("| system | n | f.up ↑ |", "| :-- | --: | --: |")
    assert rows[0].startswith(r"| a\_b\|c | ")
    assert re.fullmatch(r"\| y \| 12 \| \*\*[\d.]+\*\* ± [\d.]+ <sup>a</sup> \|", rows[1])
    assert text.endswith("```\nf.up|k:a_b`c|v:1|n:24 undefined:0 truncated:0\n```\n")


def test_polars_and_json_have_a_row_a_group_and_metric():
    table = table_of({"f.up": [NOISE, NOISE + 9]}, "xy")
    assert table.to_polars().select("group", "rank", "letters", "best").rows() == [
        ("x", 2, "b", False),
        ("y", 1, "a", True),
    ]
    (column,) = table.to_dict()["columns"]
    assert [cell["letters"] for cell in column["cells"]] == [["b"], ["a"]]


@pytest.mark.parametrize(
    ("low", "high", "written"),
    [(0.94, 1.0, "[0.940, 1.000]"), (0.96, 1.04, "± 0.040"), (NAN, NAN, "")],
)
def test_a_mean_off_the_centre_of_its_interval_stands_with_both_ends(low, high, written):
    mean = estimate_of_mean(1.0, low, high, n=50, clusters=50)
    cell = ResultCell(GroupSummary("x", 50, 0, mean), None, Scale(3, scientific=False))
    assert cell.interval == written

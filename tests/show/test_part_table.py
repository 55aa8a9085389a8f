"""The table of the means of parts on the page of a run."""

from __future__ import annotations

import re

import pytest
from made_up import METRICS, report_of, run

from levelfield.scoring.run_table import PartMean
from levelfield.show import render
from levelfield.show.page import part_table

PARTS = tuple(
    PartMean(system, part, mean, weight, 10)
    for system, first in (("plain", -2.0), ("reranked", 1.0), ("steered-by-classifier", 0.5))
    for part, mean, weight in (("embedding", first, 0.5), ("log-p", first / 4, 0.5))
)


def shown(**more):
    return report_of(run(), parts={METRICS[0]: PARTS}, **more)


def test_the_table_has_a_row_a_group_and_a_column_a_part_with_its_weight():
    page = shown()
    table = part_table(page.summaries[0], PARTS)
    assert dict(table.columns) == {"embedding": "0.50", "log-p": "0.50"}
    assert {row.group for row in table.rows} == {mean.group for mean in PARTS}
    means = [row.mean for row in table.rows]
    assert means == sorted(means, reverse=True)


def test_weights_that_differ_between_groups_are_a_range():
    more = (*PARTS, PartMean("plain", "judge", 0.1, 0.2, 5), PartMean("x", "judge", 0.1, 0.4, 5))
    assert part_table(shown().summaries[0], more).columns["judge"] == "0.20 to 0.40"


def test_the_longest_bar_is_the_mean_farthest_from_0():
    table = part_table(shown().summaries[0], PARTS)
    farthest = max([2.0, *(abs(row.mean) for row in table.rows)])
    assert table.reach(-farthest) == 100
    assert table.reach(farthest / 4) == 25


def test_a_page_shows_the_parts_of_the_metrics_that_have_them():
    html = render(shown())
    (section,) = re.findall(r"<h3>Parts of the means</h3>.*?</table>", html, re.DOTALL)
    assert "log-p" in section
    assert '<i class="down"' in section
    assert '<i class="up"' in section
    assert html.count('class="part-means"') == 1


@pytest.mark.parametrize("parts", [{}, {"other": PARTS}])
def test_a_page_without_such_metrics_has_no_such_table(parts):
    assert "Parts of the means" not in render(report_of(run(), parts=parts))

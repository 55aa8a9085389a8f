"""Texts side by side: systems in columns, inputs in rows, differences marked word by word."""

import re

import pytest
from made_up import METRICS, one, report_of, wide_report
from test_page import EVIL, Page

from levelfield.show import render, write_page
from levelfield.show.texts import LONGEST, MarkedStretch, difference, side_by_side

TEXTS = [
    "",
    "a b",
    "a  b\n",
    "The soup was bad.",
    "汤很咸。",
    "汤很好，谢谢。",
    "שלום עולם",
    "ซุปเย็น",
    "👍🏽 ok",
]
SYSTEMS = ("one", "two", "three")


def table(shown, systems=SYSTEMS):
    return side_by_side([shown], systems, {METRICS[0]: "{:.2f}".format})


def marked(stretches):
    return [(s.mark, s.text) for s in stretches if s.mark]


@pytest.mark.parametrize("new", TEXTS)
@pytest.mark.parametrize("old", TEXTS)
def test_a_difference_holds_the_words_of_both_texts(old, new):
    stretches = difference(old, new)
    for text, other in ((old, "ins"), (new, "del")):
        words = "".join(s.text for s in stretches if s.mark != other)
        assert words.split() == text.split() or "".join(words.split()) == "".join(text.split())


def test_words_are_marked_and_not_the_blanks_around_them():
    said = difference("The soup was cold and bad.", "The soup was hot and good.")
    assert marked(said) == [("del", "cold"), ("ins", "hot"), ("del", "bad"), ("ins", "good")]
    assert difference("same words", "same  words") == (MarkedStretch("same  words", ""),)


def test_a_script_without_blanks_differs_character_by_character():
    assert marked(difference("汤很咸。", "汤很好。")) == [("del", "咸"), ("ins", "好")]


def test_the_source_is_what_differs_is_measured_against():
    shown = [
        one("1", "The soup was hot.", "one", prompt="", source="The soup was cold."),
        one("2", "What an evening!", "two", prompt="", source="The soup was cold."),
        one("3", " ", "three", prompt="", source="The soup was cold."),
    ]
    (row,) = table(shown).rows
    [[first], [second], [third]] = row.texts
    assert marked(first.stretches) == [("del", "cold"), ("ins", "hot")]
    assert not second.marked  # it shares no words: all of both would be marked
    assert second.stretches == (MarkedStretch("What an evening!", ""),)
    assert third.stretches == ()


def test_without_a_source_the_first_text_of_the_row_is_it():
    words = ("open", "open", "shut")
    shown = [one(str(i), f"The old cinema is {words[i]} today.", s) for i, s in enumerate(SYSTEMS)]
    (row,) = table(shown).rows
    [[first], [second], [third]] = row.texts
    assert first.lead
    assert first.stretches == (MarkedStretch("is open today.", ""),)
    assert second.stretches == first.stretches
    assert marked(third.stretches) == [("del", "open"), ("ins", "shut")]


def test_long_texts_are_cut_and_say_so():
    shown = [one(s, "The old cinema" + " is closed" * 900, s) for s in SYSTEMS]
    (row,) = table(shown).rows
    for (text,) in row.texts:
        assert text.cut
        assert sum(len(s.text) for s in text.stretches) <= LONGEST


def test_one_system_without_sources_has_nothing_beside_it():
    assert table([one()], ("plain",)) is None
    assert table([one(source="The new cinema")], ("plain",)) is not None
    assert side_by_side([], SYSTEMS, {}) is None


def test_texts_that_share_no_input_have_nothing_beside_them():
    apart = [[one("1", system="one")], [one("2", system="two")]]
    assert side_by_side(apart, SYSTEMS, {}) is None
    shared = [*apart, [one("3", system="one"), one("4", system="two")]]
    assert side_by_side(shared, SYSTEMS, {}) is not None


def test_a_system_without_any_of_these_texts_has_no_column():
    both = table([one("1", system="one", group="one"), one("2", system="three", group="three")])
    assert both.systems == ("one", "three")
    assert [len(texts) for row in both.rows for texts in row.texts] == [1, 1]


@pytest.fixture(scope="module")
def wide():
    """A page with many long texts, and its HTML."""
    report = wide_report(systems=16, metrics=7, length=25, parts=72)
    return report, render(report)


@pytest.mark.slow
def test_all_systems_texts_of_one_input_are_in_one_row_with_their_values(wide):
    report, html = wide
    side = html[html.index('class="side"') :]
    side = side[: side.index("</table>")]
    rows = re.findall(r'<tr role="row">\s*<th scope="row".*?</tr>', side, flags=re.DOTALL)
    assert len(rows) == len(report.inputs) == 12
    for row in rows:
        assert row.count("<td ") == row.count("<p lang") == 16
        assert row.count("<dt>family") == 16 * 7
        assert len(set(re.findall(r"seen (\d+) times", row))) == 1
    for number in re.findall(r'href="#sample-(\d+)"', side):
        assert f'id="sample-{number}"' in html


def test_what_texts_hold_is_escaped_and_an_undefined_value_says_why():
    shown = [one(s, f"{EVIL} {i}", s, prompt="", source=EVIL, values={}, control={EVIL: EVIL},
                 undefined={METRICS[0]: EVIL}) for i, s in enumerate((EVIL, EVIL * 2))]  # fmt: skip
    report = report_of(shown, METRICS[:1], inputs=[shown])
    html = render(report)
    side = html[html.index('class="side"') :]
    side = side[: side.index("</table>")]
    assert "<script>" not in side
    assert side.count("undefined</dd>") == 2
    assert side.count("<ins>") == 2
    Page(html)


@pytest.mark.slow
def test_the_page_stays_small_with_many_long_texts_and_parts(wide):
    _, html = wide
    assert len(html.encode()) < 3.2e6


@pytest.fixture(scope="module")
def wide_page(tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "page.html"
    write_page(file, wide_report(metrics=2, prompts=12))
    return file.as_uri()


@pytest.mark.thinned
@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 1200, 1900])
def test_columns_scroll_in_a_frame_of_their_own_or_stand_as_cards(chromium, wide_page, width):
    with chromium.new_context(viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        page.goto(wide_page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        frame = page.locator(".side-frame")
        overflow = frame.evaluate("f => f.scrollWidth - f.clientWidth")
        if width == 360:
            assert overflow <= 0
            assert page.locator(".side .of").first.is_visible()
        else:
            assert overflow > 0
            frame.evaluate("f => { f.scrollLeft = 900; f.scrollTop = 300; }")
            corner = page.locator(".side thead th").first.bounding_box()
            outer = frame.bounding_box()
            assert abs(corner["x"] - outer["x"]) < 2
            assert abs(corner["y"] - outer["y"]) < 2
        page.evaluate("document.querySelector('.marks').click()")
        assert page.locator(".side del").count() == page.locator(".side del:not(:visible)").count()

"""The page as a file: well formed, self-contained, escaped, complete."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from made_up import METRICS, one, report_of, run

import levelfield
from levelfield.show import ScorePage, ValuePart, render, score_page, write_page
from levelfield.show.rows import FEW_PARTS, rows, score_axes

VOID = {"meta", "br", "wbr", "input", "col", "link", "img"}
EVIL = "<script>alert('x')</script>\"'&{{ 7 * 7 }}"


class Page(HTMLParser):
    """Checks that elements close in order; collects attributes and visible text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.attributes, self.text, self.tags = [], [], "", []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *a) for a in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def html():
    return render(report_of(run(), files=("a.jsonl",), command="levelfield score a.jsonl"))


def test_elements_nest_and_identifiers_are_unique(html):
    page = Page(html)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    anchors = [v for tag, name, v in page.attributes if tag == "a" and name == "href"]
    assert anchors
    assert {a[1:] for a in anchors} <= set(ids)


def test_nothing_is_loaded_from_anywhere(html):
    page = Page(html)
    loading = ("src", "href", "xlink:href", "srcset", "data", "action", "poster")
    assert all(v.startswith("#") for _, name, v in page.attributes if name in loading)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))
    assert "@import" not in html
    assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert ("meta", "http-equiv", "Content-Security-Policy") in page.attributes


def test_every_text_of_the_report_is_escaped():
    shown = [
        one(
            id=EVIL + str(i),
            text=EVIL + " rest",
            group=EVIL + str(i),
            prompt=EVIL,
            source=EVIL,
            references=(EVIL,),
            context=(EVIL,),
            dataset=EVIL,
            control={EVIL: (EVIL, EVIL)},
            values={METRICS[0]: 0.5 + i},
            parts={METRICS[0]: [ValuePart(EVIL, 0.5, 1.0)]},
        )
        for i in range(2)
    ]
    shown.append(one("u", values={}, undefined={METRICS[0]: EVIL}))
    html = render(
        report_of(
            shown, METRICS[:1], title=EVIL, created=EVIL, command=EVIL, files=(EVIL,),
            grouped_by="system", shown_how=EVIL,
        )
    )  # fmt: skip
    assert "<script>alert" not in html
    assert Page(html).tags.count("script") == 2
    assert EVIL + " rest" in Page(html).text


def test_every_undefined_reason_is_there_with_its_count():
    shown = [
        one(str(i), values={}, undefined={METRICS[0]: reason})
        for i, reason in enumerate(["empty text", "one sentence only", "one sentence only"])
    ]
    html = render(report_of([*shown, one("ok")], METRICS[:1]))
    table = html[html.index('id="undefined-values"') :]
    for reason, n in (("one sentence only", 2), ("empty text", 1)):
        assert re.search(rf'<td>{reason}</td><td class="num">{n}</td>', table)
    assert html.count(">undefined</span>") == 3
    assert table.index("one sentence only") < table.index("empty text")


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [one()],
        [one(values={METRICS[0]: math.nan}, undefined={METRICS[0]: "empty text"}, text="")],
        [one(str(i), group=f"s{i % 2}", prompt=f"P{i % 3}") for i in range(6)],
        [one(parts={METRICS[0]: [ValuePart("a", math.nan, 0.0), ValuePart("b", math.inf, 0.0)]})],
        [one(parts={METRICS[0]: [ValuePart(str(i), -i, 0.0) for i in range(40)]})],
        [one(parts={METRICS[0]: []}, group="", control={"keywords": ("rain", "tea")})],
        [one(text=" " * 1000), one("2", text="x" * 1000), one("3", text="\n\nlines\n")],
        [one(values={METRICS[0]: 0.0}), one("2", values={METRICS[0]: 1e12})],
    ],
    ids=["none", "one", "undefined", "systems", "odd parts", "no weights", "bare", "texts", "huge"],
)
def test_small_and_odd_runs_have_a_page(shown):
    text = Page(render(report_of(shown, METRICS[:1]))).text
    assert "nan" not in text.lower().split()
    assert "None" not in text.replace("None: every metric", "")


def test_a_run_without_metrics_has_a_page():
    report = ScorePage(title="Nothing", created="today", n=0, summaries=[], samples=[])
    assert "No metric was requested" in Page(render(report)).text


def test_emoji_and_right_to_left_texts_are_left_to_their_own_direction():
    shown = [one(text="בית הקולנוע הישן סגור.", prompt="בית", id="🎬", group="نظام")]
    html = render(report_of(shown, METRICS[:1]))
    assert '<span lang="" dir="auto"><b>בית</b> הקולנוע הישן סגור.</span>' in html
    assert "🎬" in html


def test_a_long_text_is_clamped_in_its_row_and_whole_in_its_expansion():
    text = "The old cinema " + "is closed and " * 3500 + "that is the end."
    html = render(report_of([one(text=text)], METRICS[:1]))
    table = html[html.index('<table class="samples"') :]
    summary = table[table.index("<summary>") : table.index("</summary>")]
    assert len(summary) < 500
    assert "<b>The old cinema</b>" in summary
    whole = html[html.index('class="whole"') : html.index("</p>", html.index('class="whole"'))]
    assert whole.endswith("that is the end.")


def test_the_prompt_is_bold_only_where_the_text_continues_it():
    (continued,) = rows([one()])
    assert (continued.prompt, continued.text) == ("The old cinema", " is closed. It rains.")
    (other,) = rows([one(text="It rains.")])
    assert other.prompt == ""
    assert ("prompt, not a prefix of the text", "The old cinema") in other.fields


def test_few_parts_keep_their_order_and_the_one_that_pulls_down_most_is_marked():
    parts = [
        ValuePart("first", -1.0, 0.2),
        ValuePart("second", -3.0, 0.1),
        ValuePart("third", -2.0, 0.7),
    ]
    (row,) = rows([one(parts={METRICS[0]: parts})])
    (breakdown,) = row.breakdowns
    assert [p.part for p in breakdown.listed] == ["first", "second", "third"]
    assert breakdown.value == pytest.approx(-1.9)
    # weight × (score − value): 0.18, −0.11, −0.07
    assert breakdown.lowest is breakdown.listed[1]
    html = render(report_of([one(parts={METRICS[0]: parts})], METRICS[:1]))
    assert html.count("lowers the value most") == 1


def test_equal_parts_have_none_that_pulls_down():
    (row,) = rows([one(parts={METRICS[0]: [ValuePart(str(i), -1.0, 0.25) for i in range(4)]})])
    assert row.breakdowns[0].lowest is None


def test_of_many_parts_those_that_pull_farthest_are_named():
    parts = [ValuePart(f"prompt {i}", 0.8, 1 / 72) for i in range(72)]
    parts[40] = ValuePart("prompt 40", 0.1, 1 / 72)
    (row,) = rows([one(parts={METRICS[0]: parts})])
    (breakdown,) = row.breakdowns
    assert breakdown.many
    assert breakdown.listed[0].part == "prompt 40"
    assert len(breakdown.listed) < FEW_PARTS
    html = render(report_of([one(parts={METRICS[0]: parts})], METRICS[:1]))
    assert html.partition('class="dots" d="')[2].partition('"')[0].count("M") == 72


def test_parts_that_are_the_text_itself_colour_it():
    text = "one <b>bee</b>, two bees and then a great many more of them all at once there"
    words = [" " * (i > 0) + word for i, word in enumerate(text.split(" "))]
    parts = [
        ValuePart(f"{i}: {w}", (-1) ** i * i / 4, 1 / len(words)) for i, w in enumerate(words, 1)
    ]
    sample = one(text=text, parts={METRICS[0]: parts})
    (row,) = rows([sample])
    assert "".join(piece.text for piece in row.breakdowns[0].pieces) == text
    html = render(report_of([sample], METRICS[:1]))
    assert 'r="2.6"' not in html
    assert html.count('<span class="up"') + html.count('<span class="down"') == len(words)
    assert 'title="−0.25">one</span>' in html
    assert "<b>bee" not in html
    # blanks that no part holds stand between the pieces all the same, and after a prompt
    bare = [part._replace(part=part.part.replace(": ", ":").replace(" ", "").replace(":", ": "))
            for part in parts]  # fmt: skip
    more = one(text=f"Well, {text}", prompt="Well,", parts={METRICS[0]: bare})
    (row,) = rows([more])
    assert "".join(piece.text for piece in row.breakdowns[0].pieces) == f" {text}"
    above = [part._replace(score=abs(part.score)) for part in parts]
    (row,) = rows([one(text=text, parts={METRICS[0]: above})])
    assert row.breakdowns[0].pieces == ()
    others = [part._replace(part=part.part.replace("bee", "wasp")) for part in parts]
    (row,) = rows([one(text=text, parts={METRICS[0]: others})])
    assert row.breakdowns[0].pieces == ()


def test_a_long_part_is_cut():
    (row,) = rows([one(parts={METRICS[0]: [ValuePart("very " * 1000, 0.5, 1.0)]})])
    assert len(row.breakdowns[0].parts[0].part) <= 300


def test_scores_between_0_and_1_are_drawn_on_0_to_1():
    probability = one(parts={"a": [ValuePart("p", 0.2, 0.5), ValuePart("q", 0.9, 0.5)]})
    logs = one(parts={"b": [ValuePart("p", -4.0, 0.5), ValuePart("q", -2.0, 0.5)]})
    axes = score_axes([probability, logs])
    assert axes["a"].place(0.5) == 50
    assert (axes["b"].place(-4.0), axes["b"].place(-2.5)) == (0, 75)


def test_a_large_run_says_which_samples_are_shown():
    shown = run()
    full = report_of(shown)
    part = ScorePage(
        title="t",
        created="c",
        n=full.n,
        summaries=full.summaries,
        samples=shown[:7],
        shown_how="the first 7",
    )
    text = " ".join(Page(render(part)).text.split())
    assert "7 of 60 samples: the first 7. The means and comparisons above use all of them." in text


def test_signatures_and_methods_are_there(html):
    text = " ".join(Page(html).text.split())
    for metric in METRICS:
        assert f"{metric}|model:offline/minilm|weights:nisf|dtype:float32|v:0.1.0|n:60" in text
    assert "95 % t intervals from sums over clusters" in text
    assert "over the comparisons of a metric" in text
    assert re.search(r"the fewest here are \d+\.", text)


def test_what_a_reader_must_know_of_the_values_is_at_the_top_and_escaped():
    told = "control.majority: the judges are divided on 18 % of the texts <b>"
    page = render(replace(report_of([one()], METRICS[:1]), notes=(told,)))
    assert "divided on 18 % of the texts &lt;b&gt;." in page[: page.index("<main>")]


def test_the_page_is_written_whole(tmp_path):
    write_page(tmp_path / "page.html", report_of([one()], METRICS[:1]))
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert (tmp_path / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_lone_surrogate_does_not_stop_the_page(tmp_path):
    write_page(tmp_path / "page.html", report_of([one(text="half \ud83d here")], METRICS[:1]))


def test_equal_reports_give_equal_pages(html):
    again = render(report_of(run(), files=("a.jsonl",), command="levelfield score a.jsonl"))
    assert again == html


def test_the_results_come_first_with_the_best_marked_and_the_letters_explained():
    html = render(report_of(run()))
    table = html[html.index('id="results"') : html.index('id="short"')]
    assert "ctrleval.<wbr>" not in table.partition("<tbody>")[0]  # the family stands above
    assert "<sup>a</sup>" in table
    assert "systems that share a letter are not shown to differ" in table.lower()


def scored():
    """A run with a metric of samples and one of corpora."""
    texts = [
        {"text": f"{system} is here {i}", "prompt": f"p{i}", "system": system}
        for system in ("x", "y")
        for i in range(3)
    ]
    metrics = ["diversity.distinct-1", "style.degenerate"]
    source = [{**text, "source": "s"} for text in texts]
    return levelfield.score(source, metrics, cache=False)


def test_a_metric_of_corpora_is_no_column_beside_texts():
    html = render(score_page(scored()))
    results, _, samples = html.partition('<table class="samples"')
    assert "distinct-1" in results
    head = samples[: samples.index("<tbody")]
    assert "degenerate" in head
    assert "distinct" not in head
    assert ">undefined</span>" not in html


@pytest.mark.parametrize(
    ("files", "task", "title"),
    [
        ((), "", "levelfield: 2 metrics of 2 systems"),
        (("a/b/texts.jsonl",), "", "levelfield: texts.jsonl"),
        (("b.jsonl", "c.jsonl"), "style-transfer", "levelfield: b.jsonl, c.jsonl, style-transfer"),
        (("1", "2", "3", "4"), "", "levelfield: 2 metrics of 2 systems"),
        (("-",), "style-transfer", "levelfield: style-transfer"),
    ],
)
def test_the_title_is_the_files_or_the_task_or_how_much_there_is(files, task, title):
    result = replace(scored(), files=files, task=task)
    assert score_page(result).title == title

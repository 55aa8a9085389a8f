"""Every fault of the list is found, and studies without a fault are left alone."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import pytest
from faults import (
    FAULTS,
    FAULTY,
    STUDY,
    one_cell,
    rest,
    shifted,
    texts,
    told,
    whole_sentences,
    with_votes,
    written,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, fisher_exact
from varied_study import varied_cells

from levelfield.core.sample import Sample
from levelfield.core.scores import EMPTY
from levelfield.study.audit import audit
from levelfield.study.audit.copies import copied_texts
from levelfield.study.audit.findings import AuditedStudy, p_of_fewer, p_of_more, p_of_shares
from levelfield.study.audit.prompts import shifted_texts
from levelfield.study.audit.wording import wrong_encoding
from levelfield.study.cells import Cell, CellKey, GroupValue, Rate
from levelfield_reproductions.study_layout import published_cells


@pytest.fixture(scope="module")
def clean() -> list[Cell]:
    return varied_cells(5, STUDY)


def test_the_study_that_faults_are_put_into_has_none(clean):
    assert audit(clean) == []


def thinned(values, every):
    """Returns all values; without `make test-all` only one in `every` runs."""
    return [
        value if n % every == 0 else pytest.param(value, marks=pytest.mark.slow)
        for n, value in enumerate(values)
    ]


@pytest.mark.thinned
@pytest.mark.parametrize("name", thinned(FAULTS, every=8))
def test_the_fault_is_named_with_its_system_and_seed(name, clean):
    fault = FAULTS[name]
    findings = audit(fault.spoil(clean))
    assert told(findings, fault)
    places = {(f.system, f.seed) for f in findings if f.check in fault.checks}
    if name.startswith("one system"):
        assert places == {(FAULTY, None)}
    if name.startswith("one seed"):
        assert places == {(FAULTY, 2)}


@pytest.mark.parametrize("seed", thinned(range(8), every=3))
def test_studies_that_differ_in_all_that_may_differ_have_no_finding(seed):
    counts = Counter(f.check for f in audit(varied_cells(seed)))
    # that texts end at their budget is told of every study where they do
    assert counts.keys() <= {"cut-text"}


def test_texts_of_training_data_are_found_where_the_data_are_known(clean):
    texts = [s.text for c in clean if c.key.system == FAULTY for s in c.samples]
    findings = [f for f in audit(clean, training=texts[:200]) if f.check == "copied-texts"]
    assert [(f.system, f.n, f.of, f.severity) for f in findings] == [(FAULTY, 200, 240, "serious")]
    assert audit(clean, training=["The lake froze over in the cold night of a hard winter."]) == []


@pytest.mark.parametrize("seed", thinned([5, 6, 7, 8], every=4))
def test_whole_sentences_of_one_system_are_found_where_others_end_at_a_budget(seed):
    cells = varied_cells(seed, replace(STUDY, cut=True))
    checks = checks_of(written(whole_sentences)(cells), "style-differs")
    assert checks == [("warning", FAULTY, "", None)]


@pytest.mark.slow
def test_training_data_are_read_once_and_only_what_texts_hold_is_kept(clean):
    texts = [s.text for c in clean if c.key.system == FAULTY for s in c.samples][:200]
    lines = (" ".join(f"w{n}x{k}" for k in range(100)) for n in range(2000))
    tracemalloc.start()
    faults = copied_texts(AuditedStudy(tuple(clean), training=chain(lines, texts)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [(f.system, f.n) for f in faults] == [(FAULTY, 200)]
    assert peak < 2e7  # the runs of the lines alone would take twice as much


def test_shifts_of_many_keywords_take_no_memory_of_texts_times_keywords():
    samples = tuple(
        Sample(
            id=str(n),
            text=f"P{n} q w{n + 2} and x{n + 2}.",
            prompt=f"P{n} q",
            control={"keywords": (f"w{n}", f"x{n}")},
        )
        for n in range(2000)
    )
    tracemalloc.start()
    faults = shifted_texts(AuditedStudy((Cell(CellKey("s", "d", "keywords", 1), samples),)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [f.severity for f in faults] == ["serious"]
    assert "2 places later" in faults[0].what
    assert peak < 3e7  # similarities of all pairs would take 32 MB


def test_published_values_that_two_systems_share_are_found():
    rates = tuple(Rate(j, v, 50 + n) for n, j in enumerate("ab") for v in ("positive", "negative"))
    groups = tuple(GroupValue("fluency.slor", v, 3.123456789 + n, 50) for n, v in enumerate("abc"))
    cells = [Cell(CellKey(s, "d", "sentiment", 1), rates=rates, groups=groups) for s in "xy"]
    assert [f.what for f in audit(cells) if f.check == "identical-systems"] == [
        "published values of x and y agree in all digits"
    ]
    apart = [cells[0], replace(cells[1], groups=groups[:2])]
    assert "identical-systems" not in {f.check for f in audit(apart)}


def test_two_judges_with_the_same_rates_in_all_cells_are_one():
    def cell(n: int, other: float) -> Cell:
        rates = {"elm": 60 + n, "fir": 60 + n + other, "oak": 70 + n}
        return Cell(
            CellKey("s", f"d{n}", "sentiment", 1),
            asked=100,
            rates=tuple(Rate(j, v, r) for j, r in rates.items() for v in ("negative", "positive")),
        )

    sentences = [
        f.what for f in audit([cell(n, 0) for n in range(8)]) if f.check == "judges-identical"
    ]
    assert sentences == ["elm and fir have the same rates in all 16 cells and values"]
    sentences = audit([cell(n, 1) for n in range(8)])
    assert "judges-identical" not in {f.check for f in sentences}


def test_a_prompt_set_that_only_one_system_was_asked_is_named(clean):
    def other(sample: Sample) -> Sample:
        prompt = f"Elsewhere {sample.prompt}"
        return replace(sample, prompt=prompt, text=f"Elsewhere {sample.text}")

    cells = [
        replace(c, samples=tuple(map(other, c.samples)))
        if c.key[:2] == (FAULTY, "set 0") and c.key.seed == 2
        else c
        for c in clean
    ]
    (finding,) = [f for f in audit(cells) if "no other system has" in f.what]
    assert (finding.system, finding.dataset, finding.seed, finding.n) == (FAULTY, "set 0", 2, 40)


def test_samples_of_one_id_are_serious(clean):
    double = replace(clean[0], samples=(*clean[0].samples[1:], clean[0].samples[1]))
    (finding,) = [f for f in audit([double, *clean[1:]]) if f.check == "requests-repeated"]
    assert (finding.severity, finding.n) == ("serious", 2)


@pytest.mark.parametrize(
    "text",
    [
        "the dogâ€™s bowl",
        "a cafÃ© in town",
        "price: Â£5",
        "РџСЂРёРІРµС‚, said she",
        "itâ\x80\x99s",
        "the dog&#39;s bowl &amp; more",
        "one<br />two",
        "one\\ntwo",
        "the dog\\u2019s bowl",
        "theĠdogĠran",
        "▁the▁dog",
        "the emb@@ edding",
        "the emb ##edding",
        "said -LRB- he -RRB-",
        "b'the dog'",
        '{"text": "the dog"}',
        "the%20dog",
        "the\x00dog",
    ],
)
def test_traces_of_storage_are_found(text):
    assert wrong_encoding(study_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "It’s — “fine”, naïve façade… à la café",
        "Der Spaß“, sagte er – „Ä“ und Ö…",
        "l’été à Paris – « oui »",
        "Привет, мир – «да»",
        "湖面结冰了。",
        "AT&T & Co; x < y and y > b; 100% of # 5",
        "👩‍👩‍👧 and 🙂",
        "C:\\Programs and \\alpha",
        "می‌خواهم",
        "Ні, дякую. Ці люди. Ті роки. Ця книга",
        "О… як тепло",
        "Ој, како је топло",
    ],
)
def test_other_languages_and_signs_are_not_traces_of_storage(text):
    assert wrong_encoding(study_of(text)) == []


def checks_of(cells: list[Cell], check: str) -> list[tuple[str, str, str, int | None]]:
    return [(f.severity, f.system, f.dataset, f.seed) for f in audit(cells) if f.check == check]


def guessing(cell: Cell) -> Cell:
    """Judges guess on most texts, which are of neither kind."""
    rng = random.Random(str(cell.key))
    neutral = {s.id: rng.random() < 0.7 for s in cell.samples}
    judges = next(iter(cell.votes.values()))
    votes = {
        judge: {i: rng.choice(LABELS) if neutral[i] else label for i, label in labels.items()}
        for judge, labels in judges.items()
    }
    return replace(cell, votes={"sentiment": votes})


@pytest.mark.thinned
@pytest.mark.parametrize("judges", [2, 3, 4])
def test_judges_may_differ_more_on_the_neutral_texts_of_a_baseline(judges):
    cells = varied_cells(5, replace(STUDY, judges=judges, prompts=30))
    assert not checks_of(one_cell(guessing, seed=None)(cells), "judge-depends")


def test_a_judge_that_is_weak_on_a_dataset_is_a_warning():
    rng = random.Random(2)

    def off(cell: Cell) -> Cell:
        return with_votes(cell, lambda v, _: v if rng.random() < 0.6 else turned(v))

    cells = varied_cells(5, replace(STUDY, prompts=60))
    cells = [off(c) if c.key.dataset == "set 1" else c for c in cells]
    assert checks_of(cells, "judge-depends") == [("warning", "", "set 1", None)]


def test_a_judge_swapped_in_one_cell_is_serious(clean):
    cells = one_cell(lambda c: with_votes(c, lambda v, _: turned(v)), dataset="set 0")(clean)
    assert checks_of(cells, "judge-depends") == [("serious", FAULTY, "set 0", 2)]


def alike(labels_of: Callable[[Sample], str], judges: str = "abc") -> Callable[[Cell], Cell]:
    def how(cell: Cell) -> Cell:
        labels = {s.id: labels_of(s) for s in cell.samples}
        return replace(cell, votes={"sentiment": dict.fromkeys(judges, labels)})

    return how


def test_judges_that_all_agree_always_are_one_warning(clean):
    rng = random.Random(1)
    easy = alike(lambda s: turned(wanted(s)) if rng.random() < 0.1 else wanted(s))
    assert checks_of([easy(c) for c in clean], "judges-identical") == [("warning", "", "", None)]


def test_votes_on_empty_texts_make_no_judges_identical(clean):
    """Two judges agree on empty texts, whoever they are."""
    rng = random.Random(1)
    cells = [alike(lambda s: EMPTY if rng.random() < 0.5 else wanted(s), "ab")(c) for c in clean]
    assert not checks_of(cells, "judges-identical")


def test_a_system_that_writes_one_kind_only_makes_no_judge_constant(clean):
    cells = [alike(lambda _: "positive")(c) for c in clean if c.key.system == FAULTY]
    assert not checks_of(cells, "judge-constant")


@pytest.mark.parametrize("signs", ["", "😀😎🎉🔥💯🙏🥳😭"])
def test_continuations_without_words_are_equal_only_if_their_signs_are(clean, signs):
    rng = random.Random(1)
    spoil = texts(lambda s: f"{s.prompt} {''.join(rng.choices(signs, k=9 if signs else 0))}")
    assert not checks_of(spoil(clean), "identical-seeds")
    if signs:
        assert checks_of(texts(lambda s: f"{s.prompt} {signs}")(clean), "identical-seeds")


def keyword_study(text: Callable[[str, Sample, random.Random], str]) -> list[Cell]:
    """Returns a study whose prompts each ask for two words of their own."""
    rng = random.Random(1)
    cells = varied_cells(5, replace(STUDY, control="keywords", prompts=30))
    keyword_cells = []
    for cell in cells:
        samples = []
        for n, s in enumerate(cell.samples):
            s = replace(s, control={"keywords": (f"lor{n}in", f"vas{n}ket")})
            samples.append(replace(s, text=text(cell.key.system, s, rng)))
        keyword_cells.append(replace(cell, samples=tuple(samples)))
    return keyword_cells


def test_a_system_may_begin_with_its_keywords():
    def text(system: str, s: Sample, rng: random.Random) -> str:
        begins = system == FAULTY and rng.random() < 0.6
        return f"{s.prompt} {s.control['keywords'][0]} {rest(s)}" if begins else s.text

    assert not checks_of(keyword_study(text), "label-in-text")


def test_a_missing_text_of_a_keyword_study_is_not_a_missing_value():
    cells = keyword_study(lambda _, s, __: s.text)
    cells = [replace(c, samples=c.samples[1:]) if c.key.system == FAULTY else c for c in cells]
    assert not checks_of(cells, "label-sets-differ")


def test_missing_prompts_of_one_system_are_not_strange_of_the_other():
    cells = varied_cells(5, replace(STUDY, systems=2))
    cells = [replace(c, samples=c.samples[4:]) if c.key.system == FAULTY else c for c in cells]
    assert not checks_of(cells, "requests-differ")


def test_seeds_of_a_single_system_may_draw_their_prompts():
    cells = [
        cell
        for seed in (1, 2, 3)
        for cell in varied_cells(seed, replace(STUDY, systems=1, seeds=3))
        if cell.key.seed == seed
    ]
    cells = [
        replace(c, samples=tuple(replace(s, extra={"input": s.prompt}) for s in c.samples))
        for c in cells
    ]
    assert not checks_of(cells, "requests-differ")


@pytest.mark.parametrize(
    ("factor", "severity"), [(100, "serious"), (0.01, "serious"), (-1, "serious"), (4.5, "warning")]
)
def test_scores_outside_of_all_others_are_serious_as_percents_or_with_another_sign(
    clean, factor, severity
):
    rng = random.Random(1)

    def how(cell: Cell) -> Cell:
        by = factor if cell.key.system == FAULTY else 1
        return replace(
            cell, scores={"my.metric": {s.id: by * rng.uniform(1, 1.4) for s in cell.samples}}
        )

    checks = checks_of(list(map(how, clean)), "scores-strange")
    assert checks == [(severity, FAULTY, "", None)]


def test_findings_on_two_systems_do_not_depend_on_their_order():
    cells = varied_cells(5, replace(STUDY, systems=2))
    lower = texts(lambda s: f"{s.prompt} {rest(s).lower()}", share=0.55)(cells)
    for order in (lower, lower[::-1]):
        assert checks_of(order, "style-differs") == [("warning", FAULTY, "", None)]
    spoilt = written(str.lower)(cells)
    for order in (spoilt, spoilt[::-1]):
        assert checks_of(order, "style-differs") == [("warning", "", "", None)]


def test_a_judge_of_two_attributes_lacks_the_votes_of_one(clean):
    def how(cell: Cell) -> Cell:
        topics = {s.id: "World" for s in cell.samples}
        sentiments = {} if cell.key.system == FAULTY else cell.votes["sentiment"]["judge 0"]
        samples = (replace(s, control={**s.control, "topic": "World"}) for s in cell.samples)
        votes = {"sentiment": {"llm": sentiments}, "topic": {"llm": topics}}
        return replace(cell, samples=tuple(samples), votes=votes)

    checks = checks_of(list(map(how, clean)), "scores-incomplete")
    assert checks == [("serious", FAULTY, "", None)]


LABELS = ("negative", "positive")


def turned(label: str) -> str:
    return LABELS[label == LABELS[0]]


def wanted(sample: Sample) -> str:
    return str(sample.control["sentiment"])


def study_of(text: str) -> AuditedStudy:
    return AuditedStudy((Cell(CellKey("s", "d", "c", 1), (Sample("1", text),)),))


@given(st.integers(1, 60), st.integers(1, 60), st.data())
def test_exact_tests_are_those_of_scipy(n, m, data):
    a, b = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    less, greater = (
        fisher_exact([[a, n - a], [b, m - b]], alternative=side).pvalue
        for side in ("less", "greater")
    )
    assert p_of_shares(a, n, b, m) == pytest.approx(min(1, 2 * min(less, greater)))
    p = (b + 1) / (m + 2)
    assert p_of_more(a, n, p) == pytest.approx(binom.sf(a - 1, n, p))
    assert p_of_fewer(a, n, p) == pytest.approx(binom.cdf(a, n, p))


@pytest.mark.slow
def test_shifts_and_lost_case_are_found_in_published_texts(rated_data):
    if not (rated_data / "lpf" / "results").is_dir():
        pytest.skip("the published texts of the level-playing-field study are not there")
    cells = [
        replace(c, rates=(), groups=())
        for c in published_cells(rated_data / "lpf" / "results" / "sentiment")
        if c.key.dataset == "pplm_prompts" and c.samples
    ]
    cells = [
        replace(c, key=c.key._replace(system=FAULTY)) if c.key.system == "bolt" else c
        for c in cells
    ]
    assert not {f.check for f in audit(cells) if f.system == FAULTY} - {"cut-text"}
    checks = [f for f in audit(shifted(2)(cells)) if f.check == "wrong-request"]
    assert [(f.system, f.severity) for f in checks] == [(FAULTY, "serious")]
    assert "best fit the request 2 places later" in checks[0].what
    lower = audit(written(str.lower)(cells))
    assert [f.system for f in lower if f.check == "style-differs"] == [FAULTY]


def test_scores_of_controls_with_several_values_are_not_held_against_votes():
    """A vote is right if it is one of them, which the label alone does not tell."""
    cells = [
        replace(
            cell,
            samples=tuple(
                replace(s, control={a: (v, "other") for a, v in s.control.items()})
                for s in cell.samples
            ),
        )
        for cell in varied_cells(7, STUDY)
    ]
    checks = {f.check for f in audit(cells)}
    assert "scores-contradict-votes" not in checks

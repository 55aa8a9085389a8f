"""Every fault of the list is found, and studies without a fault are left alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from faults import FAULTS, FAULTY, STUDY, shifted, told, written
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, fisher_exact
from varied_study import varied_cells

from levelfield.core.sample import Sample
from levelfield.study.audit import audit
from levelfield.study.audit.encoding import wrong_encoding
from levelfield.study.audit.exact import p_of_fewer, p_of_more, p_of_shares
from levelfield.study.audit.findings import AuditedStudy
from levelfield.study.cells import Cell, CellKey, GroupValue, Rate
from levelfield.study.published import published_cells


@pytest.fixture(scope="module")
def clean() -> list[Cell]:
    return varied_cells(5, STUDY)


def test_the_study_that_faults_are_put_into_has_none(clean):
    assert audit(clean) == []


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_named_with_its_system_and_seed(name, clean):
    fault = FAULTS[name]
    findings = audit(fault.spoil(clean))
    assert told(findings, fault)
    found = {(f.system, f.seed) for f in findings if f.check in fault.checks}
    if name.startswith("one system"):
        assert found == {(FAULTY, None)}
    if name.startswith("one seed"):
        assert found == {(FAULTY, 2)}


@pytest.mark.parametrize("seed", range(8))
def test_studies_that_differ_in_all_that_may_differ_have_no_finding(seed):
    said = Counter(f.check for f in audit(varied_cells(seed)))
    # that texts end at their budget is told of every study where they do
    assert said.keys() <= {"cut-text"}


def test_texts_of_training_data_are_found_where_the_data_are_known(clean):
    own = [s.text for c in clean if c.key.system == FAULTY for s in c.samples]
    found = [f for f in audit(clean, training=own[:200]) if f.check == "copied-texts"]
    assert [(f.system, f.n, f.of, f.severity) for f in found] == [(FAULTY, 200, 240, "serious")]
    assert audit(clean, training=["The lake froze over in the cold night of a hard winter."]) == []


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

    found = [f.what for f in audit([cell(n, 0) for n in range(8)]) if f.check == "judges-identical"]
    assert found == ["elm and fir have the same rates in all 16 cells and values"]
    found = audit([cell(n, 1) for n in range(8)])
    assert "judges-identical" not in {f.check for f in found}


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
    (found,) = [f for f in audit(cells) if "no other system has" in f.what]
    assert (found.system, found.dataset, found.seed, found.n) == (FAULTY, "set 0", 2, 40)


def test_samples_of_one_id_are_serious(clean):
    double = replace(clean[0], samples=(*clean[0].samples[1:], clean[0].samples[1]))
    (found,) = [f for f in audit([double, *clean[1:]]) if f.check == "requests-repeated"]
    assert (found.severity, found.n) == ("serious", 2)


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
    ],
)
def test_other_languages_and_signs_are_no_traces_of_storage(text):
    assert wrong_encoding(study_of(text)) == []


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
    assert "fit best the request 2 places later" in checks[0].what
    lower = audit(written(str.lower)(cells))
    assert [f.system for f in lower if f.check == "style-differs"] == [FAULTY]

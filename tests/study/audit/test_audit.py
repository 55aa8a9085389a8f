"""The audit: each fault is found, and a study without a fault is left alone."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from clean_study import JUDGES, LABELS, SYSTEMS, clean_cells
from hypothesis import given
from hypothesis import strategies as st

from levelfield.core.continuation import letters, prompt_end
from levelfield.core.sample import Sample
from levelfield.study.audit import Finding, audit
from levelfield.study.audit.findings import AuditedStudy, Limits
from levelfield.study.audit.judged import judged, strengths
from levelfield.study.audit.judges import majority_bounds
from levelfield.study.audit.wording import repeated
from levelfield.study.cells import Cell, CellKey, GroupValue, Rate

FAULTY = SYSTEMS[1]
SENTIMENT, TOPIC = 0, 2
"""Seeds of clean studies with two and with four values."""


def change_texts(
    cells: Iterable[Cell], how: Callable[[Sample], Sample], system: str = FAULTY
) -> list[Cell]:
    """Returns the study, with every text of one system changed."""
    return [
        replace(cell, samples=tuple(map(how, cell.samples))) if cell.key.system == system else cell
        for cell in cells
    ]


def bare(cells: Iterable[Cell]) -> list[Cell]:
    """Returns the study, without votes and rates."""
    return [replace(cell, votes={}, rates=(), groups=()) for cell in cells]


def only_rates(cells: Iterable[Cell]) -> list[Cell]:
    return [replace(cell, samples=(), votes={}) for cell in cells]


def serious(findings: Iterable[Finding]) -> set[tuple[str, str]]:
    return {(f.check, f.system) for f in findings if f.severity == "serious"}


def the(findings: Iterable[Finding], check: str) -> Finding:
    (match,) = [finding for finding in findings if finding.check == check]
    return match


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 50), marks=pytest.mark.slow)])
def test_clean_studies_give_nothing_serious_and_no_warning(seeds):
    counts = Counter(
        (finding.severity, finding.check) for seed in seeds for finding in audit(clean_cells(seed))
    )
    assert counts == {}


def test_a_study_of_nothing_has_no_findings():
    assert audit([]) == []
    key = CellKey("a", "b", "c", 1)
    assert audit([Cell(key=key, asked=0)], expected=[]) == []


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("spoil", "check", "says"),
    [
        (
            lambda s: replace(s, text=s.text.removeprefix(s.prompt).strip()),
            "prompt-not-continued",
            r"300 of 300 texts \(100 %\) do not begin with their prompt",
        ),
        (lambda s: replace(s, text=s.prompt), "empty-text", "are empty or end with their prompt"),
        (lambda s: replace(s, text=""), "empty-text", "are empty or end with their prompt"),
        (
            lambda s: replace(s, text=f"{s.text} {' '.join(s.text.split()[-9:]) * 9}"),
            "repetition",
            "of the 4-grams in a text repeat an earlier one",
        ),
        (
            lambda s: replace(s, text=f"{s.prompt} and so it was for ever."),
            "identical-texts",
            "exactly as another text continues",
        ),
        (
            lambda s: replace(s, text=s.text + " moon" * 3 + " river of stone" * 30),
            "length-differs",
            f"texts of {FAULTY} are .* times as long",
        ),
        (
            lambda s: replace(s, text=f"{s.text}\nUser: go on"),
            "leftover-markup",
            "role markers 300",
        ),
        (lambda s: replace(s, text=f"{s.text}</s>"), "leftover-markup", "special tokens 300"),
        (
            lambda s: replace(s, text=f"{s.text} As an AI model I stop."),
            "leftover-markup",
            "talk about the task 300",
        ),
        (
            lambda s: replace(
                s,
                text=f"{s.text} Please write a short and cheerful story.",
                extra={"input": f"Please write a short and cheerful story: {s.prompt}"},
            ),
            "leftover-markup",
            "words of the instruction 300",
        ),
        (
            lambda s: replace(s, text=f"very {s.control['sentiment']}: {s.text}"),
            "label-in-input",
            "begin with the wanted label, then the prompt",
        ),
    ],
)
def test_a_fault_in_every_text_of_a_system_is_serious(spoil, check, says):
    findings = audit(bare(change_texts(clean_cells(SENTIMENT), spoil)))
    serious_ones = [f for f in findings if f.check == check and f.severity == "serious"]
    assert [f.system for f in serious_ones] in ([FAULTY], [""])
    assert re.search(says, serious_ones[0].what)
    assert all(e.id and len(e.text) <= 160 for e in serious_ones[0].examples)


@pytest.mark.parametrize(
    ("share", "severity"), [(0.005, None), (0.05, "warning"), (0.2, "serious")]
)
def test_how_many_texts_have_a_fault_decides_how_serious_it_is(share, severity):
    cells = clean_cells(SENTIMENT)
    places = {s.id: n for n, s in enumerate(s for c in cells for s in c.samples)}
    every = round(1 / share)

    def spoil(sample: Sample) -> Sample:
        late = places[sample.id] % every == 0
        return replace(sample, text=f"Once, {sample.text}") if late else sample

    findings = audit(change_texts(cells, spoil))
    assert [(f.check, f.severity) for f in findings] == (
        [("prompt-not-continued", severity)] if severity else []
    )
    if severity:
        assert "of them contain it further in" in findings[0].what


def test_a_limit_counts_from_its_own_value_on():
    limits = Limits(0.1, 0.01, 0)
    severities = [limits.severity(share) for share in (0.1, 0.099, 0.01, 0.009, 0)]
    assert severities == ["serious", "warning", "warning", "note", "note"]
    assert Limits(0.1, 0.01).severity(0.009) is None


def test_a_fault_on_one_dataset_is_not_thinned_by_the_others():
    def spoil(sample: Sample) -> Sample:
        hit = sample.dataset == "hill" and sample.id.endswith("e")
        return replace(sample, text=f"Once, {sample.text}") if hit and sample.seed == 1 else sample

    finding = the(audit(change_texts(clean_cells(SENTIMENT), spoil)), "prompt-not-continued")
    assert (finding.severity, finding.dataset, finding.seed) == ("serious", "hill", 1)
    assert "most on hill (33 %)" in finding.what


def test_white_space_quotes_and_case_in_front_of_a_prompt_are_forgiven():
    def spoil(sample: Sample) -> Sample:
        words = sample.text.split()
        return replace(sample, text=f' "{words[0].upper()}  {" ".join(words[1:])}')

    assert audit(change_texts(clean_cells(SENTIMENT), spoil)) == []


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_text_that_begins_with_its_prompt_is_known_to(prompt, rest):
    end = prompt_end(prompt, prompt + rest, "letters")
    assert end == len(prompt)
    end = prompt_end(prompt, f' "{prompt}{rest}', "letters")
    if end is not None:
        assert letters(f' "{prompt}{rest}'[:end]).startswith(letters(prompt))


PROMPTS = [f"{a} {b} {c}" for a in ("The", "A") for b in ("red", "old", "big") for c in "abcdef"]


def batched(size: int, right: bool = False) -> list[Cell]:
    """Returns a cell of 8 values a prompt; all texts continue the first prompt of their batch."""
    pairs = [{"sentiment": s, "topic": t} for s in LABELS["sentiment"] for t in LABELS["topic"]]
    requests = [(prompt, pair) for prompt in PROMPTS[:35] for pair in pairs]
    samples = tuple(
        Sample(
            id=f"{n}",
            text=f"{prompt if right else requests[n - n % size][0]} was number {n}.",
            prompt=prompt,
            control=pair,
        )
        for n, (prompt, pair) in enumerate(requests)
    )
    return [Cell(CellKey("multi", "pplm", "multiple", 789), samples)]


def test_batches_that_all_continue_their_first_prompt_are_answers_to_wrong_requests():
    finding = the(audit(batched(128)), "wrong-request")
    assert (finding.severity, finding.system, finding.n, finding.of) == (
        "serious",
        "multi",
        256,
        280,
    )
    assert "they continue 3 prompts in all, up to 120 texts in a row the same one" in finding.what
    assert audit(batched(128, right=True)) == []


def test_a_shift_by_one_request_is_found_and_prompts_that_begin_others_do_not_confuse():
    prompts = ["The lake", "The lake house", "The lake house", "The road", "The road up the hill"]
    key = CellKey("s", "d", "keywords", 1)

    def cell(shift: int) -> Cell:
        written = [f"{prompt} was long, said {n}." for n, prompt in enumerate(prompts)]
        return Cell(
            key,
            tuple(
                Sample(id=f"{n}", text=written[(n + shift) % 5], prompt=prompt)
                for n, prompt in enumerate(prompts)
            ),
        )

    assert audit([cell(0)]) == []
    cut_short = replace(cell(0).samples[1], text="The lake froze.")
    findings = audit([replace(cell(0), samples=(cell(0).samples[0], cut_short))])
    assert {f.check for f in findings} == {"prompt-not-continued"}
    # the first text of the shifted cell begins with its own prompt too, the second is its equal
    findings = the(audit([cell(1)]), "wrong-request")
    assert [e.id for e in findings.examples] == ["2", "4"]
    assert findings.severity == "serious"


@pytest.mark.slow
def test_the_label_or_the_systems_word_for_it_in_front_of_the_prompt_is_named():
    codes = {"negative": "gloomy ", "positive": "sunny "}

    def typed(label: Callable[[str], str]) -> Callable[[Sample], Sample]:
        def spoil(sample: Sample) -> Sample:
            typed_input = f"{label(str(sample.control['sentiment']))}{sample.prompt}"
            return replace(sample, extra={**sample.extra, "input": typed_input})

        return spoil

    cells = clean_cells(SENTIMENT)
    finding = the(audit(change_texts(cells, typed(lambda v: f"very_{v}:"))), "label-in-input")
    assert (finding.severity, finding.n, finding.of) == ("warning", 300, 300)
    assert "'very_negative:' 150, 'very_positive:' 150" in finding.what
    finding = the(audit(change_texts(cells, typed(codes.__getitem__))), "label-in-input")
    assert "'gloomy' 150, 'sunny' 150" in finding.what
    # a technique that was trained on codes in front of the prompt
    coded = [
        replace(c, key=c.key._replace(system="ctrl-lite")) if c.key.system == FAULTY else c
        for c in change_texts(cells, typed(codes.__getitem__))
    ]
    assert audit(coded) == []
    assert audit(change_texts(cells, typed("Go on: ".format))) == []
    long = "You are a writer of stories.\nWrite one that is {} and begins so: "
    assert audit(change_texts(cells, typed(long.format))) == []


@pytest.mark.slow
def test_seeds_with_the_same_texts_are_one_seed():
    cells = clean_cells(SENTIMENT)
    first = {c.key[:3]: c for c in cells if c.key.seed == 1}

    def same(cell: Cell, share: float) -> Cell:
        texts = [s.text for s in first[cell.key[:3]].samples]
        n = round(share * len(texts))
        changed = (replace(s, text=t) for s, t in zip(cell.samples[:n], texts, strict=False))
        return replace(cell, samples=(*changed, *cell.samples[n:]))

    for share, severity in ((1, "serious"), (0.6, "warning"), (0.4, "warning"), (0.02, None)):
        findings = audit([same(c, share) if c.key.system == FAULTY else c for c in cells])
        assert [(f.check, f.severity, f.system) for f in findings] == (
            [("identical-seeds", severity, FAULTY)] if severity else []
        )


def test_seeds_whose_results_agree_in_all_digits_are_found_without_texts():
    cells = only_rates(clean_cells(SENTIMENT))
    groups = tuple(GroupValue("fluency.slor", v, 3.123456789 + n, 50) for n, v in enumerate("abc"))
    cells = [
        replace(c, groups=groups, rates=cells[0].rates) if c.key.system == FAULTY else c
        for c in cells
    ]
    assert ("identical-seeds", FAULTY) in serious(audit(cells))
    rounded = [replace(c, groups=()) for c in cells]
    assert "identical-seeds" not in {f.check for f in audit(rounded)}


@pytest.mark.slow
def test_missing_cells_texts_and_values_are_found():
    cells = clean_cells(TOPIC)
    seedless = [c for c in cells if c.key != (FAULTY, "hill", "topic", 2)]
    finding = the(audit(seedless), "missing-cell")
    assert (finding.severity, finding.what) == (
        "warning",
        "1 of 6 cells are missing (hill: seeds 2)",
    )
    setless = [c for c in cells if (c.key.system, c.key.dataset) != (FAULTY, "hill")]
    finding = the(audit(setless), "missing-cell")
    assert (finding.severity, finding.n, finding.of, finding.dataset) == ("serious", 3, 6, "hill")
    everything = [c.key for c in cells]
    assert the(audit(seedless, expected=everything), "missing-cell").n == 1
    assert audit(seedless, expected=[c.key for c in seedless]) == []

    failed = replace(cells[0], samples=(), votes={}, rates=(), failure="no answer within 9 s")
    finding = the(audit([failed, *cells[1:]]), "missing-cell")
    assert (finding.severity, finding.seed) == ("serious", 1)
    assert "no answer within 9 s" in finding.what

    short = replace(cells[0], samples=cells[0].samples[:-4], asked=None)
    finding = the(audit([short, *cells[1:]]), "missing-texts")
    assert (finding.severity, finding.n, finding.of) == ("warning", 4, 80)
    kept = tuple(s for s in cells[0].samples if s.control["topic"] != "World")
    valueless = replace(cells[0], samples=kept, asked=None)
    finding = the(audit([valueless, *cells[1:]]), "missing-texts")
    assert (finding.severity, finding.n, finding.of) == ("serious", 20, 80)
    odd = replace(cells[0], problems=("2 answers with unknown ids",))
    assert "unknown ids" in the(audit([odd, *cells[1:]]), "missing-texts").what


def test_systems_that_were_asked_for_fewer_values_are_named():
    cells = bare(clean_cells(TOPIC))

    def without(cell: Cell) -> Cell:
        kept = tuple(s for s in cell.samples if s.control["topic"] in ("Science",))
        return replace(cell, samples=kept, asked=None)

    findings = audit([without(c) if c.key.system == FAULTY else c for c in cells])
    assert serious(findings) == {("label-sets-differ", FAULTY)}
    assert f"{FAULTY} only Science" in the(findings, "label-sets-differ").what


def unmoved(cells: Iterable[Cell]) -> list[Cell]:
    """Returns the study with half of a system's texts judged as answers to the next request.

    Requests take turns with the values, so with two values nothing of the control is left.
    """

    def turned(cell: Cell) -> Cell:
        if cell.key.system != FAULTY:
            return cell
        attribute = cell.key.control
        half = len(cell.samples) // 2
        ids = [s.id for s in cell.samples]
        mixed = {
            judge: {
                id: labels[ids[(n + 1) % len(ids)]] if n < half else labels[id]
                for n, id in enumerate(ids)
            }
            for judge, labels in cell.votes[attribute].items()
        }
        rates = tuple(
            Rate(judge, v, 100 * sum(mixed[judge][i] == v for i in asked_for) / len(asked_for))
            for judge in mixed
            for v in LABELS[attribute]
            if (asked_for := [s.id for s in cell.samples if s.control[attribute] == v])
        )
        return replace(cell, votes={attribute: mixed}, rates=rates)

    return list(map(turned, cells))


@pytest.mark.slow
@pytest.mark.parametrize("as_published", [list, only_rates])
def test_control_that_changes_nothing_is_found_from_votes_and_from_rates(as_published):
    findings = audit(as_published(unmoved(clean_cells(SENTIMENT, (200, 300)))))
    assert serious(findings) == {("control-changes-nothing", FAULTY)}
    assert "control changes nothing: strength" in the(findings, "control-changes-nothing").what


@pytest.mark.slow
def test_a_system_that_ignores_control_by_design_has_no_finding():
    cells = unmoved(clean_cells(SENTIMENT, (200, 300)))
    baseline = [replace(c, ignores_control=c.key.system == FAULTY) for c in cells]
    assert "control-changes-nothing" in {f.check for f in audit(cells)}
    assert "control-changes-nothing" not in {f.check for f in audit(baseline)}


def test_control_that_works_backwards_is_found():
    other = {"negative": "positive", "positive": "negative"}
    cells = [
        replace(
            c,
            rates=(),
            votes={
                "sentiment": {
                    judge: {id: other[label] for id, label in labels.items()}
                    for judge, labels in c.votes["sentiment"].items()
                }
            },
        )
        for c in clean_cells(SENTIMENT)
    ]
    assert serious(audit(cells)) == {("control-changes-nothing", s) for s in SYSTEMS}
    assert all("backwards" in f.what for f in audit(cells))


def test_one_text_for_all_wanted_values_is_control_that_changes_nothing():
    cells = bare(
        change_texts(
            clean_cells(SENTIMENT), lambda s: replace(s, text=f"{s.prompt} {s.seed} {s.prompt}.")
        )
    )
    assert ("control-changes-nothing", FAULTY) in serious(audit(cells))


def test_strength_is_the_same_from_votes_and_from_rates():
    cells = [replace(c, rates=c.rates[: -len(LABELS["topic"])]) for c in clean_cells(TOPIC)]
    by_votes = strengths(AuditedStudy(tuple(cells)))
    by_rates = strengths(AuditedStudy(tuple(only_rates(cells))))
    assert by_votes.keys() == by_rates.keys()
    for key, interval in by_votes.items():
        assert interval == pytest.approx(by_rates[key])
        assert 0.4 < interval[1] < interval[0] < interval[2] < 0.95


def test_strength_of_several_attributes_is_read_from_their_overall_rates():
    (cell,) = batched(1)
    rates = (Rate("both", "", 12.5), Rate("sentiment", "", 50.0), Rate("topic", "", 85.0))
    intervals = strengths(AuditedStudy((replace(cell, rates=rates),)))
    assert intervals["multi", "multiple", "sentiment"][0] == pytest.approx(0)
    assert intervals["multi", "multiple", "topic"][0] == pytest.approx((0.85 - 0.25) / 0.75)


def test_the_last_label_of_any_judge_is_not_a_majority():
    def last(cell: Cell) -> Cell:
        labels = {
            s.id: max(cell.votes[cell.key.control][judge][s.id] for judge in JUDGES)
            for s in cell.samples
        }
        rates = [r for r in cell.rates if r.judge != "majority"]
        for value in LABELS[cell.key.control]:
            ids = [s.id for s in cell.samples if s.control[cell.key.control] == value]
            percent = 100 * sum(labels[id] == value for id in ids) / len(ids)
            rates.append(Rate("majority", value, percent))
        return replace(cell, rates=tuple(rates))

    for seed in (SENTIMENT, TOPIC):
        finding = the(audit(list(map(last, clean_cells(seed)))), "majority-is-none")
        assert "in all 18 cells the alphabetically last value is never below" in finding.what


def texts_by_judges(judges: int) -> st.SearchStrategy[list[list[bool]]]:
    """Returns which judges were right on each text."""
    votes = st.lists(st.booleans(), min_size=judges, max_size=judges)
    return st.lists(votes, min_size=1, max_size=30)


@given(st.integers(2, 7).flatmap(texts_by_judges))
def test_a_majority_always_lies_within_its_bounds(right):
    n, judges = len(right), len(right[0])
    a = [100 * sum(text[j] for text in right) / n for j in range(judges)]
    low, high = majority_bounds(a)
    for tie in (False, True):
        votes = (2 * sum(text) for text in right)
        m = 100 * sum(v > judges or (tie and v == judges) for v in votes) / n
        assert low - 1e-6 <= m <= high + 1e-6


def test_the_bounds_of_a_majority_can_be_reached():
    # two judges are right together on half of the texts, or each with the third on its own half
    assert majority_bounds([50, 50, 0]) == (0, 50)
    assert majority_bounds([50, 50, 100]) == (50, 100)
    assert majority_bounds([10, 10, 100]) == (10, 20)
    assert majority_bounds([100, 100, 0]) == (100, 100)


def test_a_judge_that_prefers_a_value_or_votes_at_random_is_named():
    def prefer(cell: Cell, label: Callable[[int, str], str]) -> Cell:
        votes = dict(cell.votes["sentiment"])
        votes["oak"] = {id: label(n, old) for n, (id, old) in enumerate(votes["oak"].items())}
        return replace(cell, votes={"sentiment": votes}, rates=())

    cells = clean_cells(SENTIMENT)
    biased = audit([prefer(c, lambda n, old: "negative" if n % 3 else old) for c in cells])
    assert "oak prefers negative" in the(biased, "judge-biased").what
    assert the(biased, "judge-biased").severity == "serious"
    turns = ("negative", "negative", "positive", "positive")
    random = audit([prefer(c, lambda n, _: turns[n % 4]) for c in cells])
    finding = the(random, "judges-disagree")
    # the consequence of weak judges is not a wrong number
    assert (finding.severity, finding.n, finding.of) == ("warning", 2, 3)
    assert "weak judges" in finding.what
    assert finding.what.count("κ of labels") == 2

    def first(cell: Cell, n: int) -> Cell:
        ids = [sample.id for sample in cell.samples[:n]]
        votes = {j: {id: labels[id] for id in ids} for j, labels in cell.votes["sentiment"].items()}
        return replace(cell, samples=cell.samples[:n], asked=n, votes={"sentiment": votes})

    # 18 cells of 4 texts are too few to accuse a judge
    biased = [prefer(first(c, 4), lambda *_: "negative") for c in cells]
    assert not {"judge-biased", "judges-disagree"} & {f.check for f in audit(biased)}


def test_judges_do_not_agree_for_texts_that_are_empty():
    """Judges who vote at random, and whole cells that nobody had anything to read in."""

    def random_votes(cell, empty):
        rng = random.Random(str(cell.key))
        votes = {
            judge: {id: "(empty)" if empty else rng.choice(LABELS["sentiment"]) for id in labels}
            for judge, labels in cell.votes["sentiment"].items()
        }
        return replace(cell, votes={"sentiment": votes}, rates=())

    cells = [random_votes(cell, n % 2 == 0) for n, cell in enumerate(clean_cells(0))]
    assert any(f.check == "judges-disagree" and "weak judges" in f.what for f in audit(cells))


def test_rates_in_two_scales_are_found_for_judges_and_for_systems():
    cells = only_rates(clean_cells(TOPIC))
    judge_cells = [
        replace(
            c,
            rates=tuple(
                replace(r, percent=r.percent / 100) if r.judge == "oak" else r for r in c.rates
            ),
        )
        for c in cells
    ]
    findings = audit(judge_cells)
    assert ("mixed-scales", "") in serious(findings)
    assert "judge oak" in the(findings, "mixed-scales").what
    system_cells = [
        replace(c, groups=tuple(g._replace(value=100 * g.value) for g in c.groups[1:]))
        if c.key.system == FAULTY
        else c
        for c in cells
    ]
    assert (
        "of diversity.distinct-1 between 0 and 1" in the(audit(system_cells), "mixed-scales").what
    )


def test_texts_cut_off_by_their_budget_are_a_note():
    findings = audit(
        change_texts(clean_cells(SENTIMENT), lambda s: replace(s, text=s.text.removesuffix(".")))
    )
    assert [(f.check, f.severity, f.system) for f in findings] == [("cut-text", "note", FAULTY)]
    chinese = change_texts(
        clean_cells(SENTIMENT), lambda s: replace(s, text=f"{s.text[:-1]}湖面结冰了")
    )
    assert audit(chinese) == []


def test_repeats_are_counted_as_by_hand():
    assert repeated("a b c d") == 0
    assert repeated("a a a a a a a") == pytest.approx(3 / 4)
    assert repeated("one two three") is None


def test_rates_of_judges_are_read_in_percent_or_as_shares():
    (cell,) = batched(1)
    rates = (Rate("p", "x", 40.0), Rate("p", "y", 80.0), Rate("s", "x", 0.4), Rate("s", "y", 0.8))
    rates_read = judged(AuditedStudy((replace(cell, samples=(), asked=10, rates=rates),)))
    assert [(rate.right, rate.n) for rate in rates_read] == [(0.4, 5), (0.8, 5)] * 2


SAMPLES = st.lists(
    st.builds(
        Sample,
        id=st.sampled_from("abcdef"),
        text=st.text(max_size=40),
        prompt=st.text(max_size=10),
        control=st.dictionaries(st.sampled_from("st"), st.sampled_from("xyz"), max_size=2),
        extra=st.fixed_dictionaries({}, optional={"input": st.text(max_size=20)}),
    ),
    max_size=6,
)


@given(st.lists(st.tuples(SAMPLES, st.integers(1, 2), st.sampled_from("AB")), max_size=4))
def test_no_texts_are_too_strange_to_be_audited(drawn):
    cells = {
        key: Cell(
            key,
            tuple(samples),
            votes={"s": {"one": {s.id: s.text[:1] for s in samples}, "two": {}}},
            rates=(Rate("three", "x", float("nan")), Rate("majority", "x", 50)),
            groups=(GroupValue("m", "x", float("nan"), 0),),
        )
        for samples, seed, system in drawn
        if (key := CellKey(system, "d", "s", seed))
    }
    order = ["serious", "warning", "note"]
    ranks = [order.index(finding.severity) for finding in audit(list(cells.values()))]
    assert ranks == sorted(ranks)

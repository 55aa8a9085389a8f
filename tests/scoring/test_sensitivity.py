"""What a comparison could have shown, and whether two systems are alike within a margin."""

import math
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

import levelfield
from levelfield.core.errors import UserError
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.scoring.comparison import Bounds, adjusted_comparisons, conclusion
from levelfield.scoring.sensitivity import detectable, sensitivity_notes
from levelfield.scoring.standing import Scale
from levelfield.stats.resampling import Resampling, margins

NO_MARGIN = MappingProxyType({})


def compared(of_systems, seeds=1, margin=NO_MARGIN, **words):
    """Compares systems by (inputs, seeds) values each."""
    samples, values = [], []
    for name, of_system in of_systems.items():
        for (i, k), value in np.ndenumerate(np.asarray(of_system, dtype=float).reshape(-1, seeds)):
            seed = k if seeds > 1 else None
            sample = Sample(f"{name}{i}.{k}", "text", prompt=f"p{i}", system=name, seed=seed)
            samples.append(sample)
            values.append(value)
    ids = tuple(s.id for s in samples)
    scores = Scores("m.x", ids, np.array(values), {}, "m.x|v:0", True)
    result = levelfield.compare(samples, scores=[scores], margin=margin, **words)
    return result, {c.a + c.b: c for _, c in result}


def draws(seed=0, n=40, systems="abc", shift=()):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    return {s: common + rng.normal(0, 0.5, n) + dict(shift).get(s, 0) for s in systems}


def test_what_is_not_shown_has_the_difference_that_a_t_test_detects():
    values = draws(systems="ab")
    _, c = compared(values)
    assert c["ab"].p_adjusted > 0.05
    sd = np.std(values["a"] - values["b"], ddof=1)
    effect = TTestPower().solve_power(nobs=40, alpha=0.05, power=0.8)
    assert c["ab"].detectable == pytest.approx(sd * effect, rel=1e-6)


def test_the_family_raises_it_by_the_level_that_holm_leaves():
    values = draws(shift={"c": 3})
    _, c = compared(values)
    assert [math.isnan(c[pair].detectable) for pair in ("ab", "ac", "bc")] == [False, True, True]
    sd = np.std(values["a"] - values["b"], ddof=1)
    effect = TTestPower().solve_power(nobs=40, alpha=0.05, power=0.8)
    assert c["ab"].detectable == pytest.approx(sd * effect, rel=1e-6)  # one is left of three
    _, c = compared(draws())
    values = draws()
    effect = TTestPower().solve_power(nobs=40, alpha=0.05 / 3, power=0.8)
    sd = np.std(values["a"] - values["b"], ddof=1)
    assert c["ab"].detectable == pytest.approx(sd * effect, rel=1e-6)


def test_so_few_inputs_that_no_p_is_small_detect_nothing():
    result, c = compared(draws(n=4, systems="ab"))
    assert math.isinf(c["ab"].detectable)
    assert detectable(c["ab"], Scale(2, False)) == "no difference is detectable"
    assert result.to_dict()["metrics"][0]["comparisons"][0]["detectable"] is None


def test_equal_systems_have_no_error_and_detect_nothing():
    same = np.arange(10.0)
    _, c = compared({"a": same, "b": same}, margin={"all": 0.5})
    assert math.isnan(c["ab"].detectable)
    assert conclusion(c["ab"], "higher") == "undecided: all differences are equal"


def seeded(seed, seeds, n=40, sd_seeds=0.3):
    rng = np.random.default_rng(seed)

    def values():
        of_inputs, of_texts = rng.normal(0, 0.5, (n, 1)), rng.normal(0, 0.5, (n, seeds))
        return of_inputs + rng.normal(0, sd_seeds, seeds) + of_texts

    return {s: values() for s in "ab"}


def test_a_measure_that_can_show_no_difference_is_named():
    systems = dict(draws(n=10, systems="abcdefgh").items())
    _, many = compared(systems)
    _, some = compared(draws(systems="ab"))
    assert all(math.isinf(c.detectable) for c in many.values())
    write = Scale(2, False)
    known, never = sensitivity_notes(
        {"wide": (list(some.values()), write), "narrow": (list(many.values()), write)}
    )
    assert "(wide)" in known
    assert "narrow" not in known
    assert never.startswith("no difference of any size")
    assert never.endswith("(narrow)")


def test_a_measure_whose_differences_do_not_vary_is_named():
    same = np.arange(10.0)
    _, c = compared({"a": same, "b": same})
    (note,) = sensitivity_notes({"m": (list(c.values()), Scale(2, False))})
    assert note.startswith("what difference could be shown is not known")
    assert note.endswith("(m)")


def test_few_seeds_come_with_what_five_would_show():
    _, c = compared(seeded(1, 2), seeds=2)
    assert c["ab"].error.seeds == 2
    assert c["ab"].detectable_with_more < c["ab"].detectable
    notes = list(sensitivity_notes({"m": (list(c.values()), Scale(2, False))}))
    assert notes[0].startswith("no difference shown: 80 % of such studies show one of ")
    assert notes[1].startswith("2 seeds are few: take 5 a system")
    _, c = compared(seeded(1, 5), seeds=5)
    assert math.isnan(c["ab"].detectable_with_more)
    assert len(list(sensitivity_notes({"m": (list(c.values()), Scale(2, False))}))) == 1


@pytest.mark.slow
def test_what_five_seeds_would_show_is_what_five_seeds_show():
    of_two = [compared(seeded(s, 2), seeds=2)[1]["ab"].error for s in range(60)]
    of_five = [compared(seeded(s, 5), seeds=5)[1]["ab"].error for s in range(60)]
    variance = np.mean([e.se**2 for e in of_five])
    assert np.mean([e.se_more**2 for e in of_two]) == pytest.approx(variance, rel=0.25)


def test_alike_is_what_two_one_sided_tests_show():
    values = draws(systems="ab", n=100)
    expected, *_ = DescrStatsW(values["a"] - values["b"]).ttost_mean(-0.3, 0.3)
    result, c = compared(values, margin={"m": 0.3})
    assert c["ab"].p_alike == pytest.approx(expected)
    verdict = result.to_dict()["metrics"][0]["comparisons"][0]["verdict"]
    assert verdict == "alike within 0.3"


def test_a_margin_has_four_answers():
    values = draws(systems="ab", n=100, shift={"b": 0.15})
    answers = {
        conclusion(compared(of_systems, margin={"all": margin})[1]["ab"], "higher")
        for of_systems, margin in (
            (draws(systems="ab", n=100), 0.5),
            (draws(systems="ab", n=100), 0.01),
            (values, 1.0),
            (draws(systems="ab", n=100, shift={"b": 2}), 0.5),
        )
    }
    assert answers >= {"alike within 0.5", "undecided: the study is too small", "b > a"}
    assert conclusion(compared(values, margin={"all": 1.0})[1]["ab"], "higher") in (
        "alike within 1",
        "b > a, by less than 1",
    )


def test_likeness_is_adjusted_over_the_family():
    _, alone = compared(draws(systems="ab"), margin={"all": 0.3})
    _, family = compared(draws(), margin={"all": 0.3})
    ps = sorted(c.p_alike for c in family.values())
    assert ps[0] <= ps[1] <= ps[2]
    assert family["ab"].p_alike >= alone["ab"].p_alike


def test_with_fdr_likeness_is_adjusted_over_the_run_as_differences_are():
    _, family = compared(draws(), margin={"all": 0.3})
    pairs = list(family.values())
    margin = {"m.x": 0.3, "m.y": 0.2}
    alone = sorted(
        adjusted_comparisons([[c]], Resampling(margin=margin), [name])[0][0].p_alike
        for name in margin
        for c in pairs
    )
    m = len(alone)
    adjusted = [min(1, *(m * alone[j] / (j + 1) for j in range(i, m))) for i in range(m)]
    assert adjusted != alone
    names = [*margin, "n.without-a-margin"]
    results = adjusted_comparisons([pairs] * 3, Resampling(margin=margin, family="fdr"), names)
    assert sorted(c.p_alike for of in results[:2] for c in of) == pytest.approx(adjusted)
    assert all(math.isnan(c.p_alike) for c in results[2])


def test_undefined_values_that_could_part_two_systems_keep_them_from_being_alike():
    _, c = compared(draws(systems="ab", n=100), margin={"all": 0.3})
    wide = replace(c["ab"], bounds=Bounds(-2.0, 2.0, 0.5, 0.5, 3, 3, 100))
    ((bounded,),) = adjusted_comparisons([[wide]], Resampling(margin={"all": 0.3}), ["m.x"])
    assert bounded.p_alike > 0.9


def test_a_metric_has_its_own_margin_else_that_of_its_family():
    r = Resampling(margin={"all": 1.0, "m": 2.0, "m.x": 3.0})
    assert [r.margin_of(name) for name in ("m.x", "m.y", "n")] == [3.0, 2.0, 1.0]
    assert math.isnan(Resampling().margin_of("m"))


@pytest.mark.parametrize("word", ["0", "-1", "x", "m=nan", "m=inf", "=1", "m="])
def test_words_that_are_no_margin_are_refused(word: str):
    with pytest.raises(UserError, match=r"--margin|margin of"):
        margins([word])


def test_a_margin_of_a_metric_that_is_not_there_is_refused():
    with pytest.raises(UserError, match=r"margin of k: nothing is compared by it; there are m.x"):
        compared(draws(systems="ab"), margin={"k": 1.0})

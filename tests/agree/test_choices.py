"""Agreement of choices between two texts."""

import pytest

from levelfield.agree.agreement import agreement
from levelfield.core.errors import UserError
from levelfield.io.comparisons import PairChoice
from levelfield.stats.krippendorff import krippendorff_alpha

_OUTCOMES = ((1.0, 1.0), (1.0, 0.5), (0.0, 0.0), (0.5, 0.5), (1.0, 0.0))


def _choices(raters: tuple[str, str]) -> list[PairChoice]:
    return [
        PairChoice("plain", "florid", outcome, "style", rater, f"prompt {n}", f"a{n}", f"b{n}")
        for n, outcomes in enumerate(_OUTCOMES)
        for rater, outcome in zip(raters, outcomes, strict=True)
    ]


@pytest.mark.parametrize("raters", [("", ""), ("ann", "bo")])
def test_alpha_is_that_of_names(raters: tuple[str, str]) -> None:
    report = agreement(_choices(raters))
    (group,) = report.groups
    assert group.alpha.value == pytest.approx(krippendorff_alpha(_OUTCOMES, level="nominal").value)
    assert group.ties is not None
    assert group.ties.value == pytest.approx(3 / 10)
    assert (report.nameless, len(group.pairs)) == ((True, 0) if raters[0] == "" else (False, 1))
    assert any("name no raters" in note for note in report.notes()) == report.nameless


def test_texts_the_other_way_round_are_the_same_pair() -> None:
    turned = [
        c._replace(a=c.b, b=c.a, sample_a=c.sample_b, sample_b=c.sample_a, outcome=1 - c.outcome)
        if c.rater == "bo"
        else c
        for c in _choices(("ann", "bo"))
    ]
    assert agreement(turned).groups[0].alpha == agreement(_choices(("ann", "bo"))).groups[0].alpha


def test_a_second_judgement_is_refused() -> None:
    with pytest.raises(UserError, match="two judgements"):
        agreement(_choices(("ann", "ann")))

"""Estimates say why they have no value or no interval."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.stats

from levelfield.stats.estimate import (
    Estimate,
    estimate_from_draws,
    estimate_of_mean,
    estimates_from_draws,
    percentile_ends,
    undefined,
)

nan = math.nan


@pytest.mark.parametrize(
    ("n", "clusters", "stated", "reason"),
    [
        (0, 0, "", "no values"),
        (1, 1, "", "one value"),
        (1, 1, "a corpus", "one value"),
        (5, 1, "", "one cluster"),
        (5, 1, "a corpus", "a corpus"),
        (5, 2, "", "fewer than 5 independent inputs"),
        (5, 5, "", ""),
    ],
)
def test_a_mean_without_an_interval_says_why(n, clusters, stated, reason):
    mean = estimate_of_mean(0.5, nan, nan, n=n, clusters=clusters, why_no_interval=stated)
    assert mean.why_no_interval == reason
    assert mean.why_undefined == ("no values" if n == 0 else "")


@pytest.mark.parametrize(("clusters", "reason"), [(4, "fewer than 5 independent inputs"), (5, "")])
def test_a_mean_of_fewer_than_five_clusters_has_no_interval(clusters, reason):
    mean = estimate_of_mean(0.5, 0.4, 0.6, n=9, clusters=clusters)
    assert mean.why_no_interval == reason
    assert math.isnan(mean.low) == math.isnan(mean.high) == bool(reason)
    assert mean.value == 0.5


def test_the_ends_of_many_clusters_hold_the_central_share_of_the_resamples():
    assert percentile_ends(np.arange(101.0), 0.9, 10**9) == pytest.approx((5, 95))


@pytest.mark.parametrize("clusters", [5, 10, 20])
def test_the_ends_of_few_clusters_are_as_far_out_as_those_of_student(clusters):
    # means of resampled normal values have √((n − 1) / n) of the standard error of their mean
    drawn = scipy.stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    t = scipy.stats.t.ppf(0.975, clusters - 1) * math.sqrt(clusters / (clusters - 1))
    assert percentile_ends(drawn, 0.95, clusters) == pytest.approx((-t, t), rel=1e-3)


def test_undefined_resamples_are_left_out_and_counted():
    drawn = np.r_[np.arange(98.0), nan, nan]
    estimate = estimate_from_draws(50.0, drawn, n=9, clusters=5)
    assert estimate.low == pytest.approx(percentile_ends(drawn[:98], 0.95, 5)[0])
    assert estimate.note == "2 of 100 resamples are undefined and left out of the interval"
    mostly = estimate_from_draws(50.0, np.full(4, nan), n=9, clusters=5)
    assert mostly.why_no_interval == "undefined in 4 of 4 resamples"


def test_a_record_has_null_for_nan_and_only_the_reasons_there_are():
    record = undefined("one sample", n=1, clusters=1).to_dict()
    assert record == {
        "value": None, "low": None, "high": None, "n": 1, "clusters": 1,
        "why_undefined": "one sample", "why_no_interval": "one sample",
    }  # fmt: skip
    assert set(Estimate(1, 0, 2, 3, 3).to_dict()) == {"value", "low", "high", "n", "clusters"}
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize("ends", [(0.5, 0.5), (1.0, 1.0 + 1e-15), (0.0, 0.0), (-math.inf, 1.0)])
def test_ends_without_information_are_not_an_interval(ends):
    e = Estimate(0.5, *ends, 9, 9)
    assert math.isnan(e.low)
    assert math.isnan(e.high)
    assert e.why_no_interval


@pytest.mark.parametrize("clusters", [2, 4])
def test_resamples_of_fewer_than_five_clusters_give_no_interval(clusters):
    drawn = np.linspace(-1, -0.56, 99)
    e = estimate_from_draws(-0.56, drawn, n=9, clusters=clusters)
    (several,) = estimates_from_draws(
        np.array([-0.56]), drawn[None], n=[9], clusters=clusters, reasons=[""]
    )
    assert repr(e) == repr(several)
    assert e.why_no_interval == "fewer than 5 independent inputs"

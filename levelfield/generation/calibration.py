"""`levelfield.calibrate_strength`: finds the strength at which a technique meets its budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from levelfield.core.documents import Document
from levelfield.core.errors import UserError
from levelfield.core.options import choices, keywords
from levelfield.core.progress import Stages, no_stages
from levelfield.core.signature import with_choices
from levelfield.generation.contract import (
    CalibrationOptions,
    Request,
    Technique,
    check_requests,
)
from levelfield.generation.divergence import divergence, has_distribution
from levelfield.generation.run import Requests, chosen_technique, read_requests
from levelfield.generation.technique import LocalTechnique
from levelfield.stats.estimate import Estimate

FIRST = 16
"""This many requests are enough to come near the budget; all of them decide."""
EXPONENT = 2.0
"""A divergence grows with the square of a small strength."""
WIDE = 0.05
"""A wider interval of the divergence, as a share of it, has a note."""


@dataclass(frozen=True)
class Tried(Document):
    """A strength, and how far the technique goes with it."""

    strength: float
    divergence: Estimate


class OutOfReachError(UserError):
    """No strength reaches the budget; `nearest` comes closest."""

    def __init__(self, budget: float, tried: Sequence[Tried]) -> None:
        self.nearest = _nearest(tried, budget)
        super().__init__(
            f"the budget of {budget:g} nats per token is out of reach: of {len(tried)} strengths "
            f"the nearest reaches {self.nearest.divergence.value:.3g}, at "
            f"{self.nearest.strength:.4g}"
        )


@dataclass(frozen=True)
class Calibration(Document):
    """The strength whose mean divergence is nearest to the budget.

    Attributes:
        technique: as it is with that strength.
        knob: the option that is the strength.
        found: that strength and its divergence.
        tried: all strengths that were tried on all requests, in order.
        requests: number of requests.
        signature: of the technique, the decoding and what was asked for.
    """

    technique: Technique
    knob: str
    budget: float
    tolerance: float
    found: Tried
    tried: tuple[Tried, ...]
    requests: int
    signature: str

    _entries = (
        "technique=technique.name option=knob budget within_tolerance=is_within *found note "
        "tried signature"
    )

    @property
    def note(self) -> str:
        """A caveat about the strength; empty if there is none."""
        nats = self.found.divergence
        if nats.why_no_interval:
            return f"no interval: {nats.why_no_interval}; give more prompts"
        share = (nats.high - nats.value) / nats.value
        if share <= WIDE:
            return ""
        enough = math.ceil(self.requests * (share / WIDE) ** 2 / 100) * 100
        return (
            f"{self.requests:,} requests determine the divergence to ±{share:.0%}; some {enough:,} "
            f"would determine it to {WIDE:.0%}"
        )

    @property
    def is_within(self) -> bool:
        """Whether the divergence is within the tolerance of the budget."""
        return _is_near(self.found, self.budget, self.tolerance)


@keywords(CalibrationOptions)
def calibrate_strength(
    requests: Requests,
    technique: str | Technique,
    chosen: CalibrationOptions | None = None,
    *,
    stages: Stages = no_stages,
    **words: Any,
) -> Calibration:
    """Finds the strength at which a technique goes as far from its base as a budget allows.

    The budget is the mean over the tokens of all texts of Σ_v q(v) log (q(v) / p(v)): q is the
    technique's distribution of the next token, p its base's, both of the whole vocabulary. The
    texts are those that the technique writes with that strength, one seed for all strengths. The
    strength grows or shrinks until the budget lies between two strengths, which are then
    interpolated.

    Args:
        requests: as for `generate`; use other requests than those that a study
            compares.
        technique: a name, or an instance.
        chosen: how texts are generated, and the budget.
        stages: receives the progress.
        words: options of `CalibrationOptions`, which override `chosen`: `budget`, `seed`, ….

    Raises:
        LevelfieldError: requests, an option or a model are wrong; the technique has no strength or
            no probabilities; or no strength reaches the budget.

    >>> calibrate_strength(["The lake"], "cfg", control={"sentiment": "positive"}, budget=0.2)
    ... # doctest: +SKIP
    """
    chosen = CalibrationOptions.of(chosen, **words)
    writer = chosen_technique(technique, chosen)
    if not has_distribution(writer):
        raise UserError(
            f"{writer.name} gives no token probabilities, so it has no divergence; compare what "
            "its texts cost: levelfield score --metric fluency.perplexity --model MODEL"
        )
    assert isinstance(writer, LocalTechnique)
    knob = writer.knob
    if knob not in choices(type(writer)):
        raise UserError(f"{writer.name} has no strength option")
    all_requests = read_requests(
        requests,
        writer.refusal,
        labels=chosen.control,
        format=chosen.reading.format,
        mapping=chosen.reading.mapping,
        label_names=chosen.reading.label_names,
    )
    check_requests(writer, all_requests)

    def far(subset: Sequence[Request], strength: float) -> Estimate:
        tried = writer.replace(**{knob: strength})
        return divergence(tried, subset, decoding=chosen.decoding, seed=chosen.seed).mean

    start = getattr(writer, knob)
    start = 1.0 if start is None or start <= 0 else float(start)
    with stages(f"calibrating {writer.name}", chosen.most) as progress:
        few = all_requests[:: max(1, len(all_requests) // FIRST)]
        exponent = EXPONENT
        if len(few) < len(all_requests):
            near = search(lambda s: far(few, s), start, chosen.budget, 0.1, chosen.most)
            start = _nearest(near, chosen.budget).strength
            exponent = _exponent(near, chosen.budget)

        def counted(strength: float) -> Estimate:
            progress(1)
            return far(all_requests, strength)

        tried = search(counted, start, chosen.budget, chosen.tolerance, chosen.most, exponent)
    nearest = _nearest(tried, chosen.budget)
    calibrated = writer.replace(**{knob: nearest.strength})
    signature = calibrated.signature + with_choices("", chosen.decoding.choices)
    return Calibration(
        calibrated,
        knob,
        chosen.budget,
        chosen.tolerance,
        nearest,
        tuple(tried),
        len(all_requests),
        signature + with_choices("", {"requests": len(all_requests), "seed": chosen.seed}),
    )


def search(
    far: Callable[[float], Estimate],
    start: float,
    budget: float,
    tolerance: float,
    most: int,
    exponent: float = EXPONENT,
) -> list[Tried]:
    """Returns the strengths that are tried, the last one within the tolerance if any is.

    While all were too weak or all too strong, the next strength is s (budget / d)^(1/k), at most
    four times s and at least a quarter, or sixteen times where the last step changed nothing. From
    the second such step on, the one before fell short: the strength goes a tenth beyond. From the
    third on, k is that of the last two strengths if that is lower. Between two neighbours the
    strength is interpolated on logarithms.

    Args:
        exponent: k, with which the divergence grows near the budget, d ∝ s^k; a small strength has
            2.

    Raises:
        OutOfReachError: no strength comes to the budget from the side where the first one was not.
    """
    tried = [Tried(start, far(start))]
    while len(tried) < most and not _is_near(tried[-1], budget, tolerance):
        strength, nats = tried[-1].strength, tried[-1].divergence.value
        weak = [t for t in tried if t.divergence.value < budget]
        strong = [t for t in tried if t.divergence.value >= budget]
        if weak and strong:
            below = max(weak, key=lambda t: t.divergence.value)
            above = min(strong, key=lambda t: t.divergence.value)
            strength = _between(below, above, budget)
        else:
            flat = len(tried) > 1 and math.isclose(nats, tried[-2].divergence.value, rel_tol=0.01)
            if flat or nats == 0:
                factor = 16.0 if flat else 4.0
            else:
                beyond = 1.1 if len(tried) > 1 else 1.0
                if len(tried) > 2:
                    exponent = min(exponent, _slope(tried[-1], tried[-2]))
                factor = min(4.0, beyond * max(budget / nats, nats / budget) ** (1 / exponent))
            strength = strength * factor if weak else strength / factor
        tried.append(Tried(strength, far(strength)))
    nearest = _nearest(tried, budget)
    values = [t.divergence.value for t in tried]
    if not _is_near(nearest, budget, tolerance) and not min(values) < budget <= max(values):
        raise OutOfReachError(budget, tried)
    return tried


def _exponent(tried: Sequence[Tried], budget: float) -> float:
    """Returns k of d ∝ s^k by the two strengths nearest to the budget."""
    near = sorted(tried, key=lambda trial: abs(trial.divergence.value - budget))[:2]
    return _slope(*near) if len(near) == 2 else EXPONENT


def _slope(first: Tried, second: Tried) -> float:
    """Returns k of d ∝ s^k by two strengths; between a tenth and 4."""
    apart = math.log(first.strength / second.strength)
    if not apart or min(first.divergence.value, second.divergence.value) <= 0:
        return EXPONENT
    slope = math.log(first.divergence.value / second.divergence.value) / apart
    return min(4.0, max(0.1, slope))


def _nearest(tried: Sequence[Tried], budget: float) -> Tried:
    return min(tried, key=lambda trial: abs(trial.divergence.value - budget))


def _is_near(tried: Tried, budget: float, tolerance: float) -> bool:
    return abs(tried.divergence.value / budget - 1) <= tolerance


def _between(below: Tried, above: Tried, budget: float) -> float:
    """Returns a strength between two, by logarithms."""
    low, high = math.log(below.strength), math.log(above.strength)
    a, b = below.divergence.value, above.divergence.value
    share = math.log(budget / a) / math.log(b / a) if a > 0 else 0.5
    return math.exp(low + min(0.9, max(0.1, share)) * (high - low))

"""Numbers and summaries in words for readers of a page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from levelfield.core.strings import natural
from levelfield.scoring.comparison import (
    ALPHA,
    NOT_COMPARED,
    NOT_SHOWN,
    WITHHELD,
    Comparison,
    better_system,
    differ,
    grounds,
    verdict,
)
from levelfield.scoring.sensitivity import detectable
from levelfield.scoring.standing import Scale, p_value, scale_of
from levelfield.scoring.summary import GroupSummary, MetricSummary
from levelfield.stats.estimate import Estimate

UNNAMED = "(unnamed)"
_NAMED = 3
"""The number of other systems that a sentence names before it only counts them."""


def count(n: int, noun: str) -> str:
    """
    >>> count(1, "sample"), count(2000, "sample")
    ('1 sample', '2,000 samples')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def shown_name(name: str) -> str:
    """Returns a group's name, or a placeholder if it is empty."""
    return name or UNNAMED


def best_first(summary: MetricSummary) -> list[GroupSummary]:
    """Returns the groups by their means, the best first and those without a mean last; the
    highest first where no end of the values is better."""
    sign = 1 if summary.direction == "lower" else -1

    def place(group: GroupSummary) -> tuple[object, ...]:
        mean = group.mean.value
        return math.isnan(mean), 0.0 if math.isnan(mean) else sign * mean, natural(group.group)

    return sorted(summary.groups, key=place)


def ends(estimate: Estimate, scale: Scale) -> str:
    """Returns the ends of an interval, or why there are none."""
    if estimate.why_no_interval:
        return estimate.why_no_interval
    return f"{scale(estimate.low)} to {scale(estimate.high)}"


def headline(summary: MetricSummary, group: str) -> Markup:
    """Returns the results of a metric in one to three sentences."""
    scale = scale_of(summary)
    n, undefined = summary.overall.n, summary.overall.undefined
    if undefined == n:
        reasons = "; ".join(summary.reasons)
        return Markup("No value: the metric is undefined for all {} ({}).").format(
            count(n, "sample"), reasons
        )
    ranked = [g for g in best_first(summary) if g.mean.n]
    best = ranked[0]
    tied = [g for g in ranked[1:] if math.isclose(g.mean.value, best.mean.value)]
    if len(summary.groups) == 1:
        sentences = [Markup("The mean is {}.").format(_mean(best, scale))]
    elif summary.direction == "none":
        defined = [g for g in ranked if not math.isnan(g.mean.value)] or ranked
        sentences = [
            span_of_means(
                [
                    Markup("{} for {}").format(_mean(g, scale), bold_name(g.group))
                    for g in (defined[0], defined[-1])[: len(defined)]
                ]
            ),
            *_shown_apart(summary),
        ]
    elif not summary.comparisons:
        last = ranked[-1]
        sentences = [
            Markup("The means run from {} for {} to {} for {}; {}s are not compared.").format(
                _mean(best, scale),
                bold_name(best.group),
                _mean(last, scale),
                bold_name(last.group),
                group,
            )
        ]
    elif tied:
        names = _listed([bold_name(g.group) for g in (best, *tied)])
        sentences = [Markup("{} share the best mean: {}.").format(names, _mean(best, scale))]
    else:
        sentences = [
            Markup("{} has the best mean: {}.").format(bold_name(best.group), _mean(best, scale))
        ]
    if summary.comparisons and summary.direction != "none":
        subject = bold_name(best.group) if tied else Markup("it")
        sentences += _against_others(summary, best.group, subject, scale)
    if undefined:
        sentences.append(
            Markup("Undefined for {} of {}.").format(f"{undefined:,}", count(n, "sample"))
        )
    return Markup(" ").join(sentences)


def span_of_means(ends: Sequence[Markup]) -> Markup:
    """Returns the highest and the lowest mean in a sentence."""
    if len(ends) == 1:
        return Markup("The mean is {}.").format(ends[0])
    return Markup("The means run from {} to {}; no end is better.").format(*reversed(ends))


def _shown_apart(summary: MetricSummary) -> list[Markup]:
    """Says of how many pairs a difference is shown, where there are any."""
    pairs = len(summary.comparisons)
    apart = sum(map(differ, summary.comparisons))
    return [Markup(f"A difference is shown for {apart:,} of {count(pairs, 'pair')}.")] * bool(pairs)


def _against_others(
    summary: MetricSummary, best: str, subject: Markup, scale: Scale
) -> list[Markup]:
    """Compares the system that has the best mean with each other one.

    Args:
        subject: how sentences name it.
    """
    mine = [c for c in summary.comparisons if best in (c.a, c.b)]
    verdicts: dict[str, list[Comparison]] = {
        kind: [] for kind in ("better", "worse", "open", "withheld", "none")
    }
    for c in mine:
        outcome = verdict(c, summary.direction, alpha=ALPHA)
        if outcome == NOT_COMPARED:
            verdicts["none"].append(c)
        elif outcome == NOT_SHOWN:
            verdicts["open"].append(c)
        elif outcome == WITHHELD:
            verdicts["withheld"].append(c)
        else:
            won = better_system(c, summary.direction) == best
            verdicts["better" if won else "worse"].append(c)
    openings = {
        "better": Markup("On {grounds} {} is better than {}."),
        "worse": Markup("Yet on {grounds} {} is worse than {}."),
        "open": Markup("No difference is shown between {} and {}."),
        "withheld": Markup("Undefined values could reverse the difference between {} and {}."),
    }
    sentences = [
        words.format(
            subject, _compared(verdicts[kind], best, scale), grounds=grounds(verdicts[kind])
        )
        for kind, words in openings.items()
        if verdicts[kind]
    ]
    if verdicts["none"]:
        names = _listed([bold_name(_other(c, best)) for c in verdicts["none"]])
        note = verdicts["none"][0].note
        sentences.append(Markup("{} can't be compared with {}: {}.").format(names, subject, note))
    return sentences


def _compared(comparisons: Sequence[Comparison], best: str, scale: Scale) -> Markup:
    """Returns the nearest systems with the numbers of their comparison, and how many are left."""
    nearest = sorted(comparisons, key=lambda c: abs(c.difference))
    phrases = []
    for c in nearest[:_NAMED]:
        phrases.append(
            Markup('{} <span class="aside">(difference {}, {})</span>').format(
                bold_name(_other(c, best)),
                difference_with_p(c, best, scale),
                count(c.inputs, c.unit),
            )
        )
    rest = len(nearest) - _NAMED
    return _listed([*phrases, *([Markup("{} more").format(rest)] if rest > 0 else [])])


def difference_with_p(comparison: Comparison, system: str, scale: Scale) -> str:
    """Returns how much more a system has than the other one, its interval and its p-value."""
    c, sign = comparison, 1 if comparison.a == system else -1
    low, high = sorted((sign * c.low, sign * c.high))
    interval = "" if math.isnan(low) else f" [{scale(low)}, {scale(high)}]"
    p = p_value(c.p_adjusted)
    adjusted = p if p.startswith("<") else f"= {p}"
    could_show = detectable(c, scale)
    return f"{scale(sign * c.difference)}{interval}, adjusted p {adjusted}" + (
        f", {could_show}" if could_show else ""
    )


def _other(comparison: Comparison, system: str) -> str:
    return comparison.b if comparison.a == system else comparison.a


def _mean(group: GroupSummary, scale: Scale) -> Markup:
    mean = group.mean
    around = "no interval: " if mean.why_no_interval else ""
    return Markup('{} <span class="aside">({}{}, n = {})</span>').format(
        scale(mean.value), around, ends(mean, scale), f"{mean.n:,}"
    )


def bold_name(name: str) -> Markup:
    """Returns a group's name in bold, in the direction of its script."""
    return Markup('<b dir="auto">{}</b>').format(shown_name(name))


def _listed(items: Iterable[Markup | str]) -> Markup:
    """
    >>> str(_listed(["a", "b", "c"]))
    'a, b and c'
    """
    *first, last = [escape(item) for item in items]
    return Markup(", ").join(first) + " and " + last if first else last

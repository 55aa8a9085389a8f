"""Do the judges find wanted values exchanged?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from levelfield.study.audit.comparison import values_asked
from levelfield.study.audit.exact import LEVEL, p_of_shares
from levelfield.study.audit.findings import AuditedStudy, Finding, grouped, only, percent
from levelfield.study.audit.judged import Right, rights, size
from levelfield.study.cells import Cell, CellKey

Pairs = Counter[tuple[str, str]]
"""Wanted value and label -> number of texts."""


def labels_swapped(study: AuditedStudy) -> list[Finding]:
    """Values that judges find exchanged: texts asked for one are found to be another.

    Looked at: each cell of a system, each dataset, and all. Most texts that were asked for a are
    called b by a judge, more than of those that were asked for b (Fisher's p < 1e-7), and these are
    mostly called something else as well. Serious: labels were exchanged in the requests, in the
    texts or for the judges, and what is found right is wrong. With two values, rates are enough; a
    system that is wrong as a whole is told by `control-changes-nothing`. One finding a system and
    kind of control.
    """
    findings = []
    right = rights(study)
    for (system, control), cells in study.systems.items():
        swaps = [
            (own, judge, a, b, pairs)
            for own in _parts(cells)
            for judge, pairs in _confusions(own, right).items()
            for a, b in _swapped(pairs)
        ]
        # of two values, all exchanged are control that works backwards
        whole = any(own is cells for own, *_ in swaps)
        if swaps and not (whole and _two_values(cells)):
            _, judge, a, b, pairs = swaps[0]
            hit = {cell.key: cell for own, *_ in swaps for cell in own}
            seeds = {key.seed for key in hit}
            seed = seeds.pop() if len(seeds) == 1 < len({cell.key.seed for cell in cells}) else None
            where = (system, only(key.dataset for key in hit), control, seed)
            shares = [percent(pairs[x, b], _asked(pairs, x)) for x in (a, b)]
            what = f"values are exchanged: {judge} calls {shares[0]} of the texts asked for {a} {b}"
            what += f", but {shares[1]} of those asked for {b}"
            n, of = (sum(map(size, some)) for some in (hit.values(), cells))
            findings.append(Finding("labels-swapped", "serious", *where, what, n, of))
    return findings


def _parts(cells: Sequence[Cell]) -> Sequence[Sequence[Cell]]:
    """Each cell, each dataset, and all."""
    datasets = grouped(cells, lambda cell: cell.key.dataset).values()
    return [*([cell] for cell in cells), *datasets, cells]


def _two_values(cells: Sequence[Cell]) -> bool:
    return len(set().union(*map(values_asked, cells))) == 2


def _confusions(cells: Sequence[Cell], right: Mapping[CellKey, Right]) -> Mapping[str, Pairs]:
    """Judge -> what it called the texts; from rates, with two values."""
    pairs: dict[str, Pairs] = {}
    for cell in cells:
        for attribute, judges in cell.votes.items():
            for judge, labels in judges.items():
                own = pairs.setdefault(judge, Counter())
                for sample in cell.samples:
                    wanted = sample.control.get(attribute)
                    if isinstance(wanted, str) and sample.id in labels:
                        own[wanted, labels[sample.id]] += 1
        if not cell.votes:
            rates = right.get(cell.key, {})
            for judge, of in grouped(rates, lambda one: one[0]).items():
                values = [value for _, value in of]
                if len(values) == 2:
                    own = pairs.setdefault(judge, Counter())
                    for value, other in (values, values[::-1]):
                        yes, n = rates[judge, value]
                        own[value, value] += yes
                        own[value, other] += n - yes
    return pairs


def _swapped(pairs: Pairs) -> list[tuple[str, str]]:
    """Values a and b: texts asked for a are b, and those asked for b are not."""
    values = sorted({wanted for wanted, _ in pairs})
    of = {value: _asked(pairs, value) for value in values}
    usual = {a: max(values, key=lambda label: pairs[a, label]) for a in values}
    return [
        (a, b)
        for a, b in usual.items()
        if a != b != usual[b]
        and pairs[a, b] * of[b] > pairs[b, b] * of[a]
        and p_of_shares(pairs[a, b], of[a], pairs[b, b], of[b]) < LEVEL
    ]


def _asked(pairs: Pairs, value: str) -> int:
    return sum(n for (wanted, _), n in pairs.items() if wanted == value)

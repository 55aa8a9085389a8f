"""Agreement of the raters, and means of the systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from levelfield.agree.agreement import Agreement
from levelfield.scoring.summary import OVERALL
from levelfield.stats.resampling import Resampling
from levelfield_rating.model import Frozen, Item
from levelfield_rating.results.agreement import SystemMean, reliability, system_means
from levelfield_rating.results.raters import counted
from levelfield_rating.web.organiser.desk import open_desk

RESAMPLING = Resampling(resamples=1_000)
"""Of intervals on pages; fewer than on the command line, as somebody waits."""

_SHOWN_ICC = ("ICC(1,1)", "ICC(2,1)", "ICC(2,k)")

router = APIRouter()


@router.get("/reliability")
def reliability_page(request: Request, everyone: int = 0) -> Response:
    """Shows agreement; `everyone=1` includes excluded raters."""
    desk = open_desk(request)
    store, study = desk.web.store, desk.study
    states = counted(store, excluded=bool(everyone))
    agreement = reliability(study, states, resampling=RESAMPLING)
    z: dict[tuple[str, str], Agreement] = {}
    if agreement.standardised is not None:
        z = {(g.aspect, g.part): g for g in agreement.standardised.groups}
    return desk.page(
        "reliability",
        everyone=bool(everyone),
        agreement=agreement,
        groups=_by_aspect(agreement.raw.groups, study) if agreement.raw else {},
        z=z,
        overall=OVERALL,
        text_of=lambda unit: _text_of(agreement.texts, unit),
        given_of=lambda unit: agreement.texts[unit][0].given,
        notes=_notes(agreement.raw.groups) if agreement.raw else [],
    )


def _by_aspect(groups: Sequence[Agreement], study: Frozen) -> dict[str, list[Agreement]]:
    """Groups of each criterion in the study's order, of all criteria last."""
    by_aspect: dict[str, list[Agreement]] = {criterion.id: [] for criterion in study.criteria}
    for group in groups:
        by_aspect.setdefault(group.aspect, []).append(group)
    return {aspect: groups for aspect, groups in by_aspect.items() if groups}


def _text_of(texts: Mapping[str, tuple[Item, int]], unit: str) -> list[str]:
    item, n = texts[unit]
    chosen = item.candidates if n < 0 else item.candidates[n : n + 1]
    return [candidate.part.text for candidate in chosen]


def _notes(groups: Sequence[Agreement]) -> list[str]:
    """Returns the reasons for missing numbers, each once with its places."""
    where: dict[str, dict[str, None]] = {}
    for group in groups:
        shown = {"α": group.alpha, **{n: icc for n, icc in group.icc.items() if n in _SHOWN_ICC}}
        for name, e in shown.items():
            missing = e.why_undefined or (e.why_no_interval and f"no interval: {e.why_no_interval}")
            for reason in filter(None, (missing, e.note)):
                where.setdefault(f"{name}: {reason}", {})[_place(group)] = None
    return [f"{remark} ({', '.join(places)})" for remark, places in where.items()]


def _place(group: Agreement) -> str:
    return "all surveys" if group.part == OVERALL else f"survey {group.part}"


@router.get("/results")
def results_page(request: Request) -> Response:
    """Means of the systems, without and with those who are excluded."""
    desk = open_desk(request)
    store, study = desk.web.store, desk.study
    counting, everyone = counted(store), counted(store, excluded=True)
    without = system_means(study, counting)
    same = len(counting) == len(everyone)
    full = without if same else system_means(study, everyone)
    rows: dict[str, list[tuple[SystemMean | None, SystemMean]]] = {}
    means = {(m.system, m.criterion): m for m in without}
    for mean in full:
        pair = (means.get((mean.system, mean.criterion)), mean)
        rows.setdefault(mean.criterion, []).append(pair)
    return desk.page(
        "results",
        rows=rows,
        same=same,
        raters=(len(counting), len(everyone)),
    )

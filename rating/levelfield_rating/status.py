"""How far a study is: every rater's progress, negative samples and use of the scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from levelfield.stats.estimate import finite
from levelfield_rating.results.negatives import ControlVerdict, verdict
from levelfield_rating.results.raters import RaterProgress, ScaleUse, progress, spreads
from levelfield_rating.store import RaterState, RatingStore


@dataclass(frozen=True)
class RaterStatus:
    """How far one rater is.

    Attributes:
        excluded: the reason; empty if not excluded.
        scales: id of a criterion -> how they used its scale.
    """

    state: RaterState
    progress: RaterProgress
    verdict: ControlVerdict
    scales: Mapping[str, ScaleUse]
    excluded: str

    @property
    def straight(self) -> list[str]:
        """The criteria that look like straight-lining."""
        return [name for name, use in self.scales.items() if use.straight]

    def to_dict(self) -> dict[str, Any]:
        state = self.state
        return {
            "rater": state.rater,
            "slot": state.slot + 1,
            "phase": state.phase,
            "done": self.progress.done,
            "items": self.progress.items,
            "last_seen": state.last_seen.isoformat() if state.last_seen else None,
            "failed": self.verdict.failed,
            "negative": self.verdict.why,
            "straight": self.straight,
            "scale": {
                name: {
                    "n": use.n,
                    "mean": finite(use.mean),
                    "sd": finite(use.sd),
                    "same": finite(use.same),
                }
                for name, use in self.scales.items()
            },
            "excluded": self.excluded,
            "replaced": state.replaced,
        }


@dataclass(frozen=True)
class RatingStatus:
    """How far a study is."""

    study: str
    version: int
    digest: str
    closed: bool
    slots: int
    raters: tuple[RaterStatus, ...]

    @property
    def done(self) -> int:
        """Raters who are done and still have their slot."""
        return sum(
            rater.state.phase == "done" and not rater.state.replaced for rater in self.raters
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": self.study,
            "version": self.version,
            "digest": self.digest,
            "closed": self.closed,
            "slots": self.slots,
            "raters": [rater.to_dict() for rater in self.raters],
        }


def rating_status(store: RatingStore) -> RatingStatus:
    """Returns how far the study of a store and each of its raters are."""
    frozen, excluded = store.frozen, store.excluded()
    raters = tuple(
        RaterStatus(
            state=state,
            progress=progress(frozen, state),
            verdict=verdict(frozen, state),
            scales=spreads(frozen, state),
            excluded=excluded.get(state.rater, ""),
        )
        for state in store.raters()
    )
    return RatingStatus(
        study=frozen.id,
        version=frozen.version,
        digest=frozen.digest,
        closed=store.closed(),
        slots=len(frozen.slots),
        raters=raters,
    )

"""What metrics lack on this machine to score: models, packages, data; said before any work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from levelfield.core.errors import UserError, first_line
from levelfield.core.metric import (
    LacksModels,
    Metric,
    blame,
    checked_signature,
    held_to_its_contract,
)
from levelfield.io.http import without_the_hub
from levelfield.models.loading import REFERENCE, kinds_of


def ready(metrics: Sequence[Metric], attributes: Collection[str] | None) -> list[str]:
    """The signatures of metrics that have all they need.

    Args:
        attributes: that the texts are wanted to have; None for any.

    Raises:
        UserError: with all that any of them lacks, one line each.
        MetricError: a metric has no signature.
    """
    signatures: list[str] = []
    lacking: dict[str, UserError] = {}
    for metric in metrics:
        try:
            signatures.append(checked_signature(metric))
        except UserError as error:
            lacking |= dict.fromkeys(str(error).splitlines(), error)
            continue
        if isinstance(metric, LacksModels):
            with held_to_its_contract(metric, "can't be asked what it lacks"):
                lacks = list(metric.lacking(attributes))
            if not all(isinstance(error, UserError) for error in lacks):
                raise blame(metric, f"says that it lacks {lacks!r:.80}; expected a UserError each")
            lacking |= {str(error): error for error in lacks}
    if len(lacking) == 1:
        raise next(iter(lacking.values()))
    if lacking:
        raise UserError("\n".join(lacking))
    return signatures


def check_engine(engine: str, signatures: Sequence[str]) -> None:
    """Nothing, if the engine that is named computes something of a run.

    Raises:
        UserError: none of the metrics, whose signatures these are, has a model that it serves.
    """
    if engine in ("auto", REFERENCE):
        return
    if not any(f"engine:{engine}" in signature.split("|") for signature in signatures):
        metrics = ", ".join(signature.partition("|")[0] for signature in signatures)
        raise UserError(
            f"--engine {engine} computes nothing here: it serves models of the kinds "
            f"{', '.join(kinds_of(engine))}, and {metrics} has none; leave it out"
        )


def works_offline(metric: Callable[..., Metric]) -> bool:
    """Whether a metric of this class, with its defaults, has all it needs on this machine; loads no
    model."""
    return not lacks_offline(metric)


def lacks_offline(metric: Callable[..., Metric], attributes: Collection[str] | None = None) -> str:
    """Returns in one line what a metric of this class, with its defaults, lacks without a network;
    empty if nothing. Loads no model.

    Args:
        attributes: as for `ready`.
    """
    try:
        with without_the_hub():
            ready([metric()], attributes)
    except Exception as error:  # whatever a third party's class raises
        return first_line(error)
    return ""

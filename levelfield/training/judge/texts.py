"""The texts a judge is trained and tested on, and what the model card says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.errors import UserError
from levelfield.training.judge.labelled import Labelled, apart, merged, split


@dataclass(frozen=True)
class JudgeTexts:
    """What `build_judge` needs.

    Attributes:
        facts: how the training texts were made, for the card.
        sources: what they are and their licences.
    """

    train: Labelled
    test: Labelled
    facts: Mapping[str, str]
    sources: tuple[str, ...]


def own_texts(
    rows: Labelled, test: Labelled | None, sources: Sequence[str], *, share: float, seed: int
) -> JudgeTexts:
    """Texts of one's own. Without held-out texts a share of the distinct ones is held out.

    Raises:
        UserError: nothing is left to train on, or to try the judge on.
    """
    together = merged(rows)
    train, dropped = together.rows, 0
    if test is None:
        train, test = split(train, share, seed)
    else:
        train, dropped = apart(train, test.texts)
    if not len(train) or not len(test):
        raise UserError(
            f"{len(train):,} texts to train on and {len(test):,} held out: expected some of both"
        )
    facts = {
        "Left out": f"{dropped:,} texts that have something of a held-out one, "
        f"{together.empty:,} without words",
        "Repeated": f"{together.repeated:,} rows",
    }
    return JudgeTexts(train, test, facts, tuple(sources))

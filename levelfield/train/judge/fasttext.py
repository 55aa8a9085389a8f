"""fastText (Joulin et al. 2017) as a judge."""

from __future__ import annotations

import numpy as np

from levelfield.models.contracts import Classifier
from levelfield.models.small.fasttext import describe, library, train_fasttext
from levelfield.train.builder import Workplace
from levelfield.train.judge import JudgeSpec
from levelfield.train.judge.architectures import Architecture, splitter
from levelfield.train.labelled import Labelled
from levelfield.train.loop import HistoryRow

COPIES = 6
"""Lines that a rated text is written as for fastText, which takes one label a line."""


def _train(
    train: Labelled, spec: JudgeSpec, place: Workplace
) -> tuple[Classifier, list[HistoryRow]]:
    targets = train.targets
    if not train.rated:  # equal texts with different labels are few: the most frequent counts
        targets = np.eye(len(train.labels))[targets.argmax(axis=1)]
    repeated = np.repeat(np.arange(len(train)), train.times)
    judge = train_fasttext(
        [train.texts[i] for i in repeated],
        targets[repeated],
        train.labels,
        spec.fasttext,
        seed=spec.seed,
        copies=COPIES if train.rated else 1,
        split=splitter(spec),
    )
    judge.save(place.out, attribute=spec.attribute)
    return judge, []


def _describe(_: Labelled, spec: JudgeSpec) -> str:
    return f"fastText: {describe(spec.fasttext)}"


FASTTEXT = Architecture(_train, _describe, library)

"""The aspects of CTRLEval with one model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.options import choices
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.metrics.ctrleval.patterns import CTRLEvalCoherence, CTRLEvalConsistency
from levelfield.metrics.ctrleval.relevance import CTRLEvalAttributeRelevance
from levelfield.models.resolve import OFFLINE_MODEL

ASPECTS = (CTRLEvalCoherence, CTRLEvalConsistency, CTRLEvalAttributeRelevance)


@dataclass(frozen=True)
class CTRLEval:
    """The three aspects of CTRLEval with one model.

    >>> from levelfield import load_samples
    >>> samples = load_samples(["It rained. We stayed in and read."])
    >>> scores = CTRLEval(aspects=("coherence",)).score(samples)
    >>> scores["coherence"].values.shape
    (1,)

    Args:
        model: hub name, folder, or `offline/minilm`.
        aspects: of coherence, consistency, attribute-relevance.
        options: any option of the aspects' classes; each aspect takes those it has.
    """

    model: str = OFFLINE_MODEL
    aspects: Sequence[str] = ("coherence", "consistency", "attribute-relevance")
    options: Mapping[str, object] | None = None

    def metrics(self) -> dict[str, Metric]:
        """Returns each aspect as a metric of its own.

        Raises:
            UserError: an aspect or an option that does not exist.
        """
        classes = {m.name.removeprefix("ctrleval."): m for m in ASPECTS}
        options = dict(self.options or {})
        if unknown := set(self.aspects) - set(classes):
            raise UserError(
                f"no aspect {', '.join(sorted(unknown))}; there are {', '.join(classes)}"
            )
        names = {name: {*choices(classes[name]), "loading"} for name in self.aspects}
        if unknown := set(options) - set().union(*names.values()):
            raise UserError(f"no option {', '.join(sorted(unknown))} in {', '.join(self.aspects)}")
        return {
            name: classes[name].of(
                model=self.model, **{k: v for k, v in options.items() if k in names[name]}
            )
            for name in self.aspects
        }

    def score(
        self, samples: Sequence[Sample], *, progress: Progress = no_progress
    ) -> dict[str, Scores]:
        """Returns the scores of each aspect."""
        return {
            name: metric.score(samples, progress=progress)
            for name, metric in self.metrics().items()
        }

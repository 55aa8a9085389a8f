"""CTRLEval: coherence, consistency and attribute relevance from ensembles of pattern evaluators.

Ke et al. 2022, "CTRLEval: An Unsupervised Reference-Free Metric for Evaluating Controlled Text
Generation", section 3. A value is S = Σ_j β_j s_j over pattern evaluators E_j = (f_j, g_j), with
s_j what a model says of g_j in the gap of f_j, and β_j weights that sum to 1 (equation 1).

Encoder-decoder models fill the gap: s_j is a log-probability, at most 0, higher is better.
Encoders compare embeddings: s_j is a cosine. Attribute relevance is a probability either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levelfield.core.errors import UserError
from levelfield.core.metric import Metric
from levelfield.core.options import choices
from levelfield.core.progress import Progress, no_progress
from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.metrics.ctrleval.base import combine
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


__all__ = [
    "CTRLEval",
    "CTRLEvalAttributeRelevance",
    "CTRLEvalCoherence",
    "CTRLEvalConsistency",
    "combine",
]

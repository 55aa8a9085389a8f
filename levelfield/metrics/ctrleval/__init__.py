"""CTRLEval: coherence, consistency and attribute relevance from ensembles of pattern evaluators.

Ke et al. 2022, "CTRLEval: An Unsupervised Reference-Free Metric for Evaluating Controlled Text
Generation", section 3. A value is S = Σ_j β_j s_j over pattern evaluators E_j = (f_j, g_j), with
s_j what a model says of g_j in the gap of f_j, and β_j weights that sum to 1 (equation 1).

Encoder-decoder models fill the gap: s_j is a log-probability, at most 0, higher is better.
Encoders compare embeddings: s_j is a cosine. Attribute relevance is a probability either way.
"""

from __future__ import annotations

from levelfield.metrics.ctrleval.base import combine
from levelfield.metrics.ctrleval.family import CTRLEval
from levelfield.metrics.ctrleval.patterns import CTRLEvalCoherence, CTRLEvalConsistency
from levelfield.metrics.ctrleval.relevance import CTRLEvalAttributeRelevance

__all__ = [
    "CTRLEval",
    "CTRLEvalAttributeRelevance",
    "CTRLEvalCoherence",
    "CTRLEvalConsistency",
    "combine",
]

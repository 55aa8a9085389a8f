"""Composite scores: equally weighted parts, on the scales of reference text.

A composite score is the mean of K standardised components, S = (1/K) Σ_k (x_k − μ_k) / σ_k, which
puts measurements in different units on one scale (the unit-weighted composite; Wainer 1976,
"Estimating coefficients in linear models: It don't make no nevermind"). Here the components of an
aspect of CTRLEval (Ke et al. 2022) are what an encoder, a causal language model and a judge say of
it. μ_k and σ_k come from reference text, never from ratings, and neither do the weights.
"""

from __future__ import annotations

from levelfield.metrics.composite.aspects import (
    CompositeAttributeRelevance,
    CompositeCoherence,
    CompositeConsistency,
)

__all__ = ["CompositeAttributeRelevance", "CompositeCoherence", "CompositeConsistency"]

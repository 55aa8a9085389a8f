"""Discriminative CDM: how much likelier a text is to a large model of a family than to a small one.

Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution Methods", section 3.4.2.
With p_e the expert (large) and p_a the amateur (small), each token x_t of a text has the momentum
m_t = log p_e(x_t | …) − log p_a(x_t | …), in nats; the sequence of them is pooled into one value.
"""

from __future__ import annotations

from levelfield.metrics.cdm.momentum import CDMMomentum
from levelfield.metrics.cdm.pairs import UnitMomentum

__all__ = ["CDMMomentum", "UnitMomentum"]

"""Discriminators: small classifiers that tell human texts from negatives.

Line 12 of Algorithm 1 in Lu et al. 2024, "Open-Domain Text Evaluation via Contrastive Distribution
Methods", section 3.4.1, and the self-supervised baselines of CTRLEval's section 4.3. Negatives
come from a sampler (`training.cdm.negatives`), from rules (`training.cdm.perturb`), or from
something else.

A training example is a pair, a positive and its negative, and each step sees as many of one as of
the other. The value of a text is P(positive | text), which `discriminator.score` reports.
"""

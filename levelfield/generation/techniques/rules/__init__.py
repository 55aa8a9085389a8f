"""Baselines that rewrite without a model: a copy, and rules of formality."""

"""Measuring the measures: summaries with honest uncertainty, comparisons of systems."""

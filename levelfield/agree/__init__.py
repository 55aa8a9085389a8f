"""Metrics against people, and people against each other: `correlate` and `agreement`."""

"""Exports of the store: ratings for other commands, and all that explains them."""

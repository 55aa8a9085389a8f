"""Guides: what techniques of controlled generation learn on a base, from labelled texts."""

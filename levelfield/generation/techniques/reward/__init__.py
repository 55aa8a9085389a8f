"""Techniques that score texts while they write."""

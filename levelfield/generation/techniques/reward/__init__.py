"""Techniques that ask what a text is worth while they write."""

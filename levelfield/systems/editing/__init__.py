"""Techniques that write a text by editing it."""

"""Prompting: words before a text, for a model on this machine or on a server."""

"""Techniques of controlled generation: a file or a folder each, with its network, its loader and
its training.
"""

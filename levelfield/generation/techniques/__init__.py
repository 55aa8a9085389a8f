"""Techniques of controlled generation: a file or a folder a family, with its network, its loader and
its training.
"""

"""Techniques of controlled generation: a file or a folder a family, with its networks and their
training.
"""

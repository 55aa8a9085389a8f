"""Decoding: how models write text, for training and for systems."""

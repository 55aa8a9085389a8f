"""Encoder-decoders that learn to rewrite from pairs."""

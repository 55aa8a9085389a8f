"""Techniques with latent prefixes: MultiCTG and PriorCTG."""

"""The version, in one place, and the version that signatures name."""

__version__ = "0.2.0"

SIGNED = "0.1.0"
"""Version in signatures. A release raises it only if a value changes that no choice in its
signature tells apart, so scores, caches and studies of earlier releases stay comparable."""

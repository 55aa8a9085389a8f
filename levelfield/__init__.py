"""levelfield measures generated text, and measures the measures."""

__version__ = "0.1.0"

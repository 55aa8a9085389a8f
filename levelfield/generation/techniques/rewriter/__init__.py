"""A fine-tuned encoder-decoder that rewrites a source."""

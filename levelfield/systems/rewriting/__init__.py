"""Techniques that rewrite a source: a copy, rules, a fine-tuned encoder-decoder."""

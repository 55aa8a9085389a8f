"""Techniques that act at the logits: an algebra of terms, and the processor that applies it."""

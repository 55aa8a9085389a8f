"""Models in PyTorch, the reference engine."""

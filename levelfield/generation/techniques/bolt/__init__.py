"""BOLT: biases at the logits, tuned by gradients through whole continuations."""

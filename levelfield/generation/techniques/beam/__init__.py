"""Constrained beam search: likely texts that have every keyword."""

"""Steering: techniques that change the states of a causal model while it reads and writes."""

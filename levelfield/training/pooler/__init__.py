"""Training of poolers: linear models from the momentum of a text to its rating."""

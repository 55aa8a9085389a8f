"""Training of the small models that metrics and techniques use."""

"""Training of the small models behind metrics."""

"""What a metric needs of a model, and nothing more. Nothing here knows of metrics."""

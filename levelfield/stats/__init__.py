"""Statistics of arrays: it knows nothing of samples."""

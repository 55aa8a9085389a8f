"""From samples to scores, summaries and comparisons: `score` and `compare`."""

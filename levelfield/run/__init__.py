"""What a command over files does: score, keep, resume."""

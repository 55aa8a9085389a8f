"""What everything rests on: samples, scores, metrics, signatures, errors."""

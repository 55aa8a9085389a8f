"""Ratings in numbers: by rater, negative sample, sample and system, and their agreement."""

"""The pages of the rating app: what a rater sees, and what the organiser sees."""

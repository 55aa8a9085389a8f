"""What leaves the store: ratings for other commands, and all that explains them."""

"""One recipe a paper: from released data to the numbers of its tables."""

"""What `levelfield correlate` and `levelfield agreement` do: metrics against people, and people against each other."""

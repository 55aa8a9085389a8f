"""Search for likely texts that have what is asked of them."""

"""The metrics that come with levelfield, one family a file."""

"""What `levelfield score` and `levelfield compare` do over files: score, keep, resume, summarise, compare."""

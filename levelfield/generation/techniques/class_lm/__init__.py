"""Techniques with class-conditional language models: CTRL-lite, DExperts, GeDi."""

"""Asking a system for the texts of a cell: commands, callables, files that exist already."""

"""Puts the helpers of this folder (`studies`, `clean_study`) in reach of the folders in it."""

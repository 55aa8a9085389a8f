"""Editors: what CBART (He 2021) writes with, trained on sentences that are corrupted here."""

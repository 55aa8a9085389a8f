"""Human-rated sets, prompt sets and labelled sets by name, at one commit each.

>>> from levelfield import datasets
>>> "ctrleval" in datasets.names()
True
>>> len(datasets.prompts("pplm"))
35
"""

from levelfield.datasets import lpf
from levelfield.datasets.loading import choices, load, paths
from levelfield.datasets.lpf import PublishedRun
from levelfield.datasets.prompts import PROMPT_SETS, prompts, wordlist
from levelfield.datasets.registry import DataSet, dataset, names

__all__ = [
    "PROMPT_SETS",
    "DataSet",
    "PublishedRun",
    "choices",
    "dataset",
    "load",
    "lpf",
    "names",
    "paths",
    "prompts",
    "wordlist",
]

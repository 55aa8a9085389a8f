"""levelfield measures generated text, and measures the measures."""

from levelfield.core.sample import Sample
from levelfield.core.scores import Scores
from levelfield.io import load_samples
from levelfield.metrics.ctrleval import CTRLEval
from levelfield.version import __version__

__all__ = [
    "CTRLEval",
    "Sample",
    "Scores",
    "__version__",
    "load_samples",
]

"""levelfield measures generated text, measures the measures, and generates text under control.

The verbs are imported when they are first used, so that `import levelfield` is quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

from levelfield.version import __version__

if TYPE_CHECKING:
    from levelfield.agree.agreement import agreement
    from levelfield.agree.estimate import estimate
    from levelfield.agree.evaluation import correlate
    from levelfield.agree.preference import preferences
    from levelfield.agree.strengths import strengths
    from levelfield.cli.terminal import progress_bar
    from levelfield.core.sample import Sample
    from levelfield.core.scores import Scores
    from levelfield.generation.calibration import calibrate_strength
    from levelfield.generation.run import generate
    from levelfield.io.opening import load_samples
    from levelfield.metrics.function_metric import metric
    from levelfield.planning.metrics import plan_metrics
    from levelfield.planning.raters import plan_raters
    from levelfield.planning.systems import plan_systems
    from levelfield.scoring.compare import compare
    from levelfield.scoring.run import score

__all__ = [
    "Sample",
    "Scores",
    "__version__",
    "agreement",
    "calibrate_strength",
    "compare",
    "correlate",
    "estimate",
    "generate",
    "load_samples",
    "metric",
    "plan_metrics",
    "plan_raters",
    "plan_systems",
    "preferences",
    "progress_bar",
    "score",
    "strengths",
]

_MODULES = {
    "Sample": "levelfield.core.sample",
    "Scores": "levelfield.core.scores",
    "agreement": "levelfield.agree.agreement",
    "calibrate_strength": "levelfield.generation.calibration",
    "compare": "levelfield.scoring.compare",
    "correlate": "levelfield.agree.evaluation",
    "estimate": "levelfield.agree.estimate",
    "generate": "levelfield.generation.run",
    "load_samples": "levelfield.io.opening",
    "metric": "levelfield.metrics.function_metric",
    "plan_metrics": "levelfield.planning.metrics",
    "plan_raters": "levelfield.planning.raters",
    "plan_systems": "levelfield.planning.systems",
    "preferences": "levelfield.agree.preference",
    "progress_bar": "levelfield.cli.terminal",
    "score": "levelfield.scoring.run",
    "strengths": "levelfield.agree.strengths",
}
"""Where each of them is."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'levelfield' has no attribute '{name}'")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
